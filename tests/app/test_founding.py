import re
from pathlib import Path

import pytest

from command_line import started
from hansard.app.configuring import Wishes, run_config
from hansard.app.founding import found
from hansard.app.ledger import LedgerService
from hansard.app.pool import Pool
from hansard.app.settings import Settings, read_settings
from hansard.app.wiring import found_ledger
from hansard.domain.roster import Roster, roster_as_toml
from hansard.errors import HansardError
from hansard.orchestration.config import Tuning

TABLES = ("providers", "tiers", "roles", "run", "budget", "policy", "roster", "prices")


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


def test_every_table_and_every_number_of_a_run_stands_in_it(config: Path) -> None:
    text = config.read_text("utf-8")
    for table in TABLES:
        assert re.search(rf"^#\[{table}[.\]]", text, re.MULTILINE), table
    for name in Tuning.__slots__:
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
