"""The reference runtime of the deliberation protocol in an environment of its own, made once in the user's cache."""

import os
import shutil
import sys
from pathlib import Path

from bench.process import Driver, DriverFailed, run

NAME = "symposium-protocol"
VERSION = "1.12.0"


def folder() -> Path:
    """Where the environment lies: outside the repository."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "hansard-bench" / f"{NAME}-{VERSION}"


def find_reference() -> tuple[Driver | None, str]:
    """Its driver and its version; or None, and why there is none."""
    driver = Driver(python=folder() / "bin" / "python", module="bench.reference_driver")
    try:
        return driver, str(driver.ask("versions")[NAME])
    except (DriverFailed, OSError):
        pass
    try:
        _install(folder())
        return driver, str(driver.ask("versions")[NAME])
    except (DriverFailed, OSError) as error:
        return None, f"{NAME}=={VERSION} could not be installed into {folder()}: {error}"


def _install(home: Path) -> None:
    """A new environment each time: half an installation is none."""
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{NAME}=={VERSION}"],
    ):
        done = run(command)
        if done.returncode:
            raise DriverFailed(" / ".join(done.stderr.strip().splitlines()[-1:]) or f"{command[1:4]} failed")
