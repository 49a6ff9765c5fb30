"""What holds for every test: a home of its own, no settings from outside, reproducible properties."""

import asyncio
import inspect
import os
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from components import need
from hansard.surfaces.cli.main import collect_seldom
from requirements_shown import Shown
from sampled import Sampled
from shell import Shell
from traced_first import TracedFirst

if TYPE_CHECKING:
    from signed_log import SignedLog

# The suites ship in the package, where pytest does not explain failed asserts unless it is asked to.
pytest.register_assert_rewrite("hansard.store.conformance", "hansard.providers.conformance")

# No deadline: the machines that run this are shared, and slowness is measured by `make bench`, not by chance.
hypothesis.settings.register_profile("hansard", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("hansard")

FOR_EVER_S = 600.0

# As in every process of ours: looking for what may be freed takes a twelfth of the time of all tests.
collect_seldom()


@pytest.fixture(scope="session", autouse=True)
def _a_home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests away from the user's ledgers and keys, and the user's settings away from the tests."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("HANSARD_", "XDG_")):
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        yield


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: a sync costs nothing there, and a kill loses nothing that a kernel holds."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def log(tmp_path: Path) -> "Iterator[SignedLog]":
    """A log that is signed, and has nothing in it yet."""
    from signed_log import SignedLog

    made = SignedLog.create(tmp_path / "log")
    yield made
    made.store.close()


@pytest.fixture
def shell(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, capfdbinary, monkeypatch)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Shown())
    config.pluginmanager.register(Sampled())
    config.pluginmanager.register(TracedFirst())


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_root"):
        need(os.geteuid() == 0, "root (run the tests with sudo, or in a container)")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Async tests run on a loop of their own. One that waits for ever fails by its name, and holds up no run of all."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted})
    asyncio.run(_within(None if pyfuncitem.get_closest_marker("long") else FOR_EVER_S, test))
    return True


async def _within(seconds: float | None, test: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(seconds):
        await test


@pytest.fixture(autouse=True)
def _desks_leave_no_thread() -> Iterator[None]:
    yield
    if (running := sys.modules.get("running")) is not None:
        running.leave_no_thread()
