"""The canonical transcript: messages with their ids, times and canonical bytes, appended and annotated, never rewritten.

Bytes are made once per message, so that the digest, the journal and the record all hold the same ones.
"""

from typing import Any

from hansard.deliberation.documents import digest_of, jcs
from hansard.deliberation.pins import Pins
from hansard.deliberation.protocol.moves import Draft
from hansard.deliberation.turn import MessageShape, as_message
from hansard.domain.budget import NANO_PER_USD
from hansard.record.encoder import kept


class Transcript:
    """One session's messages in order, as JSON data and as bytes."""

    def __init__(self, pins: Pins, shape: MessageShape = "golden") -> None:
        self.messages: list[dict[str, Any]] = []
        self.lines: list[bytes] = []
        self.ends: list[int] = []
        """At which byte each line would end if they stood one behind the other."""
        self._pins, self._shape = pins, shape

    def append(self, draft: Draft) -> bytes:
        """Give the message its id and its time, which is never before the last one's; its canonical bytes."""
        return self._put(self._message(draft, self._pins.ids(draft.ordinal), self._stamp(draft.ordinal)))

    def amend(self, draft: Draft) -> bytes:
        """The message with its grown annotations; its canonical bytes."""
        at = draft.ordinal
        known, before = self.messages[at], len(self.lines[at])
        self.messages[at] = message = self._message(draft, known["id"], known["timestamp"])
        self.lines[at] = line = kept(jcs(message))
        self.ends[at:] = [end + len(line) - before for end in self.ends[at:]]
        return line

    def restore(self, draft: Draft, recorded: dict[str, Any]) -> bytes:
        """Append a message that is on the record already, with the id and the time that it has there."""
        return self._put(self._message(draft, recorded["id"], recorded["timestamp"]))

    def _put(self, message: dict[str, Any]) -> bytes:
        line = kept(jcs(message))
        self.messages.append(message)
        self.lines.append(line)
        self.ends.append(self.ends[-1] + len(line) if self.ends else len(line))
        return line

    def ended_at(self) -> str:
        """The time of the end. A pinned clock gives that of the last message [§9.4.1]."""
        return self._stamp(len(self.messages) - 1)

    def _stamp(self, ordinal: int) -> str:
        """The time now, and never before that of the last message, even when the clock was set back."""
        stamp = self._pins.stamp(ordinal)
        last = self.messages[-1]["timestamp"] if self.messages else stamp
        return max(stamp, last) if len(stamp) == len(last) else stamp

    @property
    def digest(self) -> str:
        return digest_of(self.lines)

    def usage(self) -> dict[str, Any]:
        """The sum over the messages [R-9.5-3]. Money is added in billionths, so that no cent is lost to rounding."""
        usages = [message["usage"] for message in self.messages]
        total: dict[str, Any] = {
            name: sum([usage[name] for usage in usages])
            for name in ("prompt_tokens", "completion_tokens", "total_tokens")
        }
        total["cost_usd"] = sum([round(usage["cost_usd"] * NANO_PER_USD) for usage in usages]) / NANO_PER_USD
        if any(usage.get("estimated") for usage in usages):
            total["estimated"] = True
        return total

    def _message(self, draft: Draft, id: str, timestamp: str) -> dict[str, Any]:
        parent = None if draft.parent is None else self.messages[draft.parent]["id"]
        return as_message(draft, id=id, timestamp=timestamp, parent_id=parent, shape=self._shape)
