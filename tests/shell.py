"""Commands typed in a folder, in this process: quicker than a process each, for whatever needs no signal."""

import io
import json
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
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


def hansard(folder: Path, *words: object) -> CompletedProcess[str]:
    """A command and what came of it, as `command_line.hansard` tells it of a process."""
    out, err = io.BytesIO(), io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("HANSARD_")]:
            patch.delenv(name)
        patch.setenv("HANSARD_STATE", str(folder / "state"))
        patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8"))
        patch.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8"))
        argv = [str(word) for word in words]
        try:
            code = main(argv)
        except SystemExit as ended:
            code = int(ended.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        return CompletedProcess(argv, code, out.getvalue().decode(), err.getvalue().decode())
