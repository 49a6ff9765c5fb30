"""Who acts through this process, as an actor of the record. Nobody has checked it."""

import getpass


def human() -> str:
    try:
        return f"human:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "human:unknown"
