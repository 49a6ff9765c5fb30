"""Commands typed in this process, for tests that look at both streams."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hansard.surfaces.cli.main import main

Said = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Said]:
    """Type a command: its exit code, and what it says on both streams."""
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))

    def call(*words: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
