"""A provider whose answers are free of known secrets, in every field, before anybody can record them."""

from dataclasses import replace

from hansard.domain.exchange import Completion, Exchange, Failure, ToolCall, ToolEvent
from hansard.providers import checks
from hansard.providers.base import Provider, Wrapper
from hansard.providers.secrets import Secrets


class Scrubbed(Wrapper):
    """Scrubs what comes back. What is sent is the caller's, who records it before it is sent."""

    def __init__(self, inner: Provider, secrets: Secrets) -> None:
        super().__init__(inner)
        self._secrets = secrets

    async def complete(self, exchange: Exchange) -> Completion:
        completion = await self.inner.complete(exchange)
        return without_secrets(exchange, completion, self._secrets) if self._secrets else completion


def without_secrets(exchange: Exchange, completion: Completion, secrets: Secrets) -> Completion:
    """The completion of this exchange, scrubbed and checked again: a mark may miss the schema, which asks for what the secret was."""
    clean = scrubbed(completion, secrets)
    return completion if clean == completion else checks.checked(exchange, clean)


def scrubbed(completion: Completion, secrets: Secrets) -> Completion:
    """The completion with every known secret replaced by its name."""

    def text(value: str | None) -> str | None:
        return None if value is None else secrets.scrub(value)

    def data(value: bytes | None) -> bytes | None:
        return None if value is None else secrets.scrub(value)

    return replace(
        completion,
        text=secrets.scrub(completion.text),
        structured=secrets.scrub_json(completion.structured),
        requested_model=secrets.scrub(completion.requested_model),
        returned_model=secrets.scrub(completion.returned_model),
        fingerprint=text(completion.fingerprint),
        raw=data(completion.raw),
        output=data(completion.output),
        stderr=data(completion.stderr),
        diff=data(completion.diff),
        argv=tuple(secrets.scrub(each) for each in completion.argv),
        failure=_failure(completion.failure, secrets),
        calls=tuple(_call(each, secrets) for each in completion.calls),
        thought=secrets.scrub_json(completion.thought),
        tool_events=tuple(_event(each, secrets) for each in completion.tool_events),
    )


def _failure(failure: Failure | None, secrets: Secrets) -> Failure | None:
    if failure is None:
        return None
    details = secrets.scrub_json(failure.details)
    return replace(failure, message=secrets.scrub(failure.message), details=details)


def _call(call: ToolCall, secrets: Secrets) -> ToolCall:
    return ToolCall(
        id=secrets.scrub(call.id), name=secrets.scrub(call.name), arguments=secrets.scrub_json(call.arguments)
    )


def _event(event: ToolEvent, secrets: Secrets) -> ToolEvent:
    return replace(
        event,
        name=secrets.scrub(event.name),
        arguments=secrets.scrub_json(event.arguments),
        result=None if event.result is None else secrets.scrub(event.result),
        error=None if event.error is None else secrets.scrub(event.error),
    )
