"""Names that this process makes up: run ids that sort by time, and nonces."""

import re
import secrets
import time
from uuid import UUID

RUN_ID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_SPELLED = re.compile(f"{RUN_ID[1:-1]}(-[0-9]+)?", re.ASCII | re.IGNORECASE)
_INSIDE = re.compile(r"(.{36})-[0-9]+")


def new_run_id(now_ms: int | None = None) -> str:
    """A UUIDv7 (RFC 9562): the time in milliseconds, then chance."""
    at = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    chance = secrets.randbits(74)
    value = (at & (1 << 48) - 1) << 80 | 0x7 << 76 | (chance >> 62) << 64 | 0b10 << 62 | chance & (1 << 62) - 1
    return str(UUID(int=value))


def is_run_id(text: str) -> bool:
    """Whether it has the form of a run's id. Claims bear other names, and a run is claimed by its own."""
    return re.fullmatch(RUN_ID, text) is not None


def as_recorded(name: str) -> str:
    """The id of a run, or of a session inside of one, as the record spells it: a UUID is also written in capitals. Any other name as
    it is."""
    return name.lower() if _SPELLED.fullmatch(name) else name


def run_within(session: str) -> str | None:
    """The run that a session of this id would have met in; None where no session inside of a run is called so."""
    found = _INSIDE.fullmatch(session)
    return found[1] if found else None


def new_nonce() -> str:
    return secrets.token_hex(16)
