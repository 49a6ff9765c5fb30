"""Is a reviser's text better than what it revises? Shorter, no less to the point, and with everything that must survive. Pure."""

import re
from collections import Counter

from hansard.domain.value import value
from hansard.orchestration.checks.intent import intent
from hansard.orchestration.checks.markdown import code_blocks, prose
from hansard.orchestration.checks.scripts import MAX_CHARACTERS, links, normal, words

_TARGET = re.compile(r"\]\([ \t]{0,9}<?([^\s()<>]{1,2000})")


@value
class Revision:
    """A proposal, measured. `why` says what speaks against it, and is empty when nothing does."""

    accepted: bool
    words_before: int
    words_after: int
    coverage_before_ppm: int
    coverage_after_ppm: int
    why: str


def accept_revision(request: str, before: str, after: str) -> Revision:
    """Whether a revised answer may stand for the answer."""
    was, now = intent(request, before), intent(request, after)
    words_before, words_after = _words(before), _words(after)
    objections = (
        (not after.strip(), "it is empty"),
        (words_after >= words_before, "it is not shorter"),
        (now.score_ppm < was.score_ppm, "it covers less of the request"),
        (now.flagged and not was.flagged, f"its intent is in doubt: {now.why}"),
        (_code(before) != _code(after), "its code differs"),
        (_links(before) != _links(after), "its links differ"),
    )
    why = next((reason for holds, reason in objections if holds), "")
    return Revision(
        accepted=not why,
        words_before=words_before,
        words_after=words_after,
        coverage_before_ppm=was.score_ppm,
        coverage_after_ppm=now.score_ppm,
        why=why,
    )


def _words(text: str) -> int:
    """The words of the whole prose, counted in pieces: `normal` takes the beginning of what is longer than one."""
    said = prose(text)
    return sum(words(normal(said[at : at + MAX_CHARACTERS])) for at in range(0, len(said), MAX_CHARACTERS))


def _code(text: str) -> Counter[tuple[str, str]]:
    return Counter(
        (block.language, "\n".join(line.rstrip() for line in block.text.splitlines()).strip())
        for block in code_blocks(text)
    )


def _links(text: str) -> frozenset[str]:
    """The addresses that a text names, and whatever else it points to: a file, a section, somebody's mail."""
    return links(text) | frozenset(target for target in _TARGET.findall(prose(text)) if "://" not in target)
