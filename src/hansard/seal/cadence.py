"""When to sign and when to change the epoch key. Pure: no clock, no I/O; times and sizes are passed in."""

from typing import Literal

CHECKPOINT_ENTRIES = 256
CHECKPOINT_S = 10.0
ROTATION_ENTRIES = 10_000
DAY_S = 86_400


def passed(now_s: float, since_s: float | None, span_s: float) -> bool:
    """Whether a span is over. A clock that was set back ends it too: to wait for it could take for ever."""
    return since_s is None or not 0 <= now_s - since_s < span_s


def due(size: int, now_s: float, last_size: int, last_s: float | None) -> bool:
    """Whether a log of this size needs a checkpoint now, after the last one at `last_s`; None: none in this process yet."""
    if size <= last_size:
        return False
    return size - last_size >= CHECKPOINT_ENTRIES or passed(now_s, last_s, CHECKPOINT_S)


def rotation_due(size: int, now_s: float, last: tuple[int, int]) -> Literal["size", "day"] | None:
    """Why the epoch key should retire now. `last` is the size and UTC day with which it came; an idle day needs no new key."""
    last_size, last_day = last
    if size <= last_size:
        return None
    if size - last_size >= ROTATION_ENTRIES:
        return "size"
    return "day" if utc_day(now_s) > last_day else None


def utc_day(time_s: float) -> int:
    """The number of the UTC day since 1970."""
    return int(time_s // DAY_S)
