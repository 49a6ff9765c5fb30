"""One tree of errors, in families by who must act. Messages hold ids and text only, never domain objects.

Every message says what happened, to which thing, and what to do now. What the domain expects (a rejected result,
a broken ledger) is a value, not an error.
"""

import errno

MISNAMED = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
        *(errno.EACCES, errno.EPERM, errno.EROFS),
    }
)
"""What the system says of a name that it cannot take, whatever the state of its disks."""


class HansardError(Exception):
    """Anything that Hansard raises on purpose. It comes out of another process as it was raised there."""

    def __reduce__(self) -> tuple[object, ...]:
        # Not by calling the class, as other exceptions do: some take more than their message.
        return _as_raised, (type(self), self.args), self.__dict__


def _as_raised(kind: type[HansardError], args: tuple[object, ...]) -> HansardError:
    return kind.__new__(kind, *args)


class UsageError(HansardError):
    """The caller asked for something that cannot be: a wrong path, a bad value, an unknown kind."""


class Unknown(UsageError):
    """What the caller wants something of has no such thing: a task of a run, a part of an entry."""


class NotAllowed(UsageError):
    """It is as it should be, and nobody may do it here."""


class RunTaken(UsageError):
    """The caller has named a new run, and there is one of this name already."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} is on the record already; look at it, or choose another id")
        self.run = run


class MissingExtra(UsageError):
    """An optional library is not installed; the message is the line that installs it."""


class ProviderError(HansardError):
    """A model or program failed to answer."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class StoreError(HansardError):
    """A disk or database refused, or a ledger is not in a state that may be extended."""


class Uncleaned(StoreError):
    """A repair was made, and what it deleted may have left traces. `done` says what was made right, and how many."""

    def __init__(self, message: str, done: list[tuple[str, int]]) -> None:
        super().__init__(message)
        self.done = done


class Tampered(StoreError):
    """Something that is stored is not what was recorded."""


class Unavailable(StoreError):
    """A disk or database refuses for now: it is full, restarts, or is held by somebody. The same may work later."""


class NotWritten(Unavailable):
    """A session with a database ended before its commit, and nothing was written: the same can be tried again at once."""


class OutcomeUnknown(Unavailable):
    """A commit failed halfway: the entries may or may not be there. Read the head before deciding anything."""


class Fenced(StoreError):
    """Another process has taken over this run or this log; nothing was written."""


class Broken(HansardError):
    """A rule of our own was broken by our own code: a bug to report."""


def first_of(errors: "ExceptionGroup[Exception]") -> Exception:
    """What ended tasks that work together, in our own words where it is an error of ours."""
    found: Exception = errors.subgroup(HansardError) or errors
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


def unwritten(message: str, error: BaseException) -> HansardError:
    """What was not written: usage where the system cannot take its name, and a failure of the disk otherwise."""
    return UsageError(message) if getattr(error, "errno", None) in MISNAMED else StoreError(message)


def told_of(error: BaseException) -> str:
    """What somebody else's code raised, in words; by its name alone where it has none, or cannot say them."""
    name = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that fails at telling is told all the same
        said = ""
    return f"{name}: {said}" if said else name


def plainly(error: BaseException) -> str:
    """What went wrong, for a message that names the file itself: the system's words, without its number and path."""
    return getattr(error, "strerror", None) or str(error)
