"""Questions of a deliberation that ended the engine each time they were put: nobody is asked them any more, and the session goes on
or ends as where an agent fails.
"""

from collections.abc import Mapping
from dataclasses import replace

from hansard.domain.exchange import Completion, Exchange
from hansard.orchestration.questions import QuestionKey
from hansard.providers.base import Provider, Wrapper, failed, failure, held, refusal_of

RESTARTS = 3
"""How often a question is put again that a crash cut short."""


def given_up(crashes: Mapping[QuestionKey, list[int]]) -> set[QuestionKey]:
    """The questions, of those that crashes cut short, that are not put again."""
    return {question for question, each in crashes.items() if len(each) > RESTARTS}


class GivenUp(Wrapper):
    """A provider that is not asked these questions. Each is refused once: whoever is asked again is asked something else."""

    def __init__(self, inner: Provider, questions: set[QuestionKey]) -> None:
        super().__init__(held(inner))
        self._questions = questions

    def refusal(self, exchange: Exchange) -> Completion | None:
        """The answer to a question that is not put; None where it may be."""
        question = _question_of(exchange)
        if question not in self._questions:
            return refusal_of(self.inner, exchange)
        self._questions.discard(question)
        said = f"the engine ended {RESTARTS + 1} times while this was asked"
        return replace(failed(self, exchange, failure("internal", said, retryable=False)), refused=True)

    async def complete(self, exchange: Exchange) -> Completion:
        return await self.inner.complete(exchange)

    # Whoever is asked answers as he does without this.
    complete.keeps_the_contract = True  # type: ignore[attr-defined]


def _question_of(exchange: Exchange) -> QuestionKey:
    said = exchange.metadata
    if "role" in said:
        return said["role"], said["task"] or None, said["attempt"]
    return tuple(said.get(name) for name in ("session_id", "agent_id", "round", "branch_depth"))
