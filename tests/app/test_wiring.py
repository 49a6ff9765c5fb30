"""Where a provider stands: whom a complaint about it blames, and from where its paths are meant."""

from pathlib import Path
from typing import Any

import pytest

from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes, flagged
from hansard.app.wiring import open_providers
from hansard.errors import UsageError

OPENAI: dict[str, Any] = {"kind": "openai", "model": "gpt-4o"}
NO_KEY = "there is no key: the environment variable OPENAI_API_KEY is not set; `export OPENAI_API_KEY=…` sets it"


def complaint(folder: Path, tables: dict[str, Any] | None = None, **more: Any) -> str:
    settings = Settings(ledger="memory:", state=folder, config=folder / "mine.toml", providers={"cloud": OPENAI})
    with pytest.raises(UsageError) as refused:
        open_providers(settings, tables, **more)
    return str(refused.value)


def test_a_provider_of_the_file_is_named_with_the_file(tmp_path: Path) -> None:
    assert complaint(tmp_path) == f"{tmp_path / 'mine.toml'} [providers.cloud]: {NO_KEY}"
    assert complaint(tmp_path, {"cloud": OPENAI}) == f"{tmp_path / 'mine.toml'} [providers.cloud]: {NO_KEY}"


def test_a_provider_that_stands_in_no_file_is_named_alone(tmp_path: Path) -> None:
    assert complaint(tmp_path, {"openai": OPENAI}) == f"provider openai: {NO_KEY}"


def test_a_provider_that_stands_elsewhere_is_named_with_that_place(tmp_path: Path) -> None:
    assert complaint(tmp_path, {"flag": OPENAI}, places={"flag": "--api"}) == f"--api: {NO_KEY}"


def test_a_program_that_a_flag_names_is_meant_from_where_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    (tmp_path / "run").touch()
    commands = ("./mine -x a/b", "mine ./a", "/bin/mine", "python3 mine.py run other.py ./run .")
    asked = {cmd: flagged(Wishes(cmd=cmd))[1]["flag"]["argv"] for cmd in commands}
    assert asked == {
        "./mine -x a/b": [str(tmp_path / "mine"), "-x", "a/b"],
        "mine ./a": ["mine", "./a"],
        "/bin/mine": ["/bin/mine"],
        "python3 mine.py run other.py ./run .": [
            "python3",
            f"{tmp_path}/mine.py",
            "run",
            "other.py",
            f"{tmp_path}/run",
            ".",
        ],
    }
