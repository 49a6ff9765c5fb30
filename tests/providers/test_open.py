import asyncio
import builtins
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Exchange, Usage
from hansard.errors import MissingExtra, UsageError
from hansard.providers import registry as registry_module
from hansard.providers.agents.claude import Claude
from hansard.providers.agents.codex import Codex
from hansard.providers.agents.gemini import Gemini
from hansard.providers.base import Provider, failure
from hansard.providers.open import PLACES, open_providers
from hansard.providers.prices import Price, Prices
from hansard.providers.registry import OURS, Factory, Registry
from hansard.providers.secrets import Secrets
from providers.pretend import Doing, asking, says
from providers.wire import Refuse, serving

KEY = "sk-0123456789abcdef"
SCRIPTED = {"kind": "scripted", "entries": [{"text": "hello"}], "on_exhaustion": "loop"}


def opened(table: Any, *, environment: Mapping[str, str] | None = None, **more: Any) -> Provider:
    return open_providers({"fast": table}, environment=environment or {}, **more)["fast"]


def refusal(table: Any, *, environment: Mapping[str, str] | None = None, **more: Any) -> str:
    with pytest.raises(UsageError) as refused:
        opened(table, environment=environment, **more)
    return str(refused.value)


async def test_a_table_becomes_a_provider_of_its_name() -> None:
    provider = opened(SCRIPTED)
    completion = await provider.complete(asking())
    assert (provider.id, completion.provider, completion.text) == ("fast", "fast", "hello")


async def test_a_key_that_becomes_known_later_does_not_come_back_either() -> None:
    secrets = Secrets()
    provider = opened({"kind": "scripted", "entries": [{"text": f"the key is {KEY}"}]}, secrets=secrets)
    opened({"kind": "scripted", "entries": [{}], "secrets": ["MINE"]}, environment={"MINE": KEY}, secrets=secrets)
    assert (await provider.complete(asking())).text == "the key is [secret MINE]"


@pytest.mark.parametrize(
    ("kind", "cli"), [("claude-cli", Claude), ("codex-cli", Codex), ("gemini-cli", Gemini)], ids=lambda each: str(each)
)
def test_a_token_that_an_agent_program_is_handed_is_a_secret(kind: str, cli: Any) -> None:
    tokens = [name for name in cli.variables if name.endswith(("_TOKEN", "_KEY")) and name != "CLAUDE_CODE_CLIENT_KEY"]
    secrets = Secrets()
    environment = {**{name: f"{name}-0123456789" for name in tokens}, "PATH": os.defpath}
    opened({"kind": kind, "program": sys.executable}, environment=environment, secrets=secrets)
    assert tokens
    for name, value in environment.items():
        assert name == "PATH" or secrets.scrub(value) == f"[secret {name}]"


@pytest.mark.parametrize(("kind", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
def test_a_word_in_place_of_a_key_does_not_keep_from_a_server_that_wants_none(kind: str, variable: str) -> None:
    table, environment = {"kind": kind, "model": "m"}, {variable: "EMPTY"}
    provider = opened({**table, "base_url": "http://127.0.0.1:1/v1"}, environment=environment)
    assert provider.describe()["kind"] == kind
    assert "too few" in refusal(table, environment=environment)
    assert "too few" in refusal({**table, "base_url": "http://h/", "api_key_env": variable}, environment=environment)


@pytest.mark.parametrize(
    ("kind", "host", "variable"),
    [("openai", "api.openai.com", "OPENAI_API_KEY"), ("anthropic", "api.anthropic.com", "ANTHROPIC_API_KEY")],
)
def test_a_vendor_is_never_asked_in_the_clear(kind: str, host: str, variable: str) -> None:
    table = {"kind": kind, "model": "m", "base_url": f"http://{host}/v1"}
    assert "https://" in refusal(table, environment={variable: KEY})
    assert opened({**table, "base_url": f"https://{host}/v1"}, environment={variable: KEY}).describe()["kind"] == kind


async def test_a_script_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"entries": [{"text": "from the file"}]}))
    provider = opened({"kind": "scripted", "script": "s.json"}, folder=tmp_path)
    assert (await provider.complete(asking())).text == "from the file"


async def test_a_program_is_looked_for_beside_the_file_that_names_it_wherever_we_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, elsewhere = tmp_path / "project", tmp_path / "project" / "below"
    for folder in (beside, elsewhere):
        folder.mkdir()
        (folder / "answer").write_text(f"#!/bin/sh\necho {folder.name}\n")
        (folder / "answer").chmod(0o755)
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(beside))
    for path in ("./answer", "../project/answer", str(beside / "answer"), "~/answer"):
        provider = opened({"kind": "command", "argv": [path]}, environment={"PATH": os.defpath}, folder=beside)
        assert (await provider.complete(asking())).text == "project"
    for kind in ("claude-cli", "codex-cli", "gemini-cli"):
        provider = opened({"kind": kind, "program": "./answer"}, environment={"PATH": os.defpath}, folder=beside)
        assert provider.describe()["program"] == str(beside / "answer")


async def test_an_argument_that_names_a_file_beside_the_table_is_that_file_but_in_a_workspace_its_own(
    tmp_path: Path,
) -> None:
    for folder in (tmp_path, tmp_path / "data"):
        folder.mkdir(exist_ok=True)
        (folder / "name.txt").write_text(folder.name)
    table = {"kind": "command", "argv": ["cat", "name.txt"]}
    for more, text in (({}, tmp_path.name), ({"workspace": "copy", "source": "data"}, "data")):
        provider = opened({**table, **more}, environment={"PATH": os.defpath}, folder=tmp_path)
        assert (await provider.complete(asking())).text == text


async def test_a_folder_to_copy_lies_beside_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path / "project" / "data", tmp_path / "data"):
        folder.mkdir(parents=True)
        (folder / "name").write_text(folder.parent.name)
    monkeypatch.chdir(tmp_path)
    table = {"kind": "command", "argv": ["cat", "name"], "workspace": "copy", "source": "data"}
    provider = opened(table, environment={"PATH": os.defpath}, folder=tmp_path / "project")
    assert (await provider.complete(asking())).text == "project"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, 'kind is missing; write kind = "openai" or one of anthropic, '),
        ({"kind": "opnai"}, "there is no provider kind 'opnai'; known are anthropic, "),
        ({"kind": 3}, "kind must be a text"),
        ("openai", "must be a table"),
        ({**SCRIPTED, "max_concurrent": 0}, "max_concurrent must be a whole number from 1"),
        ({**SCRIPTED, "per_minute": 0}, "per_minute must be more than 0"),
        ({**SCRIPTED, "max_concurrent": 2, "burst": 5}, "burst belongs to per_minute"),
        ({**SCRIPTED, "per_minute": "many"}, "per_minute must be a number"),
        ({**SCRIPTED, "per_minute": 10**400}, "per_minute must be a number"),
        ({**SCRIPTED, "breaker": True, "breaker_cool_down_s": 10**400}, "breaker_cool_down_s must be a number"),
        ({**SCRIPTED, "breaker": 3}, "breaker must be true or false"),
        ({**SCRIPTED, "entrys": []}, "unknown key entrys; did you mean entries?"),
        (
            {"kind": "command", "argv": ["cat"], "max_concurent": 1},
            "unknown key max_concurent; did you mean max_concurrent?",
        ),
        ({**SCRIPTED, "script": "x.toml"}, "and not both"),
        ({"kind": "scripted", "script": "gone.toml"}, "cannot read the script"),
        ({"kind": "replayed"}, 'recording = "FILE.json"'),
        ({**SCRIPTED, "api_key": KEY}, 'api_key does not belong in a file; write api_key_env = "NAME"'),
        ({**SCRIPTED, "secrets": "X"}, "secrets and *_env must be names of environment variables"),
        ({**SCRIPTED, "model": 3}, "model must be a text"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_its_file_and_table(table: Any, words: str) -> None:
    message = refusal(table)
    assert message.startswith("hansard.toml [providers.fast]: ")
    assert message.count("[providers.fast]") == 1
    assert words in message
    assert KEY not in message


def test_every_kind_of_ours_has_a_place() -> None:
    assert set(PLACES) == OURS


@pytest.mark.parametrize(("kind", "library"), [("openai", "openai"), ("anthropic", "anthropic")])
def test_a_missing_library_says_how_to_install_it(kind: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return real(name, *rest, **more)

    for name in list(sys.modules):
        if name.split(".")[0] == library or name.startswith(f"hansard.providers.{library}"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=rf"pip install 'hansard\[{library}\]'") as missing:
        opened({"kind": kind, "model": "m"}, environment={"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY})
    assert str(missing.value).startswith("hansard.toml [providers.fast]: ")


def test_opening_what_needs_no_library_loads_none() -> None:
    code = (
        "import sys\nfrom hansard.providers.open import open_providers\n"
        "open_providers({'a': {'kind': 'scripted', 'entries': [{}]}}, environment={})\n"
        "print(*sys.modules)"
    )
    source = Path(__file__).parents[2] / "src"
    # -S keeps out what site-packages would load by itself, such as a coverage hook.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    assert not {"openai", "anthropic", "httpx2", "xllamacpp"} & set(done.stdout.split())


def program(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\necho 1.0\n")
    path.chmod(0o755)


@pytest.mark.parametrize("installed", [("claude",), ("codex",), ("claude", "codex")])
def test_the_agent_clis_that_are_installed_are_found(installed: tuple[str, ...], tmp_path: Path) -> None:
    for name in installed:
        program(tmp_path, name)
    provider = opened({"kind": "cli-auto"}, environment={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert provider.describe()["rest_kind"] == f"{installed[0]}-cli"
    assert provider.describe()["visionary_kind"] == f"{installed[-1]}-cli"


def test_every_kind_that_needs_no_library_can_be_opened(tmp_path: Path) -> None:
    for name in ("claude", "codex", "gemini", "answer"):
        program(tmp_path, name)
    (tmp_path / "r.json").write_text("{}")
    tables = {
        **{kind: {"kind": kind} for kind in ("claude-cli", "codex-cli", "gemini-cli", "cli-auto")},
        "command": {"kind": "command", "argv": ["answer"], "max_concurrent": 2},
        "scripted": SCRIPTED,
        "replayed": {"kind": "replayed", "recording": "r.json"},
    }
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    found = open_providers(tables, environment=environment, folder=tmp_path)
    assert {name: provider.id for name, provider in found.items()} == {name: name for name in tables}
    assert {kind: found[kind].describe()["kind"] for kind in found} == {kind: kind for kind in tables}


# Secrets.


async def echo(_: Exchange) -> Completion:
    return says(f"the key is {KEY}", failure=failure("network", f"refused {KEY}"))


def with_kind(name: str, factory: Any) -> Registry:
    registry = Registry()
    registry.register(name, factory)
    return registry


async def test_the_keys_of_the_providers_are_known_and_scrubbed() -> None:
    registry = with_kind("mine", lambda id, options, environment: Doing(echo, id=id))
    secrets = Secrets()
    provider = opened(
        {"kind": "mine", "api_key_env": "MY_KEY"},
        environment={"MY_KEY": f" {KEY}\n"},
        registry=registry,
        secrets=secrets,
    )
    completion = await provider.complete(asking())
    assert KEY not in repr(completion)
    assert completion.text == "the key is [secret MY_KEY]"
    assert secrets.scrub(KEY) == "[secret MY_KEY]"


async def test_further_secrets_can_be_named() -> None:
    secrets = Secrets()
    opened(
        {**SCRIPTED, "secrets": ["DB_PASSWORD", "UNSET"]},
        environment={"DB_PASSWORD": "hunter2hunter2"},
        secrets=secrets,
    )
    assert secrets.scrub("hunter2hunter2") == "[secret DB_PASSWORD]"


def test_a_key_that_is_too_short_is_refused_when_it_is_configured() -> None:
    message = refusal({**SCRIPTED, "token_env": "TOKEN"}, environment={"TOKEN": "abc1234"})
    assert "the secret TOKEN has 7 characters" in message
    assert "abc1234" not in message


# Third parties.


async def test_a_third_partys_provider_is_held_to_the_contract() -> None:
    async def boom(_: Exchange) -> Completion:
        raise RuntimeError("boom")

    def factory(id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Provider:
        assert options == {"size": 3}
        assert environment == {"A": "b"}
        return Doing(boom, id=id)

    registry = with_kind("mine", factory)
    provider = opened({"kind": "mine", "size": 3, "max_concurrent": 2}, environment={"A": "b"}, registry=registry)
    completion = await provider.complete(asking())
    assert completion.failure is not None
    assert completion.failure.kind == "internal"


async def test_a_factory_gets_prices_and_progress_when_it_asks_for_them() -> None:
    got: dict[str, Any] = {}

    def factory(
        id: str, options: Mapping[str, Any], environment: Mapping[str, str], *, prices: Prices, progress: Any
    ) -> Provider:
        got.update(prices=prices, progress=progress)
        return Doing(echo, id=id)

    prices = Prices({"m": Price(input=1, output=1)})
    opened({"kind": "mine"}, registry=with_kind("mine", factory), prices=prices, progress=print)
    assert got == {"prices": prices, "progress": print}


def test_a_name_that_is_taken_cannot_be_registered() -> None:
    registry = Registry()
    registry.register("mine", Doing)
    registry.register("mine", Doing)
    for kind, factory in (("openai", Doing), ("mine", dict)):
        with pytest.raises(UsageError, match="is taken"):
            registry.register(kind, factory)  # type: ignore[arg-type]


def test_an_installed_package_brings_a_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    points = {
        "theirs": EntryPoint(name="theirs", value="providers.pretend:Doing", group="hansard.providers"),
        "broken": EntryPoint(name="broken", value="providers.nowhere:X", group="hansard.providers"),
        "odd": EntryPoint(name="odd", value="providers.pretend:KEY", group="hansard.providers"),
        "leaves": EntryPoint(name="leaves", value="leaves:X", group="hansard.providers"),
    }
    (tmp_path / "leaves.py").write_text("import sys; sys.exit('usage: leaves [-h]')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry_module, "_installed", lambda: points)
    registry = Registry()
    assert registry.find("theirs") is Doing
    assert {"theirs", "openai"} < set(registry.kinds())
    with pytest.raises(UsageError, match=r"'broken' \(providers.nowhere:X\) cannot be loaded"):
        registry.find("broken")
    with pytest.raises(UsageError, match="is no factory"):
        registry.find("odd")
    with pytest.raises(UsageError, match=r"'leaves' \(leaves:X\) cannot be loaded: SystemExit: usage: leaves"):
        registry.find("leaves")


class Panic(BaseException):
    """What libraries in other languages raise where they break."""


def raising(error: BaseException) -> Factory:
    def factory(id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Provider:
        raise error

    return factory


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (lambda id, options, environment: options["color"], "'mine' refuses this table: KeyError: 'color'"),
        (lambda id, options, environment: None, "None is no provider: it has no id, unmetered, complete, close, desc"),
        (raising(SystemExit(0)), "'mine' refuses this table: SystemExit: 0"),
        (raising(Panic("at lib.rs:1")), "'mine' refuses this table: Panic: at lib.rs:1"),
    ],
)
def test_what_a_factory_of_others_raises_or_makes_is_told_with_its_table(factory: Factory, said: str) -> None:
    told = refusal({"kind": "mine"}, registry=with_kind("mine", factory))
    assert told.startswith("hansard.toml [providers.fast]: ")
    assert said in told


def test_whoever_interrupts_while_a_factory_works_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt):
        refusal({"kind": "mine"}, registry=with_kind("mine", raising(KeyboardInterrupt())))


# What is the same for all.


async def test_a_breaker_stands_before_every_provider_that_asks_somebody() -> None:
    async def refused(_: Exchange) -> Completion:
        return says("", failure=failure("auth_failure", "no"))

    made: list[Doing] = []

    def factory(id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Provider:
        made.append(Doing(refused, id=id))
        return made[-1]

    registry = with_kind("mine", factory)
    for table, calls in (({}, 3), ({"breaker_after": 1}, 1), ({"breaker": False}, 6)):
        provider = opened({"kind": "mine", **table}, registry=registry)
        for _ in range(6):
            await provider.complete(asking())
        assert len(made[-1].asked) == calls


async def test_a_script_gives_out_as_many_refusals_as_it_says() -> None:
    entries = [{"failure": {"kind": "auth_failure", "message": str(number)}} for number in range(5)]
    provider = opened({"kind": "scripted", "mode": "sequential", "entries": entries})
    found = [(await provider.complete(asking())).failure for _ in range(5)]
    assert [each.message for each in found if each] == ["0", "1", "2", "3", "4"]


async def test_a_scripted_usage_reaches_the_caller_through_every_wrapper() -> None:
    entries = [{"text": "hello", "usage": {"input_tokens": 5, "output_tokens": 2}}]
    provider = opened(
        {"kind": "scripted", "entries": entries, "max_concurrent": 1, "per_minute": 6000, "breaker": True}
    )
    assert (await provider.complete(asking())).usage == Usage(input_tokens=5, output_tokens=2)


async def test_a_server_that_says_how_long_to_wait_is_left_alone_also_where_nothing_limits_it() -> None:
    """Whoever asks next would only be refused, whatever he asks for."""
    pytest.importorskip("openai")
    with serving() as wire:
        wire.will(Refuse(status=429, body={"error": {"message": "slow down"}}, headers={"retry-after": "1"}))
        table = {"kind": "openai", "base_url": f"{wire.url}/v1", "model": "m", "api_key_env": "KEY"}
        provider = opened(table, environment={"KEY": KEY})
        try:
            refused = (await provider.complete(asking())).failure
            assert refused is not None
            assert refused.kind == "rate_limit"
            began = time.monotonic()
            answers = await asyncio.gather(*(provider.complete(asking()) for _ in range(3)))
            assert 0.9 < time.monotonic() - began < 30
            assert [(each.ok, each.latency_us < 900_000) for each in answers] == [(True, True)] * 3
        finally:
            await provider.close()
