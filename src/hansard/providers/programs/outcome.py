"""What the run of a program means for an answer: what of it is kept, and how its ending is told."""

import json
from dataclasses import replace

from hansard.domain.exchange import Exchange, Failure
from hansard.providers.base import Heard, failure
from hansard.providers.programs.process import Ran

QUOTED_CHARACTERS = 2_000


def tightened(exchange: Exchange, timeout_s: float | None) -> Exchange:
    """The exchange with a time limit of the provider's own, which can only shorten the one that it has."""
    if timeout_s is None or timeout_s >= exchange.limits.timeout_s:
        return exchange
    return replace(exchange, limits=replace(exchange.limits, timeout_s=timeout_s))


def keep(ran: Ran, heard: Heard) -> None:
    """Keep everything that is known of a run, however it ended. A signal is kept as a negative exit code."""
    heard.argv = ran.argv
    heard.output, heard.stderr = ran.output, ran.stderr
    heard.exit_code = ran.exit_code if ran.signal is None else -ran.signal
    facts: dict[str, int | str] = {
        "duration_us": ran.duration_us,
        "stdout_bytes": ran.stdout_bytes,
        "stderr_bytes": ran.stderr_bytes,
        "left_behind": ran.left_behind,
    }
    if ran.lost:
        facts |= {"stdout_lost_bytes": ran.stdout_bytes - len(heard.output), "stdout_lost": ran.lost}
    heard.raw = json.dumps(facts).encode()


def ended_badly(ran: Ran) -> Failure:
    """A program that did not end with exit code 0, with the end of what it said about it."""
    said = quoted(ran.stderr) or quoted(ran.spilled) or quoted(ran.stdout)
    message = f"{ran.argv[0]} {ran.ending}{f': {said}' if said else ', and said nothing'}"
    return failure("internal", message, exit_code=ran.exit_code, signal=ran.signal)


def quoted(data: bytes) -> str:
    """The end of an output, short enough for a message."""
    text = data[-4 * QUOTED_CHARACTERS :].decode("utf-8", "replace").strip()
    return text if len(text) <= QUOTED_CHARACTERS else f"…{text[-QUOTED_CHARACTERS:]}"


def text_of(output: bytes, printed: int, limit: int) -> tuple[str, bool]:
    """The beginning of an output as text, without the line ends behind it, and whether something is missing.

    `printed` counts also what was not kept. What is no UTF-8 is shown as such; the bytes themselves are kept beside. The
    marks for that take room, too.
    """
    text = output[: max(0, limit)].decode("utf-8", "replace").rstrip("\r\n")
    if len(text) * 4 <= limit or len(text.encode()) <= limit:
        return text, printed > limit
    return text.encode()[:limit].decode("utf-8", "ignore"), True
