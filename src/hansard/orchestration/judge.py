"""The cheap checks of a result, before any model is asked: it came whole, it is not empty, and it passes what the plan declares.

Programs and regular expressions run through a port: a pattern may take for ever, so it runs where it can be stopped.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol

from hansard.domain.exchange import Completion
from hansard.domain.value import value
from hansard.errors import ProviderError
from hansard.orchestration.plan import Check
from hansard.providers import parse
from hansard.providers.schema import compile as compile_schema

CHECK_SECONDS = 60.0
REGEX_SECONDS = 10.0
DETAIL_CHARACTERS = 500
_MATCHES = "import re,sys;t=sys.stdin.buffer.read().decode('utf-8','replace');p,_,t=t.partition('\\0');sys.exit(not re.search(p,t))"
LOOKING = ("-I", "-S", "-c", _MATCHES)
"""What looks for a pattern, behind the Python that runs it, which lies elsewhere on another machine."""


class Ran(Protocol):
    """How a program ended."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
    @property
    def truncated(self) -> bool: ...


class Programs(Protocol):
    """Runs a program with some input, within a time limit; ProviderError when it cannot, or did not end in time."""

    async def __call__(self, argv: tuple[str, ...], stdin: bytes, timeout_s: float) -> Ran: ...


@value
class Finding:
    """What one check says, and which program it ran for that."""

    check: str
    ok: bool
    detail: str = ""
    program: Mapping[str, Any] | None = None

    def as_data(self) -> dict[str, Any]:
        data = {"check": self.check, "ok": self.ok, "detail": self.detail}
        return data if self.program is None else data | {"program": dict(self.program)}


WHOLE = Finding(check="not empty", ok=True)


def at_a_glance(completion: Completion) -> Finding:
    """Whether there is a whole answer at all."""
    if completion.failure is not None:
        return Finding(check="returned", ok=False, detail=f"{completion.failure.kind}: {completion.failure.message}")
    if completion.finish != "stop":
        return Finding(check="finish", ok=False, detail=f"the answer ended with {completion.finish}: it is not whole")
    if not completion.text.strip():
        return Finding(check="not empty", ok=False, detail="the answer is empty")
    return WHOLE


async def declared(checks: Sequence[Check], output: str, programs: Programs) -> list[Finding]:
    """What the plan's own checks say; the first that fails is the last that is asked."""
    findings: list[Finding] = []
    for check in checks:
        findings.append(await _one(check, output, programs))
        if not findings[-1].ok:
            break
    return findings


async def _one(check: Check, output: str, programs: Programs) -> Finding:
    if check.kind == "schema":
        reading = parse.read(output, compile_schema(check.value))
        return Finding(check="schema", ok=reading.breach is None, detail=str(reading.breach or ""))
    text = output.encode("utf-8", "surrogatepass")
    if check.kind == "regex":
        # The pattern travels before the text, parted by a NUL, which neither a pattern nor a text of ours needs.
        pattern = check.value.replace("\0", "\\0").encode("utf-8", "surrogatepass")
        finding = await _program("regex", (sys.executable, *LOOKING), pattern + b"\0" + text, programs, REGEX_SECONDS)
        detail = finding.detail if finding.ok else f"no match for {check.value!r:.200}. {finding.detail}".strip()
        return replace(finding, detail=detail)
    return await _program("command", tuple(check.value), text, programs, CHECK_SECONDS)


async def _program(name: str, argv: tuple[str, ...], stdin: bytes, programs: Programs, timeout_s: float) -> Finding:
    about: dict[str, Any] = {"argv": list(argv), "stdin_sha256": sha256(stdin).hexdigest()}
    try:
        ran = await programs(argv, stdin, timeout_s)
    except ProviderError as error:
        said = str(error)[:DETAIL_CHARACTERS]
        return Finding(check=name, ok=False, detail=said, program=about | {"failed": True, "said": said})
    # Said again from the record, it must come out the same: a beginning that was cut may be a space.
    said = (ran.stderr or ran.stdout).decode("utf-8", "replace").rstrip()[-DETAIL_CHARACTERS:]
    about |= {"exit_code": ran.exit_code, "said": said}
    if ran.exit_code == 0:
        return Finding(check=name, ok=True, program=about)
    return Finding(check=name, ok=False, detail=f"exit code {ran.exit_code}. {said}".strip(), program=about)
