"""Verification: any bytes in, a graded report out ([V1]-[V7]).

It writes nothing, opens no network, and believes nothing that does not re-hash. Not for a SQLite file that the calling
process has open for writing: reading it beside SQLite and closing it drops that process's locks.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from .anchors import load_kept, load_pin, load_witness
from .audit import Asked, Audit, Progress
from .limits import not_proven
from .openings import verify_receipt
from .report import Finding, Findings, Form, Report
from .sources import CannotRead, NotALedger, open_source, recognise
from .tools import STANDARD, Tools

__all__ = ["CannotRead", "Options", "Progress", "Report", "Tools", "verify"]

_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for. `pin` is a pin or a file that holds one; `since` and `against` name files; `witnesses` are
    verifier keys, or files that hold them.
    """

    deep: bool = False
    strict: bool = False
    since: str | None = None
    pin: str | None = None
    against: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()
    all_signatures: bool = False
    jobs: int | None = None


PLAIN = Options()
"""Chain, tree, form and the signatures that seal; nothing brought along."""


def verify(
    path: str | Path, options: Options = PLAIN, tools: Tools = STANDARD, progress: Progress | None = None
) -> Report:
    """Verify a ledger, an export or a receipt.

    CannotRead is raised for what the caller got wrong: a path with nothing there, a file of his that is no anchor.
    """
    place = Path(path)
    asked = _asked(options)
    form = recognise(place)
    try:
        if form == "receipt":
            return verify_receipt(place, pin=asked.pin, against=asked.anchors(), witnesses=asked.witnesses, tools=tools)
        return _steady(place, asked, tools, progress)
    except NotALedger as error:
        return _failed(place, "not_a_ledger", f"not a ledger: {error}{_belonging(place, form)}")
    except CannotRead:
        raise
    except OSError as error:
        # A disk that fails says nothing of the bytes on it.
        raise CannotRead(f"cannot read {place}: {error.strerror or error}") from error
    except MemoryError as error:
        # Nor does a machine that is too small for them.
        raise CannotRead(f"cannot read {place}: it takes more memory than there is") from error
    except Exception as error:  # noqa: BLE001
        # The last resort that keeps verification total ([V1]): what was not foreseen is a finding, never a traceback.
        return _failed(
            place, "internal", f"the verifier stumbled over this input: {type(error).__name__}: {error!s:.200}"
        )


def _asked(options: Options) -> Asked:
    return Asked(
        # --strict asks for nothing pending, which only a look at the bodies can tell ([V5]).
        deep=options.deep or options.strict,
        strict=options.strict,
        since=load_kept(options.since) if options.since is not None else None,
        pin=load_pin(options.pin) if options.pin is not None else None,
        against=tuple(load_kept(each) for each in options.against),
        witnesses=tuple(dict.fromkeys(load_witness(each) for each in options.witnesses)),
        all_signatures=options.all_signatures,
        jobs=options.jobs,
    )


def _steady(place: Path, asked: Asked, tools: Tools, progress: Progress | None) -> Report:
    """Verify one state of the files, beginning anew when they move under the reading."""
    for tried in range(_TRIES):
        findings = Findings()
        source = open_source(place, findings, moving=tried > 0)
        try:
            report = Audit(str(place), source, asked, findings, tools=tools, progress=progress).run()
            unchanged = source.unchanged()
        finally:
            source.close()
        if unchanged:
            break
    else:
        message = "the files changed while they were read, again and again; verify a copy of them"
        report = replace(report, findings=(*report.findings, Finding(code="moving", grade="warning", message=message)))
    limits = not_proven(report, pinned=asked.pin is not None, anchored=bool(asked.anchors()), deep=asked.deep)
    return replace(report, not_proven=limits)


def _belonging(place: Path, form: Form) -> str:
    """Where a file of the caller's belongs that is held against a ledger. It stays a failure: what lies where a ledger is
    looked for may have been put there by whoever took the ledger away."""
    if form != "unknown" or not place.is_file():
        return ""
    for what, load, flag in (
        ("a checkpoint or a consistency file", load_kept, "--against or --since"),
        ("a pin", load_pin, "--pin"),
    ):
        with suppress(CannotRead):
            load(str(place))
            return f"; they are {what}: name the ledger, and this file behind {flag}"
    return ""


def _failed(place: Path, code: str, message: str) -> Report:
    finding = Finding(code=code, grade="structure", message=message)
    return Report(
        path=str(place),
        form="unknown",
        findings=(finding,),
        not_proven=("anything: the bytes could not be read as a ledger",),
    )
