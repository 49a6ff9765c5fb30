"""What every recordable value is: a frozen dataclass with a kind, small data, and bodies.

A field of type Body becomes a part of the entry; every other field becomes a member of its data. Facts compute and
never fetch; they know neither stores nor entries.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from hansard.domain.value import value

TEXT = "text/plain; charset=utf-8"
TEXT_WITH_SURROGATES = "text/plain; charset=wtf-8"
JSON = "application/json"
BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes with a media type. `data` is None where the body is not at hand: redacted, or not loaded."""

    media: str
    data: bytes | None

    @classmethod
    def text(cls, text: str) -> Self:
        """A body of text. Lone surrogates, which some model servers send, are kept byte for byte under a media type of their own."""
        try:
            return cls(TEXT, text.encode())
        except UnicodeEncodeError:
            return cls(TEXT_WITH_SURROGATES, text.encode("utf-8", "surrogatepass"))

    @classmethod
    def json(cls, data: bytes) -> Self:
        return cls(JSON, data)

    @classmethod
    def raw(cls, data: bytes) -> Self:
        return cls(BYTES, data)

    def as_text(self) -> str:
        """The body as text for showing; bytes that are not text are replaced, so use `data` where bytes matter."""
        if self.data is None:
            return ""
        return self.data.decode("utf-8", "surrogatepass" if self.media == TEXT_WITH_SURROGATES else "replace")


@value
class Fact:
    """Base of every value that can stand in the record.

    KIND is its kind. DRIVEN kinds may be written only by the driver that holds the run's claim. CAUSES names the kinds
    that may stand in its causes; empty means that it starts a chain.
    """

    KIND: ClassVar[str]
    DRIVEN: ClassVar[bool] = False
    CAUSES: ClassVar[tuple[str, ...]] = ()
