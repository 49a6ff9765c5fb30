"""`init`: a place to start from. Writes a commented hansard.toml, and makes the ledger that it names."""

from dataclasses import replace
from pathlib import Path

from hansard.app.custody import pin_of
from hansard.app.settings import CONFIG_NAME, LEDGER_NAME, read_settings
from hansard.app.views import View
from hansard.app.wiring import found_ledger, ledger_exists, open_ledger
from hansard.errors import StoreError

_CONFIG = """\
# Hansard reads the nearest hansard.toml from the working folder upward.

# Where the ledger lies: a path (x.db is SQLite, x.jsonl is JSON lines) or postgresql://user@host/database.
ledger = "{ledger}"
{origin}
# Who can be asked. Keys are named by environment variable, never written here; `hansard doctor` says what works.
# [providers.cloud]
# kind = "openai"                     # any server that speaks Chat Completions
# model = "gpt-4.1-mini"
# key_env = "OPENAI_API_KEY"
# max_concurrent = 8
#
# [providers.ollama]
# kind = "openai"
# base_url = "http://127.0.0.1:11434/v1"
# model = "llama3.2"
#
# [providers.program]
# kind = "command"
# argv = ["my-agent", "--stdin"]
#
# [tiers]
# cheap = "ollama"
# capable = "cloud"
"""


def found(ledger: str | None, *, origin: str | None) -> View:
    """Make what is not there yet; what is there stays as it is."""
    config = Path.cwd() / CONFIG_NAME
    written = not config.exists() and ledger is None
    if written:
        name = f'\n# The log\'s public name, fixed when the ledger is made.\norigin = "{origin}"\n' if origin else ""
        _write(config, _CONFIG.format(ledger=LEDGER_NAME.as_posix(), origin=name))
    settings = read_settings(ledger)
    made = not ledger_exists(settings.ledger)
    if made and origin:
        settings = replace(settings, origin=origin)
    opened = found_ledger(settings) if made else open_ledger(settings)
    try:
        if made and opened.sealer:
            opened.sealer.checkpoint()
        return {
            "config": str(settings.config) if settings.config else None,
            "config_written": written,
            "ledger": opened.store.place,
            "ledger_made": made,
            "custody": opened.custody,
            "pin": pin_of(opened.store),
        }
    finally:
        opened.close()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
