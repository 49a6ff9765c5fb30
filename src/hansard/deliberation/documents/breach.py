"""What a document did wrong: where, which rule, and what the rule asks for. Knows no document."""

from collections.abc import Sequence

from hansard.domain.value import value
from hansard.errors import UsageError


@value
class Breach:
    """One broken rule: the document, a JSON pointer into it, the rule as the protocol numbers it, and what it asks for."""

    document: str
    path: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.document}{self.path}: {self.message} [{self.rule}]"


class Invalid(UsageError):
    """Data that is no such document. The path grows on the way out, so that good documents pay nothing for it."""

    def __init__(self, message: str, *, rule: str = "", steps: Sequence[str | int] = ()) -> None:
        super().__init__(message)
        self.message, self.rule, self.document = message, rule, ""
        self._steps = list(steps)

    def under(self, step: str | int) -> None:
        """It happened below this member or index."""
        self._steps.insert(0, step)

    @property
    def path(self) -> str:
        return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in self._steps)

    @property
    def breach(self) -> Breach:
        return Breach(document=self.document or "document", path=self.path, rule=self.rule, message=self.message)

    def __str__(self) -> str:
        return str(self.breach)
