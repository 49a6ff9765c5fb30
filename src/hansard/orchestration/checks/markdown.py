"""A text of Markdown as flat blocks: paragraphs, list items, table cells, headings, code. Pure.

Enough to measure prose and to find code, and no more: a text that is no good Markdown still comes out as blocks.
"""

import re
from collections.abc import Iterator
from typing import Literal

from hansard.domain.value import value

Kind = Literal["prose", "item", "cell", "heading", "code"]

_FENCE = re.compile(r"^([ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)$")
_ITEM = re.compile(
    r"^[ \t]*(?:[-*+•·‣◦–][ \t]+|\(?\d{1,3}(?:[.)][ \t]+|、)|\(?[a-zA-Z]\)[ \t]+|[①-⑳]|[一二三四五六七八九十]{1,3}、)"
)
_HEADING = re.compile(r"^#{1,6}[ \t]+")
_RULE = re.compile(r"^[ \t|:=*_-]*$")
_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+")


@value
class Block:
    """A piece of a text. `language` and `closed` speak of code only."""

    kind: Kind
    text: str
    language: str = ""
    closed: bool = True


def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of a text, in order."""
    lines = text.splitlines()
    found: list[Block] = []
    kind: Kind = "prose"
    held: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if (fence := _FENCE.match(line)) and "`" not in fence[3]:
            _close(found, kind, held)
            block, at = _code(lines, at, fence)
            found.append(block)
            continue
        at += 1
        line = _QUOTE.sub("", line)
        starts = _start(line)
        if starts is not None or not line.strip():
            _close(found, kind, held)
            kind = "prose"
        if starts == "cell":
            found += _cells(line)
        elif starts == "heading":
            found.append(Block(kind="heading", text=_HEADING.sub("", line)))
        elif starts == "item":
            kind = "item"
            held.append(_ITEM.sub("", line))
        elif not _RULE.match(line):
            held.append(line)
    _close(found, kind, held)
    return tuple(found)


def prose(text: str) -> str:
    """Everything but the code."""
    return "\n".join(block.text for block in blocks(text) if block.kind != "code")


def code_blocks(text: str) -> tuple[Block, ...]:
    """The fenced code of a text."""
    return tuple(block for block in blocks(text) if block.kind == "code")


def _start(line: str) -> Kind | None:
    if _HEADING.match(line):
        return "heading"
    if line.lstrip().startswith("|") and line.count("|") > 1:
        return "cell"
    if _ITEM.match(line) and not _RULE.match(line):
        return "item"
    return None


def _cells(line: str) -> Iterator[Block]:
    if not _RULE.match(line):
        yield from (Block(kind="cell", text=cell.strip()) for cell in line.split("|") if cell.strip())


def _close(found: list[Block], kind: Kind, held: list[str]) -> None:
    if held:
        found.append(Block(kind=kind, text="\n".join(held)))
        held.clear()


def _code(lines: list[str], at: int, fence: re.Match[str]) -> tuple[Block, int]:
    """The code that begins at this line, without the indentation of its fence, and where to read on."""
    lead, marks, about = fence.groups()
    language = (about.split() or [""])[0].lower()
    quoted = ">" in lead
    width = len(lead.expandtabs(4))
    held: list[str] = []
    for end in range(at + 1, len(lines)):
        line = _QUOTE.sub("", lines[end]) if quoted else lines[end]
        bare = line.strip()
        if len(bare) >= len(marks) and not bare.strip(marks[0]):
            return Block(kind="code", text="\n".join(held), language=language), end + 1
        held.append(line if quoted else _dedented(line, width))
    return Block(kind="code", text="\n".join(held), language=language, closed=False), len(lines)


def _dedented(line: str, width: int) -> str:
    lead = len(line) - len(line.lstrip(" "))
    return line[min(lead, width) :]
