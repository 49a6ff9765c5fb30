import re
from pathlib import Path

import pytest

from hansard.app.configuring import Wishes, run_config
from hansard.app.founding import found
from hansard.app.pool import Pool
from hansard.app.settings import read_settings
from hansard.domain.roster import Roster, roster_as_toml
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
