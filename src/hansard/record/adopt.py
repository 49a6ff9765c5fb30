"""What a new log says of the old one that it goes on from: origin, size and root, once the old one has been verified.

After a genuine restore the old log may not grow: somebody may have seen more of it. A new log names it in its genesis
instead, and the old one stays as it is, to be read.
"""

from collections.abc import Mapping
from pathlib import Path

from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.ledger.canonical import Json
from hansard.ledger.checkpoint import Checkpoint
from hansard.ledger.entry import NONCE
from hansard.ledger.form import read
from hansard.ledger.report import Findings, Report
from hansard.ledger.sources import CannotRead, NotALedger, open_source
from hansard.record.imports import verified


@value
class Adopted:
    """The state of the old log for the new one's genesis, the nonce that names its folder, whether it has keys, and the report
    on it."""

    state: Checkpoint
    nonce: str
    is_signed: bool
    report: Report


def adopt(old: Path, shown: str | None = None) -> Adopted:
    """Verify the old log, a ledger or an export of one, and give its state. Its bodies are not opened.

    A log in a database server is adopted by its export, which is named as `shown`.
    """
    report = verified(old, pin=None, deep=False, shown=shown)
    if report.origin is None or report.root is None or not report.size:
        raise UsageError(f"{report.path} does not say which log it is; there is nothing to adopt")
    state = Checkpoint(origin=report.origin, size=report.size, root=bytes.fromhex(report.root))
    genesis = _genesis(old, report)
    nonce = str(genesis.get("nonce"))
    # Where it is not of its form, no keys of it can be here.
    nonce = nonce if NONCE.fullmatch(nonce) else "none"
    return Adopted(state=state, nonce=nonce, is_signed=genesis.get("custody") == "file", report=report)


def _genesis(old: Path, report: Report) -> Mapping[str, Json]:
    """What the first entry of a log says that verified."""
    try:
        source = open_source(old, Findings())
    except (CannotRead, NotALedger) as error:
        raise UsageError(f"cannot read {report.path}: {error}") from error
    try:
        return next((read(line).data for _, line in source.lines(0, 1)), {})
    finally:
        source.close()
