"""`init`: a place to start from. Writes a commented hansard.toml, and makes the ledger that it names."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hansard.app.ledgers.custody import pin_of
from hansard.app.settings import CONFIG_NAME, LEDGER_NAME, read_settings, recordable, working_folder
from hansard.app.views import View
from hansard.app.wiring import open_or_found
from hansard.errors import HansardError, UsageError, unwritten
from hansard.seal.genesis import checked_origin

_CONFIG = """\
# Hansard reads the nearest hansard.toml from the working folder upward.
# Lines that begin with `#` and no space are settings to switch on: remove the `#`.

# Where the ledger lies: a path (x.db is SQLite, x.jsonl is JSON lines) or postgresql://user@host/database.
ledger = "{ledger}"
{origin}
# Who can be asked. Keys are named by environment variable, never written here; `hansard doctor` says what works.
#[providers.cloud]
#kind = "openai"                     # any server that speaks Chat Completions
#model = "gpt-4.1-mini"
#api_key_env = "OPENAI_API_KEY"
#max_concurrent = 8

#[providers.ollama]
#kind = "openai"
#base_url = "http://127.0.0.1:11434/v1"
#model = "llama3.2"
#unmetered = true                    # nobody sends a bill for it

#[providers.program]
#kind = "command"                    # the prompt on its standard input, the answer on its standard output
#argv = ["my-agent", "--stdin"]

# The ladder: work starts on the cheapest rung, and climbs when its result is rejected.
#[tiers]
#cheap = "ollama"
#capable = "cloud"
#frontier = "cloud:gpt-4.1"          # PROVIDER:MODEL

# Who plays the control roles; without this the capable tier does.
#[roles]
#coordinator = "cloud"               # makes the plan
#classifier = "ollama"               # picks a lane where the router is not certain
#validator = "cloud"                 # judges results before anything is built on them
#synthesizer = "cloud"               # writes the one answer
#intent_judge = "cloud"              # says whether the answer serves what was asked for
#reviser = "cloud"                   # shortens it
#default = "ollama"                  # who is asked where nobody else is named

# How runs go. Flags of `hansard submit` go before these.
#[run]
#judge = "model"                     # or "checks": only the checks of the plan, no validator
#answer = "synthesize"               # or "join": the results one after another, without a model
#ladder = ["cheap", "capable"]       # tiers or providers (default: the tiers above)
#tries = 1                           # rejected results per rung before the next rung
#timeout_s = 600                     # for one call
#retries = 2                         # of calls that fail in passing
#restarts = 3                        # of attempts, and of questions to roles, that a crash cut short
#corrections = 2                     # of control roles that answer in a wrong shape
#max_tasks = 50                      # in a plan of the coordinator's
#max_output_tokens = 4000
#upstream_chars = 8192               # of each result that later prompts are given
#answer_chars = 100000               # of all results that the synthesizer is given
#judge_intent = false                # what looks at the answer: docs/answer-checks.md
#revise = false
#profile = "normal"                  # or "brief", "thorough", "report"

# What one run may spend; what is not set has no limit.
#[budget]
#max_calls = 100
#max_tokens = 500000
#max_usd = "1.00"
#max_seconds = 1800

# Where people are asked, in every run.
#[[gate]]
#before = "plan"                     # or "tasks", with tasks = ["ID"] or lanes = ["NAME"]
#needed = 1                          # how many have to approve
#approvers = ["human:ann"]           # who may (default: anybody)
#deadline_s = 86400
#on_expiry = "reject"                # or "approve"

# What a run is given along, who else judges its answer, who revises it: one of command, url, entry_point each.
#[[context]]
#name = "style"
#command = ["my-agent", "--style"]
#max_tokens = 2000
#when = "request"                    # for whoever plans; or "task", "both"

#[verifier]
#command = ["my-agent", "--verify"]

#[reviser]
#command = ["my-agent", "--revise"]

# A panel that deliberates, wherever a provider is named: "panel:bench" as a rung, a lane, a role. See docs/panels.md.
#[panels.bench]
#agents = ["critic", "engineer"]     # personas: those that ship, or personas/NAME.toml beside this file
#provider = "cloud"
#max_rounds = 3
#max_calls = 20
#max_tokens = 200000

# Who sits there, besides those that ship.
#[personas.lawyer]
#persona_class = "domain"
#reasoning_scope = "data protection law"
#reasoning_style = "careful and literal"
#behavioral_constraints = ["Cite the article."]
#failure_modes = ["Sees a risk in everything."]
#domain_scope = ["privacy"]
#forbidden_domains = ["cryptography"]
#must_delegate = {{cryptography = "engineer"}}

# What runs a tool that agents of a deliberation declare. See docs/panels.md.
#[tools.almanac]
#command = ["python", "almanac.py"]  # or url = "http://...", or entry_point = "NAME"
#description = "What happened in a year."

# What runs may use.
#[policy]
#max_parallel = 8
#deny_lanes = ["web-intel"]
#deny_categories = ["support"]
#allow_lanes = []                    # empty: all
#allow_categories = []

# Your own lanes; without this, the 24 that ship (`hansard roster`).
#[roster]
#file = "roster.toml"

# Dollars per million tokens, for models that Hansard does not know; a budget in dollars needs a price for every model.
#[prices."my-model"]
#input = 0.40
#output = 1.60

# Somebody else's witness, which cosigns the log as it grows: proof that nobody has rewritten it since (docs/witness.md).
#[witnesses.example]
#url = "https://example.org"
#key = "example.org/witness+..."     # what `hansard witness key` prints there
"""

_ORIGIN = """
# The log's public name, fixed when the ledger is made.
{origin}
"""
_NO_ORIGIN = '#origin = "example.org/agents"'


def found(ledger: str | None, *, origin: str | None) -> View:
    """Make what is not there yet; what is there stays as it is, and where nothing can be made, nothing is left."""
    config = Path(recordable(working_folder())) / CONFIG_NAME
    named = f"origin = {json.dumps(checked_origin(origin), ensure_ascii=False)}" if origin else _NO_ORIGIN
    text = _CONFIG.format(ledger=LEDGER_NAME.as_posix(), origin=_ORIGIN.format(origin=named))
    before = _used_until_now() if ledger is None else None
    written = ledger is None and _written(config, text)
    try:
        settings = read_settings(ledger)
        opened = open_or_found(replace(settings, origin=origin) if origin else settings, writing=False)
        if origin and (name := opened.store.entry(0).data.get("origin")) != origin:
            opened.close()
            raise UsageError(
                f"{opened.store.place} is there already and called {name!r:.80}, and a log keeps its name; "
                "leave out --origin, or make another one with --ledger"
            )
    except HansardError:
        if written:
            config.unlink(missing_ok=True)
        raise
    try:
        if opened.is_new and opened.sealer:
            opened.sealer.checkpoint()
        return {
            "config": str(settings.config) if settings.config else None,
            "config_written": written,
            "ledger": opened.store.place,
            "ledger_made": opened.is_new,
            "ledger_from": "HANSARD_LEDGER" if ledger is None and settings.environment.get("HANSARD_LEDGER") else None,
            "custody": opened.custody,
            "pin": pin_of(opened.store),
            "before": before if written and opened.is_new else None,
        }
    finally:
        opened.close()


def _used_until_now() -> str | None:
    """The ledger to which whatever was submitted here went: that of a folder above, or the user's. None where there is none."""
    with suppress(UsageError):
        ledger = read_settings().ledger
        return ledger if Path(ledger).is_file() else None
    return None


def _written(path: Path, text: str) -> bool:
    """Write a file where there is none; False where one is there already, whoever wrote it."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise unwritten(f"cannot write {path}: {error.strerror}", error) from error
    return True
