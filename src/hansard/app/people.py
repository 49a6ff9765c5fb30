"""Who acts through this process, as an actor of the record. Nobody has checked it."""

import getpass
import os
import re

_NOT_OF_AN_ACTOR = re.compile(r"[^A-Za-z0-9._:/+-]+")
_LONGEST = 100


def human() -> str:
    """The login name, as far as an actor may have its characters ([E4]), else the user's number.

    Of an address only what stands before the `@` is taken; each run of other characters becomes a `-`.
    """
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        name = ""
    kept = _NOT_OF_AN_ACTOR.sub("-", name.partition("@")[0]).strip("-")[:_LONGEST]
    return f"human:{kept or f'uid-{os.getuid()}'}"
