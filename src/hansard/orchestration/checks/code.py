"""The floor for code in an answer: it parses, it is formatted, its functions are not overlong. Nothing is ever run. Pure.

What has no parser here has its brackets counted at most; an unnamed language is left alone. Size and depth are bounded first.
"""

import ast
import json
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

from hansard.domain.strict_toml import read_toml
from hansard.domain.value import value
from hansard.orchestration.checks.brackets import LANGUAGES, MAX_DEPTH, depth, unbalanced
from hansard.orchestration.checks.markdown import Block, code_blocks

MAX_TEXT, MAX_BLOCK, MAX_BLOCKS = 2_000_000, 200_000, 200
LINE_LENGTH, FUNCTION_LINES = 120, 60

_PYTHON = frozenset({"python", "py", "python3"})
_SESSION = frozenset({"pycon", "doctest"})
_PROMPT = re.compile(r"^\s*(?:>>>|\.\.\.)(?: |$)")


@value
class Finding:
    """What is wrong with one block; blocks count from 1."""

    block: int
    language: str
    rule: str
    detail: str


@value
class CodeReport:
    """What the floor says of the code in an answer."""

    blocks: int
    findings: tuple[Finding, ...]

    @property
    def flagged(self) -> bool:
        return bool(self.findings)


def code(answer: str) -> CodeReport:
    """The findings on every fenced block of an answer."""
    found = code_blocks(answer[:MAX_TEXT])
    findings = [
        Finding(block=number, language=block.language, rule=rule, detail=detail)
        for number, block in enumerate(found[:MAX_BLOCKS], start=1)
        for rule, detail in _look(block)
    ]
    findings += [
        Finding(
            block=min(len(found), MAX_BLOCKS) + 1,
            language="",
            rule="size",
            detail=f"{what}: the rest was not looked into",
        )
        for what, is_more in (
            (f"more than {MAX_BLOCKS} blocks", len(found) > MAX_BLOCKS),
            (f"more than {MAX_TEXT:,} characters", len(answer) > MAX_TEXT),
        )
        if is_more
    ]
    return CodeReport(blocks=len(found), findings=tuple(findings))


def _look(block: Block) -> Iterator[tuple[str, str]]:
    if not block.closed:
        yield "closed", "the block has no closing fence"
    if len(block.text) > MAX_BLOCK:
        yield "size", f"more than {MAX_BLOCK:,} characters: it was not looked into"
        return
    parse = _PARSERS.get(block.language)
    if parse is not None and depth(block.text) > MAX_DEPTH:
        yield "parses", f"brackets stand more than {MAX_DEPTH} deep: it was not parsed"
    elif parse is not None:
        yield from _parsed(parse, block.text)
    elif block.language in LANGUAGES and (fault := unbalanced(block.text, block.language)):
        yield "brackets", fault
    if block.language in LANGUAGES | _PYTHON:
        yield from _format(block.text)


def _parsed(parse: Callable[[str], Iterator[tuple[str, str]]], text: str) -> Iterator[tuple[str, str]]:
    try:
        yield from list(parse(text))
    except SyntaxError as error:
        yield "parses", f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        yield "parses", "it is nested too deep to be parsed"
    except ValueError as error:
        yield "parses", str(error)[:200]


def _python(text: str) -> Iterator[tuple[str, str]]:
    source = _typed(text) if _PROMPT.match(text) else textwrap.dedent(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield "length", f"function {node.name} has {lines} lines, more than {FUNCTION_LINES}"


def _typed(session: str) -> str:
    """What a person typed in a recorded session."""
    return "\n".join(_PROMPT.sub("", line) for line in session.splitlines() if _PROMPT.match(line))


def _json(text: str) -> Iterator[tuple[str, str]]:
    json.loads(text, parse_constant=_no_constant, parse_int=len, parse_float=len)
    return iter(())


def _json_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in filter(str.strip, text.splitlines()):
        _json(line)
    return iter(())


def _toml(text: str) -> Iterator[tuple[str, str]]:
    read_toml(text)
    return iter(())


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _format(text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    long = [number for number, line in enumerate(lines, start=1) if len(line) > LINE_LENGTH]
    if long:
        yield "format", f"line {long[0]} has {len(lines[long[0] - 1])} characters, more than {LINE_LENGTH}"
    if any(line.startswith("\t") for line in lines) and any(line.startswith("  ") for line in lines):
        yield "format", "tabs and spaces are mixed in the indentation"
    trailing = [number for number, line in enumerate(lines, start=1) if line != line.rstrip()]
    if trailing:
        yield "format", f"line {trailing[0]} ends in blanks"


_PARSERS: Mapping[str, Callable[[str], Iterator[tuple[str, str]]]] = {
    **dict.fromkeys(_PYTHON | _SESSION, _python),
    "json": _json,
    **dict.fromkeys(("jsonl", "ndjson"), _json_lines),
    "toml": _toml,
}
