"""Any program as a provider: the prompt on its standard input or in a file, its standard output as the answer.

    [providers.mine]
    kind = "command"
    argv = ["./answer", "--quietly"]

No shell stands in between, the prompt is never an argument, and the program runs as `process` and `workspace` say.
"""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path, PurePath
from typing import Any, Literal, get_args

from hansard.domain.exchange import Completion, Exchange
from hansard.domain.value import value
from hansard.errors import ProviderError, UsageError
from hansard.providers import checks, parse
from hansard.providers.base import Heard, answer, failed, failure
from hansard.providers.options import Options
from hansard.providers.programs.environment import barred, found, passed_on
from hansard.providers.programs.outcome import ended_badly, keep, text_of, tightened
from hansard.providers.programs.process import Program, Ran, encoded, need_a_system_with_processes, run
from hansard.providers.programs.spill import SPILL_BYTES, spill_of
from hansard.providers.programs.workspace import Place, Workspace, prepared, workspace_of
from hansard.providers.prompt import prompt_of

PROMPT_FILE = "{prompt_file}"
SCHEMA_FILE = "{schema_file}"
Input = Literal["stdin", "file"]
Output = Literal["text", "json"]
INPUTS: tuple[Input, ...] = get_args(Input)
OUTPUTS: tuple[Output, ...] = get_args(Output)


@value
class Recipe:
    """How a program is asked. `environment` is all that it sees; `timeout_s` can only tighten that of a question."""

    argv: tuple[str, ...]
    input: Input = "stdin"
    output: Output = "text"
    environment: Mapping[str, str] = field(default_factory=dict)
    workspace: Workspace = field(default_factory=Workspace)
    timeout_s: float | None = None
    max_spill_bytes: int = SPILL_BYTES
    model: str = ""


class Command:
    """A program that answers."""

    def __init__(self, id: str, recipe: Recipe, *, unmetered: bool = True) -> None:
        need_a_system_with_processes()
        self.id, self.unmetered = id, unmetered
        self._recipe = recipe

    def describe(self) -> Mapping[str, str]:
        recipe = self._recipe
        program = PurePath(recipe.argv[0]).name
        said = {"id": self.id, "kind": "command", "model": recipe.model or program, "argv": json.dumps(recipe.argv)}
        return said | {"input": recipe.input, "output": recipe.output, "workspace": recipe.workspace.kind}

    async def close(self) -> None:
        """Nothing is kept open between two questions."""

    async def complete(self, exchange: Exchange) -> Completion:
        return await answer(self, tightened(exchange, self._recipe.timeout_s), self._asked)

    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    async def _asked(self, exchange: Exchange, heard: Heard) -> Completion:
        recipe = self._recipe
        try:
            async with prepared(recipe.workspace, recipe.environment) as place:
                ran = await run(_program(recipe, exchange, place), note=lambda ran: keep(ran, heard))
                diff = await place.changes()
        except ProviderError as error:
            return failed(self, exchange, failure("internal", str(error)), heard=heard)
        if ran.exit_code != 0:
            return replace(failed(self, exchange, ended_badly(ran), heard=heard), diff=diff)
        return self._read(exchange, ran, heard, diff)

    def _read(self, exchange: Exchange, ran: Ran, heard: Heard, diff: bytes | None) -> Completion:
        text, cut = text_of(ran.stdout, ran.stdout_bytes, exchange.limits.max_output_bytes)
        completion = Completion(
            provider=self.id,
            requested_model="",
            returned_model="",
            text=text,
            finish="length" if cut else "stop",
            raw=heard.raw,
            output=heard.output,
            stderr=heard.stderr,
            exit_code=heard.exit_code,
            argv=heard.argv,
            diff=diff,
        )
        if self._recipe.output == "text" or exchange.schema is not None:
            return completion
        reading = parse.read(text, max_bytes=exchange.limits.max_output_bytes)
        if reading.breach:
            return checks.malformed(exchange, completion, reading.breach)
        return replace(completion, structured=reading.value)


def _program(recipe: Recipe, exchange: Exchange, place: Place) -> Program:
    takes_schema = any(SCHEMA_FILE in each for each in recipe.argv)
    prompt = encoded(prompt_of(exchange, schema=not takes_schema))
    files = {PROMPT_FILE: place.beside / "prompt.txt", SCHEMA_FILE: place.beside / "schema.json"}
    if recipe.input == "file":
        files[PROMPT_FILE].write_bytes(prompt)
    if takes_schema:
        files[SCHEMA_FILE].write_text(json.dumps(exchange.schema, default=dict), encoding="utf-8")
    return Program(
        argv=tuple(_filled(each, files) for each in recipe.argv),
        folder=place.folder,
        environment=recipe.environment,
        stdin=prompt if recipe.input == "stdin" else b"",
        max_output_bytes=exchange.limits.max_output_bytes,
        max_spill_bytes=recipe.max_spill_bytes,
    )


def _filled(argument: str, files: Mapping[str, Path]) -> str:
    for mark, path in files.items():
        argument = argument.replace(mark, str(path))
    return argument


def open_command(id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Command:
    """A provider from its table in hansard.toml."""
    where, read = f"[providers.{id}]", Options(id, options)
    argv = read.texts("argv")
    input_, output = read.one_of("input", INPUTS), read.one_of("output", OUTPUTS)
    sees = {**passed_on(environment, names=read.texts("env")), **read.variables("set_env")}
    workspace, timeout_s, model = workspace_of(read), read.seconds("timeout_s"), read.text("model")
    max_spill_bytes, unmetered = spill_of(read), read.flag("unmetered", True)
    read.done()
    if not argv:
        raise UsageError(f'{where}: argv must name a program, as in argv = ["./answer", "--quietly"]')
    if any(PROMPT_FILE in each for each in argv) != (input_ == "file"):
        raise UsageError(f'{where}: input = "file" and {PROMPT_FILE} in argv belong together')
    path = found(argv[0], sees)
    if path is None:
        none = f"there is no program {argv[0]!r}; write its whole path, or put its folder on the PATH"
        raise UsageError(f"{where}: {barred(argv[0]) or none}")
    recipe = Recipe(
        # A path is meant from here, and not from wherever we are when it is asked.
        argv=(path if "/" in argv[0] else argv[0], *argv[1:]),
        input=input_,
        output=output,
        environment=sees,
        workspace=workspace,
        timeout_s=timeout_s,
        max_spill_bytes=max_spill_bytes,
        model=model,
    )
    return Command(id, recipe, unmetered=unmetered)
