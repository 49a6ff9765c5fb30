"""The floors of ARCHITECTURE.md, kept over the import graph: each rule holds here, and each rule can fail."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from import_graph import Import, Module, Tree, circles, inside, loaded_by, parents, read_tree, rooms

SOURCE = Path(__file__).parent.parent / "src"

# surfaces → app → orchestration │ deliberation → record → seal │ store │ providers → ledger │ domain
FLOORS = (
    ("ledger", "domain"),
    ("seal", "store", "providers"),
    ("record",),
    ("orchestration", "deliberation"),
    ("app",),
    ("surfaces",),
    ("__main__",),
)
HEIGHT = {f"hansard.{package}": height for height, row in enumerate(FLOORS) for package in row}
FOR_ALL_BUT_THE_LEDGER = ("hansard.errors", "hansard.durable", "hansard.finishing", "hansard.__about__")
FACE = "hansard"

# Where each library may be named. A library that is not in this table has no place yet.
PLACES = {
    "anthropic": ("hansard.providers",),
    "anyio": ("hansard.surfaces.mcp",),
    "cryptography": ("hansard.seal",),
    "fastapi": ("hansard.surfaces.http",),
    "httpx2": ("hansard.providers",),
    "jinja2": ("hansard.surfaces.http",),
    "mcp": ("hansard.surfaces.mcp",),
    "openai": ("hansard.providers",),
    "opentelemetry": ("hansard.surfaces.http",),
    "orjson": ("hansard.record",),
    "psycopg": ("hansard.store.postgres",),
    "pydantic": ("hansard.surfaces.http", "hansard.surfaces.mcp", "hansard.surfaces.shapes"),
    "requests": ("hansard.surfaces.http",),
    "rich": ("hansard.surfaces.cli",),
    "starlette": ("hansard.surfaces.http", "hansard.surfaces.mcp"),
    "structlog": ("hansard.surfaces.http",),
    "uvicorn": ("hansard.surfaces.http",),
    "xllamacpp": ("hansard.providers",),
    "yaml": ("hansard.deliberation.documents",),
}
# Suites that ship for whoever writes a back end of his own; they are tests, so they may use what tests use.
TEST_AIDS = ("hansard.store.conformance", "hansard.providers.conformance")

PROVIDERS_MAY_SEE = (
    "hansard.providers",
    *("hansard.domain.exchange", "hansard.domain.budget", "hansard.domain.fields", "hansard.domain.value"),
    *FOR_ALL_BUT_THE_LEDGER,
)
SURFACES_MAY_SEE = ("hansard.surfaces", "hansard.app", *FOR_ALL_BUT_THE_LEDGER)
VERIFY_NEEDS_NO_APP = ("hansard.ledger.verify", "hansard.ledger.command")

BACK_ENDS = {
    "hansard.store": ("memory", "jsonl", "sqlite", "postgres"),
    "hansard.providers": (
        *("scripted", "replayed", "command", "local"),
        *("openai", "anthropic", "agents.claude", "agents.codex", "agents.gemini"),
    ),
}
CHOOSERS = ("hansard.store.open", "hansard.providers.open")
WIRING = "hansard.app.wiring"

SETTINGS = "hansard.app.settings"
A_TERMINAL_ASKS_FOR = frozenset({"NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES"})

# Besides the one reader: who copies a log, who says in which state a body is, and who looks where else an erased text stands.
MAY_TAKE_A_BODY = (
    *("hansard.store", "hansard.record.reading", "hansard.record.export", "hansard.record.copying"),
    *("hansard.app.ledgers.parts", "hansard.app.ledgers.redacting", "hansard.app.starting.tampering"),
)

PURE = (
    "hansard.orchestration.schedule",
    "hansard.orchestration.escalate",
    "hansard.orchestration.gates",
    "hansard.orchestration.checks",
    "hansard.deliberation.protocol",
)
CLOCKS_AND_CHANCE = {"random", "secrets", "time", "uuid"}
DISKS_AND_NETWORKS = {"http", "io", "os", "pathlib", "shutil", "socket", "sqlite3", "tempfile", "urllib"}
OTHER_HANDS = {"asyncio", "multiprocessing", "subprocess", "threading"}
IMPURE = CLOCKS_AND_CHANCE | DISKS_AND_NETWORKS | OTHER_HANDS

Rule = Callable[[Tree], list[str]]


def floor_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


def imports(tree: Tree, *packages: str) -> Iterator[tuple[Module, Import]]:
    """Every import made inside these packages, or everywhere."""
    for module in tree.values():
        if not packages or inside(module.name, *packages):
            yield from ((module, each) for each in module.imports)


def say(module: Module, each: Import, reason: str) -> str:
    return f"{module.name}:{each.line} imports {each.target}: {reason}"


def every_module_stands_on_a_floor(tree: Tree) -> list[str]:
    known = {FACE, *FOR_ALL_BUT_THE_LEDGER, *HEIGHT}
    return [f"{name} stands on no floor" for name in tree if floor_of(name) not in known]


def imports_run_down(tree: Tree) -> list[str]:
    found = []
    for module, each in imports(tree):
        here, there = floor_of(module.name), floor_of(each.target)
        if module.name == FACE or not inside(each.target, FACE) or here == there:
            continue
        if each.target == FACE:
            found.append(say(module, each, "the face is for callers outside"))
        elif inside(each.target, *FOR_ALL_BUT_THE_LEDGER):
            continue
        elif HEIGHT.get(there, 99) >= HEIGHT.get(here, -1):
            found.append(say(module, each, "imports run down, and never sideways"))
    return found


def the_ledger_needs_only_the_standard_library_and_itself(tree: Tree) -> list[str]:
    found = []
    for module, each in imports(tree, "hansard.ledger"):
        if inside(each.target, "hansard.ledger") and not each.relative:
            found.append(say(module, each, "zipped alone the folder has no such name; import relatively"))
        elif not inside(each.target, "hansard.ledger", *sys.stdlib_module_names):
            found.append(say(module, each, "the proof is the standard library and itself"))
    return found


def a_library_is_named_in_its_place_only(tree: Tree) -> list[str]:
    return [
        say(module, each, f"its place is {' or '.join(PLACES.get(library, ('not settled in PLACES',)))}")
        for module, each in imports(tree)
        if (library := each.target.split(".")[0]) not in {FACE, *sys.stdlib_module_names}
        and not inside(module.name, *PLACES.get(library, ()), *TEST_AIDS)
    ]


def a_provider_has_never_heard_of_a_plan_or_a_ledger(tree: Tree) -> list[str]:
    return [
        say(module, each, "a provider sees domain.exchange, domain.budget, domain.value and errors")
        for module, each in imports(tree, "hansard.providers")
        if inside(each.target, FACE) and not inside(each.target, *PROVIDERS_MAY_SEE)
    ]


def back_end_of(name: str) -> str | None:
    """`hansard.store.sqlite` for itself, for modules inside it, and for its neighbours named sqlite_…"""
    for back_end in (f"{package}.{each}" for package, names in BACK_ENDS.items() for each in names):
        if inside(name, back_end) or name.startswith(f"{back_end}_"):
            return back_end
    return None


def only_wiring_names_back_ends(tree: Tree) -> list[str]:
    return [
        say(module, each, f"only {WIRING} names concrete back ends, and they share no code")
        for module, each in imports(tree)
        if module.name not in {WIRING, *CHOOSERS, *TEST_AIDS}
        and (inside(each.target, *CHOOSERS) or back_end_of(each.target) not in {None, back_end_of(module.name)})
    ]


def only_settings_reads_the_environment(tree: Tree) -> list[str]:
    return [
        f"{module.name}:{read.line} reads {read.name or 'the environment'}: only {SETTINGS} does"
        for module in tree.values()
        for read in module.environment
        if module.name != SETTINGS
        and not (inside(module.name, "hansard.surfaces.cli") and read.name in A_TERMINAL_ASKS_FOR)
    ]


def a_body_is_read_where_its_commitment_is_opened(tree: Tree) -> list[str]:
    return [
        f"{module.name}:{line} takes a body from a store unopened: hansard.record.reading opens its commitment"
        for module in tree.values()
        for line in module.bodies
        if not inside(module.name, *MAY_TAKE_A_BODY)
    ]


def surfaces_see_only_the_app(tree: Tree) -> list[str]:
    return [
        say(module, each, "a surface sees app and errors")
        for module, each in imports(tree, "hansard.surfaces")
        if inside(each.target, FACE)
        and not inside(each.target, *SURFACES_MAY_SEE)
        and not (inside(module.name, "hansard.surfaces.cli") and each.target in VERIFY_NEEDS_NO_APP)
    ]


def the_command_line_starts_without_libraries(tree: Tree) -> list[str]:
    ours = {FACE, *sys.stdlib_module_names}
    return [
        f"starting {start} loads {name}: import it where it is used"
        for start in ("hansard", "hansard.__main__", "hansard.surfaces.cli.main")
        if start in tree
        for name in sorted(loaded_by(start, tree))
        if name.split(".")[0] not in ours
    ]


def what_is_pure_touches_no_clock_disk_or_chance(tree: Tree) -> list[str]:
    return [
        say(module, each, "it must give the same answer when replayed over a finished ledger")
        for module, each in imports(tree, *PURE)
        if each.target.split(".")[0] in IMPURE
    ]


def the_lowest_floor_is_synchronous(tree: Tree) -> list[str]:
    return [
        say(module, each, "ledger and domain are synchronous")
        for module, each in imports(tree, "hansard.ledger", "hansard.domain")
        if inside(each.target, "asyncio")
    ]


def nothing_imports_in_a_circle(tree: Tree) -> list[str]:
    return [f"a circle: {' ↔ '.join(ring)}" for ring in circles(tree)]


def no_folder_imports_in_a_circle(tree: Tree) -> list[str]:
    """Also where no two modules do: a folder is read as one thing, and stands above or below what lies beside it."""
    packages = {parent for name in tree for parent in parents(name)}
    rings = {ring for package in packages for ring in circles(rooms(tree, package))}
    return [f"a circle of folders: {' ↔ '.join(ring)}" for ring in sorted(rings)]


RULES: tuple[Rule, ...] = (
    every_module_stands_on_a_floor,
    imports_run_down,
    the_ledger_needs_only_the_standard_library_and_itself,
    a_library_is_named_in_its_place_only,
    a_provider_has_never_heard_of_a_plan_or_a_ledger,
    only_wiring_names_back_ends,
    only_settings_reads_the_environment,
    a_body_is_read_where_its_commitment_is_opened,
    surfaces_see_only_the_app,
    the_command_line_starts_without_libraries,
    what_is_pure_touches_no_clock_disk_or_chance,
    the_lowest_floor_is_synchronous,
    nothing_imports_in_a_circle,
    no_folder_imports_in_a_circle,
)


def name_of(rule: object) -> str | None:
    return getattr(rule, "__name__", None)


@cache
def _source_tree() -> Tree:
    return read_tree(SOURCE / "hansard")


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_the_source_tree_keeps_the_rule(rule: Rule) -> None:
    assert rule(_source_tree()) == []


Files = dict[str, str]
BREACHES: tuple[tuple[Rule, Files], ...] = (
    (every_module_stands_on_a_floor, {"misc.py": ""}),
    (every_module_stands_on_a_floor, {"helpers/text.py": ""}),
    (imports_run_down, {"store/base.py": "from hansard.record import codec", "record/codec.py": ""}),
    (imports_run_down, {"store/base.py": "import hansard.seal.keys", "seal/keys.py": ""}),
    (imports_run_down, {"domain/work.py": "from hansard.ledger import entry", "ledger/entry.py": ""}),
    (imports_run_down, {"deliberation/chair.py": "def f():\n    from hansard.orchestration import plan"}),
    (imports_run_down, {"orchestration/engine.py": "import importlib\nimportlib.import_module('hansard.app.service')"}),
    (imports_run_down, {"errors.py": "from hansard.domain.work import Task"}),
    (imports_run_down, {"app/service.py": "from hansard import Hansard"}),
    (imports_run_down, {"app/views.py": "from ..surfaces.cli import main", "surfaces/cli/main.py": ""}),
    (the_ledger_needs_only_the_standard_library_and_itself, {"ledger/note.py": "from ..errors import UsageError"}),
    (the_ledger_needs_only_the_standard_library_and_itself, {"ledger/note.py": "import cryptography"}),
    (the_ledger_needs_only_the_standard_library_and_itself, {"ledger/note.py": "import hansard.ledger.entry"}),
    (a_library_is_named_in_its_place_only, {"app/service.py": "def f():\n    import orjson"}),
    (a_library_is_named_in_its_place_only, {"store/sqlite.py": "from psycopg.rows import tuple_row"}),
    (a_library_is_named_in_its_place_only, {"seal/keys.py": "import nacl.signing"}),
    (a_provider_has_never_heard_of_a_plan_or_a_ledger, {"providers/base.py": "from hansard.domain.work import Task"}),
    (a_provider_has_never_heard_of_a_plan_or_a_ledger, {"providers/base.py": "import hansard.ledger.entry"}),
    (only_wiring_names_back_ends, {"app/service.py": "from hansard.store.sqlite import Sqlite", "store/sqlite.py": ""}),
    (only_wiring_names_back_ends, {"record/recorder.py": "import hansard.store.sqlite_schema"}),
    (only_wiring_names_back_ends, {"orchestration/engine.py": "from hansard.providers.open import provider"}),
    (only_wiring_names_back_ends, {"store/sqlite.py": "from .memory import Memory", "store/memory.py": ""}),
    (only_settings_reads_the_environment, {"store/base.py": "import os\nos.environ['HOME']"}),
    (only_settings_reads_the_environment, {"store/base.py": "from os import environ"}),
    (only_settings_reads_the_environment, {"seal/keys.py": "import os\nos.getenv('NO_COLOR')"}),
    (only_settings_reads_the_environment, {"surfaces/cli/main.py": "import os\nos.environ.get('HANSARD_LEDGER')"}),
    (only_settings_reads_the_environment, {"surfaces/cli/main.py": "import os\nf('NO_COLOR', os.environ)"}),
    (a_body_is_read_where_its_commitment_is_opened, {"orchestration/engine.py": "self._store.body(seq, 'plan')"}),
    (a_body_is_read_where_its_commitment_is_opened, {"app/gates.py": "to_thread(store.body, 3, 'question')"}),
    (surfaces_see_only_the_app, {"surfaces/cli/show.py": "from hansard.domain.work import Task"}),
    (surfaces_see_only_the_app, {"surfaces/cli/show.py": "from hansard.ledger import entry", "ledger/entry.py": ""}),
    (surfaces_see_only_the_app, {"surfaces/http/v.py": "from hansard.ledger import verify", "ledger/verify.py": ""}),
    (
        the_command_line_starts_without_libraries,
        {"surfaces/cli/main.py": "from . import panel", "surfaces/cli/panel.py": "import rich"},
    ),
    (the_command_line_starts_without_libraries, {"__init__.py": "if True:\n    import fastapi"}),
    (what_is_pure_touches_no_clock_disk_or_chance, {"deliberation/protocol.py": "from time import time"}),
    (the_lowest_floor_is_synchronous, {"domain/work.py": "import asyncio.events"}),
    (nothing_imports_in_a_circle, {"app/a.py": "from . import b", "app/b.py": "from hansard.app.a import x"}),
    (
        nothing_imports_in_a_circle,
        {
            "app/a.py": "import hansard.app.b",
            "app/b.py": "def f():\n    from . import c",
            "app/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x",
        },
    ),
    (nothing_imports_in_a_circle, {"app/__init__.py": "from .a import x", "app/a.py": "from hansard.app import y"}),
    (
        no_folder_imports_in_a_circle,
        {
            "app/runs/a.py": "from hansard.app.views.c import x",
            "app/runs/b.py": "",
            "app/views/c.py": "",
            "app/views/d.py": "from hansard.app.runs import b",
        },
    ),
    (
        no_folder_imports_in_a_circle,
        {
            "app/runs/a.py": "from hansard.app.pool import x",
            "app/pool.py": "from .runs.b import y",
            "app/runs/b.py": "",
        },
    ),
)

# Everything a rule could mistake for a breach.
ALLOWED: Files = {
    "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hansard.app.service import Hansard",
    "__about__.py": "",
    "__main__.py": "from hansard.surfaces.cli.main import main",
    "errors.py": "",
    "ledger/__init__.py": "from .verify import verify",
    "ledger/verify.py": "import hashlib\nfrom . import note",
    "ledger/note.py": "import base64",
    "ledger/command.py": "from .verify import verify",
    "domain/exchange.py": "from dataclasses import dataclass",
    "store/base.py": "from hansard.errors import StoreError\nfrom hansard.domain import exchange",
    "store/memory.py": "from hansard.store.base import Store",
    "store/sqlite.py": "import sqlite3\nfrom .sqlite_schema import TABLES\nfrom hansard.ledger import note",
    "store/sqlite_schema.py": "",
    "store/postgres.py": "import psycopg.rows",
    "store/open.py": "def f():\n    from hansard.store.sqlite import Sqlite",
    "store/conformance.py": "import pytest\nfrom hansard.store.memory import Memory",
    "providers/base.py": "from hansard.domain.exchange import Question",
    "seal/keys.py": "from cryptography.hazmat.primitives import hashes",
    "record/encoder.py": "def f():\n    import orjson",
    "record/recorder.py": "import asyncio\nfrom hansard.store import base\nfrom . import encoder",
    "record/reading.py": "store.body(entry.seq, part)",
    "orchestration/engine.py": "from hansard.record.recorder import Recorder\nfrom . import schedule\nentry.body(1)",
    "orchestration/schedule.py": "from hansard.domain.exchange import Question",
    "app/runs/a.py": "from hansard.app.runs.b import x\nfrom hansard.app import settings",
    "app/runs/b.py": "from hansard.app.settings import y",
    "app/settings.py": "import os\nos.environ.items()",
    "app/wiring.py": "from hansard.store.memory import Memory\nfrom hansard.store.open import f",
    "app/service.py": "from hansard import errors\nfrom hansard.__about__ import __version__\nfrom . import wiring",
    "surfaces/cli/main.py": "import os\nfrom hansard.app import service\n'NO_COLOR' in os.environ\nos.getenv('TERM')",
    "surfaces/cli/paint.py": "def f():\n    import rich.table",
    "surfaces/cli/verify.py": "from hansard.ledger import command, verify",
}


def plant(files: Files, folder: Path) -> Tree:
    package = folder / "hansard"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return read_tree(package)


@pytest.mark.parametrize(("rule", "files"), BREACHES, ids=name_of)
def test_a_breach_of_the_rule_is_caught(rule: Rule, files: Files, tmp_path: Path) -> None:
    assert len(rule(plant(files, tmp_path))) == 1


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_what_is_allowed_is_not_reported(rule: Rule, tmp_path: Path) -> None:
    assert rule(plant(ALLOWED, tmp_path)) == []


def test_every_rule_has_a_breach_that_shows_it_can_fail() -> None:
    assert {rule for rule, _ in BREACHES} == set(RULES)


def loaded_after(statements: str) -> set[str]:
    """What a fresh interpreter without installed packages has loaded after these statements."""
    code = f"import sys\n{statements}\nprint(*sys.modules)"
    # -S keeps out what site-packages would load by itself, such as a coverage hook.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_the_ledger_loads_no_other_floor() -> None:
    every_module = sorted(name for name in _source_tree() if inside(name, "hansard.ledger"))
    # __main__ is a program: importing it would run it.
    loaded = loaded_after("\n".join(f"import {name}" for name in every_module if not name.endswith("__main__")))
    ours = {name for name in loaded if inside(name, "hansard")}
    assert {name for name in ours if not inside(name, "hansard.ledger")} == {"hansard", "hansard.__about__"}
    assert ours > {"hansard.ledger", "hansard.ledger.canonical"}


def test_importing_hansard_loads_nothing_slow() -> None:
    loaded = loaded_after("import hansard")
    assert "hansard" in loaded
    assert not loaded & {"asyncio", "cryptography", "sqlite3"}


def test_a_request_loads_nothing_of_what_deliberates_and_verifies(tmp_path: Path) -> None:
    words = ["submit", "x", "--provider", "rehearsal", "--ledger", str(tmp_path / "x.db"), "--json"]
    loaded = loaded_after(f"from hansard.surfaces.cli.main import main\nassert main({words!r}) == 0")
    assert "hansard.orchestration.engine" in loaded
    beside = ("hansard.deliberation", "hansard.app.reruns", "hansard.ledger.verify", "hansard.record.export")
    assert [name for name in sorted(loaded) for each in beside if inside(name, each)] == []
