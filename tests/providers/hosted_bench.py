"""The conformance bench of the providers that ask over HTTP: each behaviour as a turn of the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hansard.domain.exchange import ErrorKind
from hansard.providers.base import Provider
from hansard.providers.conformance import Behaviour, ProviderConformance
from hansard.providers.conformance.bench import KINDS
from providers.asking import KEY, Form
from providers.wire import Hang, Raw, Refuse, Say, Turn, Wire, serving

STATUSES: dict[ErrorKind, tuple[int, str]] = {
    "timeout": (408, "too slow"),
    "network": (503, "overloaded"),
    "rate_limit": (429, "slow down"),
    "auth_failure": (401, "who are you?"),
    "model_unavailable": (404, "no such model"),
    "context_length_exceeded": (400, "this exceeds the maximum context length of 8192 tokens"),
    "invalid_request": (400, "messages: at least one is needed"),
}


class HostedConformance(ProviderConformance):
    """The suite for one form; give it `form`."""

    form: Form
    secrets = (KEY,)
    # What a model says to a question without a schema cannot be malformed.
    failures = tuple(kind for kind in KINDS if kind != "malformed_response")

    @asynccontextmanager
    async def opened(self, behaviour: Behaviour) -> AsyncIterator[Provider]:
        with serving(self.turn(behaviour)) as wire:
            self._wire: Wire = wire
            provider = self.form.open(wire.url)
            try:
                yield provider
            finally:
                await provider.close()

    def at_work(self) -> int:
        return self._wire.busy

    def turn(self, behaviour: Behaviour) -> Turn:
        said = f"{behaviour.says} {KEY}" if behaviour.leaks else behaviour.says
        if behaviour.hangs:
            return Hang()
        if behaviour.fails is not None:
            return self._failure(behaviour.fails, said, behaviour)
        usage = behaviour.usage
        return Say(
            text=said,
            echoes=behaviour.echoes,
            finish=self.form.words["length"] if behaviour.cut_off else None,
            tokens=None if usage is None else (usage.input_tokens, usage.output_tokens, 0),
        )

    def _failure(self, kind: ErrorKind, said: str, behaviour: Behaviour) -> Turn:
        match kind:
            case "content_filter":
                return Say(text=said, finish=self.form.words["content_filter"])
            case "tool_failure":
                return Say(text="", tool="search", arguments={"query": said})
            case "internal":
                return Raw(body=f"not JSON: {said}".encode())
            case "quota_exhausted":
                return self.quota(said)
        status, words = STATUSES[kind]
        pause = {} if behaviour.retry_after_s is None else {"retry-after": str(behaviour.retry_after_s)}
        return Refuse(status=status, body={"error": {"message": f"{words} {said}", "type": "x"}}, headers=pause)

    def quota(self, said: str) -> Turn:
        raise NotImplementedError
