"""Commands typed in a folder, in this process: quicker than a process each, for whatever needs no signal."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansard.surfaces.cli.main import main


class Shell:
    """A folder in which commands are typed. `err` is what the last one said on standard error."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch) -> None:
        patch.chdir(folder)
        patch.setenv("HANSARD_STATE", str(folder / "state"))
        self.folder, self._capture = folder, capture
        self.err = ""

    def type(self, *words: object) -> tuple[int, str]:
        """The exit code and what is on standard output."""
        self._capture.readouterr()
        code = main([str(word) for word in words])
        out, err = self._capture.readouterr()
        self.err = err.decode()
        return code, out.decode()

    def asks(self, *words: object) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.type(*words, "--json")[1])

    def write(self, name: str, data: object) -> Path:
        (self.folder / name).write_text(json.dumps(data))
        return self.folder / name
