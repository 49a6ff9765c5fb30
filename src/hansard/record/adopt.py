"""What a new log says of the old one that it goes on from: origin, size and root, once the old one has been verified.

After a genuine restore the old log may not grow: somebody may have seen more of it. A new log names it in its genesis
instead, and the old one stays as it is, to be read.
"""

from pathlib import Path

from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.ledger.checkpoint import Checkpoint
from hansard.ledger.entry import NONCE
from hansard.ledger.form import read
from hansard.ledger.report import Findings, Report
from hansard.ledger.sources import CannotRead, NotALedger, open_source
from hansard.record.imports import verified


@value
class Adopted:
    """The state of the old log for the new one's genesis, the nonce that names its keys, and the report on it."""

    state: Checkpoint
    nonce: str
    report: Report


def adopt(old: Path, shown: str | None = None) -> Adopted:
    """Verify the old log, a ledger or an export of one, and give its state. Its bodies are not opened.

    A log in a database server is adopted by its export, which is named as `shown`.
    """
    report = verified(old, pin=None, deep=False, shown=shown)
    if report.origin is None or report.root is None or not report.size:
        raise UsageError(f"{report.path} does not say which log it is; there is nothing to adopt")
    state = Checkpoint(origin=report.origin, size=report.size, root=bytes.fromhex(report.root))
    return Adopted(state=state, nonce=_nonce(old, report), report=report)


def _nonce(old: Path, report: Report) -> str:
    """The nonce of a log that verified; where it is not of its form, no keys of it can be here."""
    try:
        source = open_source(old, Findings())
    except (CannotRead, NotALedger) as error:
        raise UsageError(f"cannot read {report.path}: {error}") from error
    try:
        nonce = next((str(read(line).data.get("nonce")) for _, line in source.lines(0, 1)), "")
    finally:
        source.close()
    return nonce if NONCE.fullmatch(nonce) else "none"
