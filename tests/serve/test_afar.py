"""Whoever is not at this machine is told routes and tools, and no path of the daemon's."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from daemons import ONE, Served, place, serving
from forging import database
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, convening, default_config
from hansard.deliberation.archive import Archive
from hansard.errors import StoreError
from hansard.surfaces.afar import WAYS, from_afar
from hansard.surfaces.http.app import MODULES
from hansard.surfaces.mcp import council, reading, running
from mcp_clients import over_mcp
from panels import Voices
from visitors import Visitor

NOBODY = "01a1f34b-b6c2-781d-9fed-a8b303ed5197"


def told(daemon: Served, method: str, path: str, body: object = None) -> str:
    said = daemon.client().request(method, path, json=body)
    assert said.status_code >= 400, said.text
    assert str(daemon.folder) not in said.text
    assert "--ledger" not in said.text
    return str(said.json()["detail"])


def test_what_is_refused_over_http_names_routes(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    debated = daemon.post("/v1/deliberations?wait=60", {"problem": "x", "provider": "rehearsal"}).json()["run"]
    for act in ("resume", "cancel"):
        again = f"has ended (answered); `POST /v1/runs/{run}/tasks/TASK/retry` does a task again"
        assert again in told(daemon, "POST", f"/v1/runs/{run}/{act}")
        assert "`POST /v1/deliberations/RUN/continue` goes on" in told(daemon, "POST", f"/v1/runs/{debated}/{act}")
    assert "in this ledger; `GET /v1/gates` shows them" in told(daemon, "GET", "/v1/gates/nope")
    asked = {"request": "x", "context": [NOBODY]}
    assert "in this ledger; `GET /v1/runs` shows them" in told(daemon, "POST", "/v1/runs", asked)
    assert "no entry 99999 in this ledger" in told(daemon, "GET", "/v1/ledger/entries/99999")
    gated = daemon.submit(plan=ONE, gates=["task:one"])["run"]
    [gate] = daemon.until(gated, "waiting")["open_gates"]
    shown = {"decision": "approve", "shown": ["0" * 64]}
    said = told(daemon, "POST", f"/v1/gates/{gate}/decision", shown)
    assert said.endswith(f"look at it again: GET /v1/gates/{gate}")


def test_a_page_of_the_dashboard_says_no_path_either(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    visitor = Visitor(daemon)
    said = visitor.send(f"/dashboard/runs/{run}/resume")
    assert (said.status_code, "has ended (answered)" in said.text) == (409, True)
    assert "--ledger" not in said.text
    assert str(daemon.folder) not in visitor.see("/dashboard/ledger/99999").text


def test_nor_does_a_daemon_whose_ledger_was_edited(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        daemon.submit(wait=60)
    with database(tmp_path / "l.db") as found:
        assert found.execute("UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":false')").rowcount
    with serving(tmp_path, "--provider", "quick") as daemon:
        said = told(daemon, "POST", "/v1/route", {"text": "x"})
        assert said.endswith("POST /v1/ledger/verify tells more")


class FullDisk(Archive):
    """A directory that cannot be completed."""

    def finish(self, files: Any) -> Any:
        raise StoreError("the disk is full")


async def left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A ledger with a deliberation whose directory is not complete, and a run that an error has interrupted."""

    async def made(_: object) -> None:
        raise TimeoutError(f"{folder}/plan does not answer")

    settings = Settings(ledger=str(folder / "l.db"), state=folder / "state", config=folder / "hansard.toml")
    with monkeypatch.context() as patch:
        patch.setattr("hansard.deliberation.session.Archive", FullDisk)
        patch.setattr("hansard.orchestration.engine.Planner.made", made)
        async with Hansard.open(settings=settings, providers={"voices": Voices()}) as hansard:
            call = Call(config=default_config("Keep it?", "voices", "voice"), runs=folder / "my sessions")
            debated = await hansard.deliberations.convene(convening(settings, hansard.pool, call))
            await hansard.deliberations.hold(debated)
            run = await hansard.submit("please", provider="voices")
            with pytest.raises(TimeoutError):
                await run.ended()
    return debated, run.id


def test_what_is_wrong_with_a_run_is_told_without_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for `run_dir`, by which tools take a session."""
    debated, run = asyncio.run(left_behind(place(tmp_path), monkeypatch))
    with serving(tmp_path, "--provider", "quick", "--no-resume") as daemon:
        http = [daemon.get(f"/v1/deliberations/{debated}").json(), daemon.show(run)]
        mcp = [over_mcp(daemon, "run_show", {"run": each})["structuredContent"] for each in (debated, run)]
        for of_debate, of_run in (http, mcp):
            name = Path(of_debate["run_dir"]).name
            assert Path(of_debate["run_dir"]).parent == tmp_path / "my sessions"
            fault = f"the directory is not complete; `hansard session resume '{name}'` completes it"
            assert of_debate["fault"] == fault
            assert of_run["interrupted"]["why"] == "TimeoutError: plan does not answer"
        visitor = Visitor(daemon)
        pages = (f"deliberations/{debated}", f"runs/{run}", f"runs/{run}/page")
        seen = [visitor.see(f"/dashboard/{each}").text for each in pages]
        assert "is not complete" in seen[0]
        assert all("plan does not answer" in each for each in seen[1:])
        assert str(tmp_path) not in "".join(seen)
        # Over HTTP nobody can complete it, and nobody is told that he could.
        assert "`hansard session resume DIR` completes" in told(daemon, "POST", f"/v1/runs/{debated}/resume")


def test_every_route_and_tool_that_is_named_is_there() -> None:
    routes = [route for module in MODULES for route in module.router.routes if isinstance(route, Route)]
    tools = {each.name for module in (running, reading, council) for each in module.TOOLS}
    for _, way in WAYS:
        assert way["http"] is not None
        method, path = way["http"].removesuffix(" tells more").split(" ")
        found = [route for route in routes if route.path_regex.match(path.replace("{}", "7"))]
        assert any(method in (route.methods or ()) for route in found), path
        assert way["mcp"] is None or way["mcp"].removesuffix(" tells more") in tools


@pytest.mark.parametrize(
    ("typed", "http", "mcp"),
    [
        ("run: hansard verify --deep {ledger}", "POST /v1/ledger/verify tells more", "verify tells more"),
        ("`hansard runs --ledger {ledger}` lists them", "`GET /v1/runs` lists them", "`runs_list` lists them"),
        (
            "`hansard runs retry r 'a b' --ledger {ledger}` makes it again",
            "`POST /v1/runs/r/tasks/a%20b/retry` makes it again",
            "`hansard runs retry r 'a b'` makes it again",
        ),
        (
            "`hansard ledger get 7 --part plan` shows it, `hansard ledger get 7` the rest",
            "`GET /v1/ledger/entries/7/parts/plan` shows it, `GET /v1/ledger/entries/7` the rest",
            "`ledger_get` shows it, `ledger_get` the rest",
        ),
        (
            "{ledger}: the commit failed; {folder}/l.db-wal is full",
            *["this ledger: the commit failed; l.db-wal is full"] * 2,
        ),
        ("keys (looked in {folder}/state/logs/ab) and {folder}", *["keys (looked in logs/ab) and {name}"] * 2),
        ("{folder}er/x and /data{folder}/x", *["{folder}er/x and /data{folder}/x"] * 2),
        ("hansard runs rerun r", "hansard runs rerun r", "hansard runs rerun r"),
        ("see `hansard runs show a\ud800`", "see `GET /v1/runs/a%5Cud800`", "see `run_show`"),
        ("hansard ledger repair --ledger {ledger}", "hansard ledger repair", "hansard ledger repair"),
    ],
)
def test_commands_become_what_does_the_same_from_afar(tmp_path: Path, typed: str, http: str, mcp: str) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    ledger = folder / "l.db"

    def filled(text: str) -> str:
        spelled = f"'{ledger}'" if "hansard" in text else str(ledger)
        return text.format(ledger=spelled, folder=folder, name=folder.name)

    async def said() -> tuple[str, str]:
        settings = Settings(ledger=str(ledger), state=folder / "state", config=folder / "hansard.toml")
        async with Hansard.open(settings=settings) as hansard:
            return from_afar(filled(typed), hansard, "http"), from_afar(filled(typed), hansard, "mcp")

    assert asyncio.run(said()) == (filled(http), filled(mcp))
