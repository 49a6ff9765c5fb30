"""The SDKs are extras: nothing loads them before they are used, and their absence is told with the line that helps."""

import subprocess
import sys
from pathlib import Path

import pytest

from hansard.errors import UsageError
from hansard.providers.open import open_providers
from hansard.providers.secrets import Secrets

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {"openai", "anthropic", "httpx2", "pydantic", "opentelemetry"}


def said_by(code: str) -> str:
    """What a fresh interpreter prints."""
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    "module", ["hansard", "hansard.providers.open", "hansard.providers.limits", "hansard.surfaces.cli.main"]
)
def test_importing_hansard_imports_no_sdk(module: str) -> None:
    loaded = set(said_by(f"import sys, {module}\nprint(*sys.modules)").split())
    assert module in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize(("kind", "sdk"), [("openai", "openai"), ("anthropic", "anthropic"), ("local", "openai")])
def test_an_sdk_that_is_missing_is_told_with_the_line_that_installs_it(kind: str, sdk: str) -> None:
    code = f"""
import sys
sys.modules[{sdk!r}] = None
from hansard.errors import MissingExtra
from hansard.providers.open import open_providers
try:
    open_providers({{"mine": {{"kind": {kind!r}, "model": "m"}}}}, environment={{}})
except MissingExtra as error:
    print(error)
"""
    said = said_by(code)
    assert f"pip install 'hansard[{kind}]'" in said
    assert "[providers.mine]" in said


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_provider_is_opened_from_its_table_with_everything_around_it(kind: str) -> None:
    secrets = Secrets()
    table = {"kind": kind, "model": "m", "api_key_env": "MY_KEY", "max_concurrent": 3, "unmetered": True}
    opened = open_providers({"mine": table}, environment={"MY_KEY": "sk-0123456789"}, secrets=secrets)
    said = opened["mine"].describe()
    assert (said["kind"], said["model"], opened["mine"].unmetered) == (kind, "m", True)
    assert secrets.scrub("my key is sk-0123456789") == "my key is [secret MY_KEY]"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_bad_table_is_refused_with_its_file_and_name(kind: str) -> None:
    with pytest.raises(UsageError, match=r"^hansard.toml \[providers.mine\]: .*_API_KEY is not set"):
        open_providers({"mine": {"kind": kind}}, environment={})
