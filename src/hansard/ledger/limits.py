"""What a verification does not show, in plain sentences; a verdict without them would claim too much ([V3])."""

from collections.abc import Iterator

from .report import Report


def not_proven(report: Report, *, pinned: bool, anchored: bool, deep: bool) -> tuple[str, ...]:
    """The limits of this report, given what the verifier brought along."""
    return tuple(_limits(report, pinned=pinned, anchored=anchored, deep=deep))


def _limits(report: Report, *, pinned: bool, anchored: bool, deep: bool) -> Iterator[str]:
    if report.custody == "none":
        yield "who wrote this log, and that it was not rewritten as a whole: it is unsigned"
    elif not pinned:
        yield "that this log was not rebuilt from scratch: no pin was given, so its keys are its own claim"
    if report.receipt:
        yield "anything about other entries of the log, or that its epoch key was still in force at this size"
        if report.signed.epochs > 1:
            yield "that its epoch key was brought in by the one before: whether that rotation is sealed, only the ledger shows"
    else:
        yield from _ledger_limits(report, anchored=anchored, deep=deep)
    if report.signed.identity is not None:
        yield "that retired private keys were destroyed: whoever kept them all can rebuild the log"
    if report.witnessed:
        yield "that a witness is somebody else than the keeper of this log: whoever asks for its word must know whose it is"
    yield "the times: ts is the writer's claim" + (
        f", and {'other' if report.witnessed else 'the'} tokens of recorded anchors were not checked"
        if report.brackets
        else ""
    )
    yield "that what was recorded is true, or that everything that happened was recorded"


def _ledger_limits(report: Report, *, anchored: bool, deep: bool) -> Iterator[str]:
    if report.unread_prefix:
        yield (
            f"anything about the {report.unread_prefix} entries before --since that was not proven when that checkpoint was kept:"
            " they were not read but for those that name keys, and one of these may have been taken away"
        )
        if report.form == "sqlite":
            yield "that the indexes of the database answer as the lines do: with --since they were not checked"
    if report.form == "jsonl":
        yield "that an index beside it (NAME.index) hides nothing: it was not read; delete it, and it is made anew from the lines"
    if report.unsealed_tail and report.custody != "none":
        yield f"that the {report.unsealed_tail} entries past size {report.signed.sealed_to} stay as they are: no checkpoint seals them"
    if not anchored:
        yield "that this is the newest state: nothing kept elsewhere was compared (--against), so a cut tail may have left no trace"
    if not deep and report.bodies.parts:
        yield "that the bodies are there and unchanged: they were not read (--deep)"
