"""Which witnesses vouch for a log, and for how much of it ([W5]).

A cosignature is its own proof, wherever it lay. It counts where the log has the root that was cosigned: that is for whoever
hands the notes in to have compared.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .canonical import Malformed
from .events import Anchored, Noted, read_note
from .note import Check, VerifierKey, open_note
from .report import Findings, Witnessed
from .sources.base import Source


class Shown(NamedTuple):
    """A checkpoint that the log agrees with, and where it was found."""

    what: str
    noted: Noted


def witnessed(
    keys: Iterable[VerifierKey], shown: Iterable[Shown], findings: Findings, check: Check
) -> tuple[Witnessed, ...]:
    """For each of these witnesses the largest size that it cosigned; a finding where there is none."""
    newest_first = sorted(shown, key=lambda each: each.noted.size, reverse=True)
    found = (_by(key, newest_first, findings, check) for key in keys)
    return tuple(each for each in found if each)


def _by(key: VerifierKey, newest_first: Sequence[Shown], findings: Findings, check: Check) -> Witnessed | None:
    for what, noted in newest_first:
        try:
            times = dict(open_note(noted.note, [key], check).cosigned)
        except Malformed as error:
            findings.add("cosignature", "warning", f"{what}: {error}")
            continue
        if key in times:
            return Witnessed(name=key.name, size=noted.size, time_s=times[key])
    message = (
        f"[W5] nothing that was shown is cosigned by {key.name!r:.80}: give the checkpoint that it cosigned (--against)"
    )
    findings.add("not_witnessed", "grade", message)
    return None


def on_record(source: Source, anchored: Iterable[Anchored], origin: str) -> list[Shown]:
    """The cosigned checkpoints that stand in the log itself: the tokens of these recorded anchors, which agree with it."""
    wanted = {each.seq: (origin, each.size, each.root) for each in anchored if each.by == "witness"}
    if not wanted:
        return []
    found = []
    for stored in source.bodies(min(wanted), max(wanted) + 1):
        if stored.seq not in wanted:
            continue
        try:
            noted = read_note(stored.body)
        except Malformed:
            continue
        seen = noted.checkpoint
        if (seen.origin, seen.size, seen.root.hex()) == wanted[stored.seq]:
            found.append(Shown(f"the token of entry {stored.seq}", noted))
    return found
