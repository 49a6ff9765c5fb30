"""Do the brackets of a piece of code match? Strings and comments are skipped as well as that goes without a grammar. Pure."""

import re
from typing import Final

MAX_DEPTH = 90

_DASHED = {"sql", "postgresql", "mysql", "sqlite", "lua", "haskell", "hs"}
_HASHED = {"python", "py", "r", "ruby", "rb", "php", "julia", "perl", "elixir", "nix"}
_SLASHED = {
    *(
        "c",
        "h",
        "cpp",
        "c++",
        "cc",
        "cs",
        "csharp",
        "java",
        "javascript",
        "js",
        "jsx",
        "typescript",
        "ts",
        "tsx",
        "go",
        "golang",
    ),
    *(
        "rust",
        "rs",
        "kotlin",
        "kt",
        "swift",
        "scala",
        "dart",
        "php",
        "groovy",
        "jsonc",
        "json5",
        "proto",
        "solidity",
        "css",
        "scss",
    ),
}
LANGUAGES: Final = frozenset(_DASHED | _SLASHED | {"r", "julia", "elixir"})
_PAIRS = {")": "(", "]": "[", "}": "{"}
# Closing marks are optional: what is never closed is read once to its end, and not again from each mark in it.
_DOUBLE = r'"(?:[^"\\\n]|\\.)*"?'
_LINE = r"'(?:[^'\\\n]|\\.)*'?"
# A lone quote is a lifetime in Rust, and a part of a number or a name elsewhere.
_CHARACTER = r"'(?:[^'\\\n]|\\[^\n]{1,8}?)'"
_REGEX = r"(?:(?<=[(=,:;!&|?{}])|(?<=[(=,:;!&|?{}] ))/(?![*/])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,99}\]){1,300}/"


def unbalanced(code: str, language: str) -> str | None:
    """What is wrong with the brackets, or None."""
    open_now: list[tuple[str, int]] = []
    bare = _strings_and_comments(language).sub(_lines_of, code)
    for number, line in enumerate(bare.split("\n"), start=1):
        for mark in line:
            if mark in "([{":
                open_now.append((mark, number))
            elif mark in _PAIRS:
                if not open_now:
                    return f"line {number}: {mark} closes nothing"
                opened, at = open_now.pop()
                if opened != _PAIRS[mark]:
                    return f"line {number}: {mark} closes the {opened} of line {at}"
    return f"line {open_now[-1][1]}: {open_now[-1][0]} is never closed" if open_now else None


def depth(code: str) -> int:
    """How deep the brackets go, whatever stands in strings: a parser may not survive more than so much."""
    level = most = 0
    for mark in code:
        if mark in "([{":
            level += 1
            most = max(most, level)
        elif mark in ")]}":
            level = max(level - 1, 0)
    return most


def _strings_and_comments(language: str) -> re.Pattern[str]:
    patterns = (
        ['"""(?:.|\n)*?(?:"""|\\Z)'] if language in {"python", "py", "java", "kotlin", "kt", "swift", "scala"} else []
    )
    if language in _DASHED:
        patterns += ["--[^\n]*", r"/\*(?:.|\n)*?(?:\*/|\Z)"]
    if language in _HASHED:
        patterns.append("#[^\n]*")
    if language in _SLASHED:
        patterns += ["//[^\n]*", r"/\*(?:.|\n)*?(?:\*/|\Z)"]
    if language in {"javascript", "js", "jsx", "typescript", "ts", "tsx"}:
        patterns += [r"`(?:[^`\\]|\\.)*`?", _REGEX]
    by_character = language in {
        "rust",
        "rs",
        "c",
        "h",
        "cpp",
        "c++",
        "cc",
        "java",
        "go",
        "golang",
        "scala",
        "haskell",
        "hs",
    }
    patterns += ["`[^`]*`?"] if language in {"go", "golang"} else []
    return re.compile("|".join([*patterns, _DOUBLE, _CHARACTER if by_character else _LINE]))


def _lines_of(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
