"""What a program gets to see of our environment: an allow-list, never a block-list. Reads no environment itself."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote

PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TZ", "TERM", "SHELL"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    }
)
"""The variables that every program gets; and every one that begins with LC_."""


def passed_on(
    environment: Mapping[str, str], *, names: Iterable[str] = (), prefixes: Iterable[str] = ()
) -> dict[str, str]:
    """The part of an environment that a program may see: PASSED_ON, what is named, and nothing else.

    Relative places on PATH are left out: the folder in which a program works must not decide what it starts.
    """
    may, begins = PASSED_ON.union(names), ("LC_", *prefixes)
    kept = {name: value for name, value in environment.items() if name in may or name.startswith(begins)}
    places = kept.get("PATH", os.defpath).split(os.pathsep)
    kept["PATH"] = os.pathsep.join(place for place in places if os.path.isabs(place))
    return kept


def found(program: str, environment: Mapping[str, str], *, folder: Path | None = None) -> str | None:
    """The absolute path of a program, or None when there is none: by the environment's PATH, or from a folder with a slash."""
    if folder and "/" in program:
        program = str(folder / program)
    path = shutil.which(program, path=environment.get("PATH", os.defpath))
    return os.path.abspath(path) if path else None


def barred(program: str) -> str:
    """Why what lies at a path is no program; nothing where nothing lies there, or it is only a name."""
    if "/" not in program or not os.path.exists(program):
        return ""
    if os.path.isdir(program):
        return f"{program!r} is a folder, and no program"
    return f"{program!r} may not be executed; run: chmod +x {quote(program)}"


def argument_from(folder: Path, word: str) -> str:
    """An argument of a program that works elsewhere: one with a slash or a dot that names a file of this folder is that file."""
    named = "/" in word or "." in word
    return str((folder / word).absolute()) if named and os.path.isfile(folder / word) else word
