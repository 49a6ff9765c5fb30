"""Answers what a recorded run was answered, to the same question only. Nobody else is asked, and nothing is guessed.

A call is found by role, task, attempt and turn, and then by the SHA-256 of its prompt; a program by its arguments and
its input. Whatever the record cannot answer is a failure, and every later one names the first: that is where the new run
left the recorded one.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from hansard.domain.exchange import Completion, Exchange, Limits
from hansard.errors import UsageError
from hansard.providers.base import Heard, answered, failed, failure
from hansard.providers.programs.outcome import text_of
from hansard.providers.recording import Call, RecordedCall, RecordedProgram, Recording, call_of, opened

PLAIN = Limits()


class Replayed:
    """A provider that answers from a recording."""

    unmetered = True

    def __init__(
        self, recording: Recording, *, id: str = "replayed", prompt: Callable[[Exchange], bytes] = opened
    ) -> None:
        self.id = id
        self.first_miss: str | None = None
        self._prompt = prompt
        self._calls: defaultdict[Call, list[RecordedCall]] = defaultdict(list)
        for call in recording.calls:
            self._calls[call.call].append(call)
        self._programs: dict[tuple[tuple[str, ...], str], RecordedProgram] = {
            (program.argv, program.stdin_sha256): program for program in recording.programs
        }

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "replayed", "model": "replayed"}

    async def close(self) -> None:
        """There is nothing to let go of."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        call, digest = call_of(exchange), sha256(self._prompt(exchange)).hexdigest()
        known = self._calls.get(call, [])
        if same := [recorded for recorded in known if recorded.prompt_sha256 == digest]:
            recorded = same[0]
            if len(same) > 1:
                # It was asked once more, and answered anew.
                known.remove(recorded)
            heard.usage = recorded.completion.usage
            return recorded.completion
        if known:
            was = ", ".join(recorded.prompt_sha256[:16] for recorded in known)
            miss = f"{call}: the prompt differs from the recorded one (sha256 {digest[:16]}, recorded {was})"
        else:
            miss = f"{call}: the recorded run made no such call"
        return self._missed(exchange, miss)

    async def run(self, argv: tuple[str, ...], stdin: bytes, limits: Limits = PLAIN) -> Completion:
        """What the record says that this program answered to this input; `limits` are those of the recorded run."""
        digest = sha256(stdin).hexdigest()
        program = self._programs.get((argv, digest))
        nobody = Exchange(messages=(), model=argv[0] if argv else None)
        if program is None:
            miss = f"program {argv!r}: the recorded run started none with these arguments and this input (sha256 {digest[:16]})"
            return replace(self._missed(nobody, miss), argv=argv)
        printed = len(program.stdout) + program.lost_bytes
        text, cut = text_of(program.stdout, printed, limits.max_output_bytes)
        done = Completion(
            provider=self.id,
            requested_model=argv[0],
            returned_model=argv[0],
            text=text,
            finish="length" if cut else "stop",
            output=program.stdout,
            stderr=program.stderr,
            exit_code=program.exit_code,
            argv=argv,
        )
        if program.exit_code == 0:
            return done
        return replace(done, finish="error", failure=failure("tool_failure", f"exit code {program.exit_code}"))

    def _missed(self, exchange: Exchange, miss: str) -> Completion:
        self.first_miss = self.first_miss or miss
        later = "" if miss == self.first_miss else f"; the first miss was {self.first_miss}"
        why = failure("internal", f"not in the record: {miss}{later}", retryable=False, first_miss=self.first_miss)
        return failed(self, exchange, why)


def open_replayed(id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Replayed:
    """A provider from its table in hansard.toml, where `recording` names a file."""
    path = options.get("recording")
    if not isinstance(path, str) or set(options) - {"kind", "recording"}:
        raise UsageError(f'[providers.{id}]: a replayed provider takes recording = "FILE.json" and nothing else')
    return Replayed(Recording.load(Path(path)), id=id)
