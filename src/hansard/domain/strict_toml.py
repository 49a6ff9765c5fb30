"""TOML that somebody wrote, where it can be read in time that grows with its length.

The parser of the standard library takes time that grows with the square of the parts of a key.
"""

import re
import tomllib
from typing import Any

MOST_PARTS = 40
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# Not behind a backslash: what stands between escaped quotes would be looked through from each of them.
_LONG_KEY = re.compile(rf"(?<![\w\\-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")


def read_toml(text: str) -> dict[str, Any]:
    """The table that this text is; ValueError where it is none, or a key has more parts than anybody writes."""
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_PARTS} parts: it was not parsed")
    return tomllib.loads(text)
