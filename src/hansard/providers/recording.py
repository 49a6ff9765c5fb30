"""What a recorded run said, in the form in which it can stand in for models and programs. Built by whoever reads the record."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self

from hansard.domain.exchange import Completion, Exchange
from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import UsageError, plainly
from hansard.providers.prompt import prompt_of
from hansard.providers.reply import Reply


class Call(NamedTuple):
    """Which call of a run this is. Turns count the corrections of one attempt."""

    role: str
    task: str
    attempt: int
    turn: int

    def __str__(self) -> str:
        return f"{self.role or '(no role)'}, task {self.task or '(none)'}, attempt {self.attempt}, turn {self.turn}"


def call_of(exchange: Exchange) -> Call:
    """Who asks, from the metadata; attempts and turns begin at 1."""
    said = exchange.metadata
    return Call(str(said.get("role", "")), str(said.get("task", "")), _number(said, "attempt"), _number(said, "turn"))


def _number(said: Mapping[str, str | int], name: str) -> int:
    value = said.get(name, 1)
    return value if isinstance(value, int) else 1


def opened(exchange: Exchange) -> bytes:
    """The prompt of an exchange as it is recorded and compared: one text."""
    return prompt_of(exchange).encode()


@value
class RecordedCall:
    """One answer of a recorded run, and to which prompt it was given."""

    call: Call
    prompt_sha256: str
    completion: Completion


@value
class RecordedProgram:
    """One run of a program. `stdout` is all that was kept of its output, and `lost_bytes` what was not."""

    argv: tuple[str, ...]
    stdin_sha256: str
    stdout: bytes
    stderr: bytes
    exit_code: int
    lost_bytes: int = 0


@value
class Recording:
    """Everything that a run was answered."""

    calls: tuple[RecordedCall, ...] = ()
    programs: tuple[RecordedProgram, ...] = ()

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a JSON file with `calls` and `programs`, for those who write one by hand."""
        try:
            table = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"cannot read the recording {path}: {plainly(error)}") from error
        fields = Fields(table, str(path))
        recording = cls(
            calls=tuple(_read_call(each) for each in fields.tables("calls")),
            programs=tuple(_read_program(each) for each in fields.tables("programs")),
        )
        fields.done()
        return recording


def _read_call(fields: Fields) -> RecordedCall:
    call = Call(
        fields.text("role"), fields.text("task"), fields.count("attempt", 1, least=1), fields.count("turn", 1, least=1)
    )
    digest, provider, model = fields.text("prompt_sha256"), fields.text("provider"), fields.text("requested_model")
    completion = Reply.read(fields).completion(provider, model)
    fields.done()
    return RecordedCall(call=call, prompt_sha256=digest, completion=completion)


def _read_program(fields: Fields) -> RecordedProgram:
    argv = fields.any("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(each, str) for each in argv):
        raise fields.wrong("argv", "a list of texts", argv)
    program = RecordedProgram(
        argv=tuple(argv),
        stdin_sha256=fields.text("stdin_sha256", sha256(b"").hexdigest()),
        stdout=fields.text("stdout").encode(),
        stderr=fields.text("stderr").encode(),
        exit_code=fields.count("exit_code"),
        lost_bytes=fields.count("lost_bytes"),
    )
    fields.done()
    return program
