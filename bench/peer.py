"""The peer's own environment, made once in the user's cache and never looked into."""

import os
import shutil
import sys
from pathlib import Path

from bench.process import Driver, DriverFailed, run

NAME = "forum-engine"
VERSION = "1.17.0"


def folder() -> Path:
    """Where the environment lies: outside the repository."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "hansard-bench" / f"{NAME}-{VERSION}"


def find_peer() -> tuple[Driver | None, str]:
    """The peer's driver and its version; or None, and why there is none."""
    home = folder()
    driver = Driver(python=home / "bin" / "python", module="bench.peer_driver")
    try:
        if not _answers(driver):
            _install(home)
        found = driver.ask("versions")[NAME]
    except (DriverFailed, OSError) as error:
        return None, f"{NAME}=={VERSION} could not be installed into {home}: {error}"
    if found != VERSION:
        return None, f"{home} holds {NAME} {found}, not {VERSION}; delete that folder and try again"
    return driver, found


def _answers(driver: Driver) -> bool:
    try:
        driver.ask("versions")
    except (DriverFailed, OSError):
        return False
    return True


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
