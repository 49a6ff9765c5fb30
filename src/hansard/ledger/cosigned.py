"""Which witnesses vouch for a log, and for how much of it ([W5]).

A cosignature is its own proof, wherever it lay. It counts where the log has the root that was cosigned: that is for whoever
hands the notes in to have compared.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .brackets import Brackets
from .canonical import Malformed
from .events import Noted, read_note
from .note import Check, VerifierKey, open_note
from .report import Findings, Witnessed
from .sources.base import Source

_TRIED = 16
"""Of the tokens that name a witness so many are tried, the newest ones. Whoever records forged ones hides his own good ones."""


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


def on_record(source: Source, brackets: Brackets, origin: str, keys: Iterable[VerifierKey]) -> list[Shown]:
    """The newest checkpoints that stand in the log itself and name these witnesses: tokens of anchors that agree with it."""
    newest: dict[tuple[str, bytes], deque[Shown]] = {(key.name, key.key_id): deque(maxlen=_TRIED) for key in keys}
    for seq, token in source.tokens(brackets.by_witnesses()):
        try:
            noted = read_note(token)
        except Malformed:
            continue
        seen = noted.checkpoint
        if (seen.origin, seen.size, seen.root.hex()) == (origin, *brackets.seen(seq)):
            for name in {(each.name, each.key_id) for each in noted.note.signatures} & newest.keys():
                newest[name].append(Shown(f"the token of entry {seq}", noted))
    return [each for found in newest.values() for each in found]
