"""The file that a command writes for whoever typed it."""

import os

from hansard.errors import UsageError, unwritten


def refuse_dash(path: str | None) -> None:
    """UsageError for the name that stands for a standard stream elsewhere: nobody means a file that is called so."""
    if path == "-":
        raise UsageError("- names no file; write --output FILE, or leave it out")


def new_file(path: str, text: str) -> None:
    """Write a file of the user's that is not there yet, whole or not at all."""
    refuse_dash(path)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{path} is there already; choose another name") from error
    except OSError as error:
        raise unwritten(f"cannot write {path}: {error.strerror}; choose another place", error) from error
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except BaseException as error:
        os.unlink(path)
        if isinstance(error, OSError):
            raise unwritten(f"cannot write {path}: {error.strerror}; nothing was left there", error) from error
        raise
