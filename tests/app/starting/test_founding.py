import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from command_line import SRC, started
from hansard.app.ledgers.ledger import LedgerService
from hansard.app.pool import Pool
from hansard.app.settings import KNOWN, ROLES, Settings, read_settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.panels import panel_of, personas_of
from hansard.app.setup.wishes import Wishes
from hansard.app.starting.founding import found
from hansard.app.wiring import found_ledger
from hansard.domain.roster import Roster
from hansard.errors import HansardError
from hansard.orchestration.config import Tuning
from roster_files import roster_as_toml
from shell import Shell, hansard


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that init writes, as it is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    found(None, origin=None)
    return tmp_path / "hansard.toml"


def switched_on(text: str) -> str:
    """With every setting in it switched on: a `#` that no space follows is taken away."""
    return re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)


def test_the_file_as_written_sets_nothing_but_the_ledger(config: Path) -> None:
    settings = read_settings(environ={"HOME": "/h"}, folder=config.parent)
    assert settings.ledger == str(config.parent / ".hansard" / "ledger.db")
    assert not settings.providers
    assert not settings.budget


@pytest.fixture
def switched(config: Path) -> Path:
    """The folder with the file in which everything is switched on, and the roster and the program that it names."""
    config.write_text(switched_on(config.read_text("utf-8")), "utf-8")
    (config.parent / "roster.toml").write_text(roster_as_toml(Roster.default()), "utf-8")
    (config.parent / "my-agent").write_text("#!/bin/sh\ncat\n")
    (config.parent / "my-agent").chmod(0o755)
    return config.parent


async def test_the_file_with_everything_switched_on_configures_a_run(switched: Path) -> None:
    environ = {"HOME": "/h", "PATH": str(switched), "OPENAI_API_KEY": "sk-not-a-real-key"}
    settings = read_settings(environ=environ, folder=switched)
    pool = Pool(settings)
    made = run_config(settings, pool, Wishes())
    await pool.close()
    assert (made.tiers["cheap"], made.role("classifier"), made.ladder) == ("ollama", "ollama", ("cheap", "capable"))
    assert (made.budget.max_cost_usd_nano, made.budget.max_calls) == (1_000_000_000, 100)
    assert made.policy.deny_lanes == ("web-intel",)
    assert "lawyer" in [each.id for each in personas_of(settings)]
    assert [seat.persona.id for seat in panel_of(settings, "bench").seats] == ["critic", "engineer"]


def test_every_table_and_every_number_of_a_run_stands_in_it(config: Path) -> None:
    text = config.read_text("utf-8")
    assert set(KNOWN) == tomllib.loads(switched_on(text)).keys()
    for name in (*Tuning.names(), *ROLES):
        assert re.search(rf"^#{name} = ", text, re.MULTILINE), name


def test_of_several_first_submits_in_a_folder_none_is_lost(tmp_path: Path) -> None:
    words = ("--provider", "rehearsal", "--ledger", "race.db", "--quiet")
    processes = [started(tmp_path, "submit", f"request {number}", *words) for number in range(4)]
    said = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    assert [code for _, _, code in said] == [0, 0, 0, 0], said
    settings = Settings(ledger=str(tmp_path / "race.db"), state=tmp_path / "state")
    with LedgerService.open(settings) as ledger:
        assert ledger.summary()["run_states"] == {"answered": 4}
        nonce = ledger.store.entry(0).data["nonce"]
    assert [each.name for each in (tmp_path / "state" / "logs").iterdir()] == [nonce]


@pytest.mark.parametrize("words", [(), ("--ledger", "race.jsonl")])
def test_of_several_inits_in_a_folder_one_makes_everything_and_the_others_say_so(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        processes = [started(folder, "init", "--json", *words) for _ in range(4)]
        said = [(*process.communicate(timeout=120), process.returncode) for process in processes]
        assert [code for _, _, code in said] == [0, 0, 0, 0], said
        views = [json.loads(out) for out, _, _ in said]
        assert sorted(view["ledger_made"] for view in views) == [False, False, False, True]
        assert sum(view["config_written"] for view in views) == (0 if words else 1)
        assert len({view["pin"] for view in views}) == 1
        assert len(list((folder / "state" / "logs").iterdir())) == 1
        assert hansard(folder, "verify", *words[1:]).returncode == 0


def test_of_two_first_submits_into_json_lines_one_is_told_who_writes_there(tmp_path: Path) -> None:
    words = ("--provider", "rehearsal", "--ledger", "new/race.jsonl", "--quiet")
    processes = [started(tmp_path, "submit", f"request {number}", *words) for number in range(2)]
    said = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    assert {code for _, _, code in said} <= {0, 11}, said
    refused = [err for _, err, code in said if code]
    assert len(refused) < 2
    assert all(f"writes here and holds {tmp_path / 'new' / 'race.lock'}" in err for err in refused), refused
    assert hansard(tmp_path, "verify", "new/race.jsonl", "--deep").returncode == 0
    assert len(list((tmp_path / "state" / "logs").iterdir())) == 1


def test_an_init_that_fails_takes_its_file_back(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    done = hansard(tmp_path, "init")
    assert (done.returncode, done.stdout) == (2, "")
    assert {each.name for each in tmp_path.iterdir()} <= {"state", ".hansard"}


def test_an_origin_with_quotes_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    found(None, origin='a"b\\c')
    assert read_settings(environ={"HOME": "/h"}, folder=tmp_path).origin == 'a"b\\c'


@pytest.fixture
def unnameable(shell: Shell, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """In a folder whose name is not UTF-8, with a ledger, a session and a run that waits, all made under another name."""
    assert shell.type("init")[0] == 0
    assert shell.type("deliberate", "x", "--provider", "rehearsal")[0] == 0
    assert shell.type("submit", "x", "--provider", "rehearsal", "--gate", "plan")[0] == 14
    try:
        shell.folder = shell.folder.rename(os.fsdecode(bytes(tmp_path_factory.mktemp("odd")) + b"/caf\xe9"))
    except OSError:
        pytest.skip("this file system has UTF-8 names alone")
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("HANSARD_STATE", str(shell.folder / "state"))
    return shell


NEW = (
    ("init",),
    ("submit", "x", "--provider", "rehearsal"),
    ("plan", "x", "--provider", "rehearsal"),
    ("deliberate", "x", "--provider", "rehearsal"),
    ("serve", "--port", "0"),
    ("mcp",),
    ("demo", "--folder", "demo"),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", NEW, ids=lambda words: words[0])
def test_nothing_is_begun_in_a_folder_that_the_record_cannot_name(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has UTF-8 names alone")
    done = hansard(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hansard: nothing can be run in ")
    assert "caf\\xe9: its name is not UTF-8" in done.stderr
    assert list(folder.iterdir()) == []


def test_what_is_in_such_a_folder_is_read_verified_and_finished(unnameable: Shell) -> None:
    [session] = [each.name for each in (unnameable.folder / "runs").iterdir()]
    [gate] = unnameable.asks("gates", "list")
    for words in (
        ("verify", "--deep"),
        ("doctor",),
        ("runs", "list"),
        ("runs", "show", "last", "--json"),
        ("gates", "approve", gate["gate"]),
        ("runs", "resume", "last"),
        ("session", "validate", session),
        ("session", "replay", session),
        ("ledger", "export", "out"),
        ("verify", "out"),
    ):
        assert unnameable.type(*words)[0] == 0, (words, unnameable.err)
    path = unnameable.asks("verify")["path"]
    assert path == bytes(unnameable.folder / ".hansard" / "ledger.db").decode("utf-8", "backslashreplace")


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": SRC, "HANSARD_STATE": str(tmp_path / "state")}
    (tmp_path / "gone").mkdir()
    words = 'cd gone && rmdir ../gone && exec "$0" -m hansard submit x --provider rehearsal'
    done = subprocess.run(["sh", "-c", words, sys.executable], cwd=tmp_path, env=environment, capture_output=True)
    assert (done.returncode, b"this folder is not there any more" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("name", ["there.db", "there.jsonl", "file/never.db"])
def test_a_ledger_that_is_not_made_leaves_no_keys(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    for ledger in ("there.db", "there.jsonl"):
        found_ledger(Settings(ledger=str(tmp_path / ledger), state=tmp_path / "state")).close()
    before = set((tmp_path / "state" / "logs").iterdir())
    with pytest.raises(HansardError, match=r"already|cannot make the folder"):
        found_ledger(Settings(ledger=str(tmp_path / name), state=tmp_path / "state"))
    assert set((tmp_path / "state" / "logs").iterdir()) == before


def test_the_folders_of_the_state_are_for_their_owner_alone(tmp_path: Path) -> None:
    found_ledger(Settings(ledger=str(tmp_path / "x.db"), state=tmp_path / "a" / "state")).close()
    for folder in (tmp_path / "a", tmp_path / "a" / "state", tmp_path / "a" / "state" / "logs"):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
