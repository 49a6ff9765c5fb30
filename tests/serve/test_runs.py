import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from command_line import started
from daemons import BARE, ONE, Served, events, place, serving, wait_for

CHAIN = {
    "tasks": [
        {"id": "first", "lane": "backend", "instruction": "do the first"},
        {"id": "second", "lane": "backend", "instruction": "do the second", "needs": ["first"]},
    ]
}


def test_a_submit_is_accepted_at_once_and_done_later(daemon: Served) -> None:
    said = daemon.post("/v1/runs", {"request": "please", "plan": ONE, "provider": "slow"})
    assert said.status_code == 202
    run = said.json()["run"]
    assert said.headers["location"] == f"/v1/runs/{run}"
    assert said.json()["state"] in ("requested", "planned", "running")
    assert daemon.until(run, "answered")["answer"] == "the slow result"


def test_who_waits_gets_the_finished_run(daemon: Served) -> None:
    said = daemon.post("/v1/runs?wait=60", {"request": "please"})
    assert (said.status_code, said.json()["answer"]) == (200, "the result")


def test_who_does_not_wait_long_enough_gets_the_run_as_it_is(daemon: Served) -> None:
    said = daemon.post("/v1/runs?wait=0.1", {"request": "please", "plan": ONE, "provider": "slow"})
    assert said.status_code == 202
    daemon.until(said.json()["run"], "answered")


def test_the_body_is_what_the_command_line_prints(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    assert json.loads(daemon.cli("runs", "show", run, "--json").stdout) == daemon.show(run)
    listed = json.loads(daemon.cli("runs", "list", "--json", "--limit", 2).stdout)
    assert listed == daemon.get("/v1/runs?limit=2").json()


@pytest.mark.parametrize("more", [{"lane": "backend"}, {"single": True}])
def test_a_plan_that_comes_with_a_lane_is_refused_and_not_passed_over(daemon: Served, more: dict[str, Any]) -> None:
    said = daemon.post("/v1/runs", {"request": "please", "plan": ONE, **more})
    assert (said.status_code, "contradicts lane and single" in said.json()["detail"]) == (409, True)


def test_a_run_is_found_by_its_id_in_capitals(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    debated = daemon.post("/v1/deliberations?wait=60", {"problem": "x", "provider": "rehearsal"}).json()["run"]
    for path in (
        *(f"runs/{run}", f"runs/{run}/capsule", f"compare?a={run}&b={debated}", f"ledger/entries?run={run}"),
        *(f"deliberations/{debated}", f"deliberations/{debated}/transcript", f"gates?run={run}&closed=true"),
    ):
        capitals = path.replace(run, run.upper()).replace(debated, debated.upper())
        assert daemon.get(f"/v1/{capitals}").json() == daemon.get(f"/v1/{path}").json()
    assert daemon.get(f"/v1/runs/{run[:-1]}X").status_code == 404


def test_runs_come_in_pages_the_newest_first(daemon: Served) -> None:
    runs = [daemon.submit(wait=60)["run"] for _ in range(5)]
    seen: list[str] = []
    path = "/v1/runs?limit=2"
    while path and len(seen) < 5:
        said = daemon.get(path)
        seen += [view["run"] for view in said.json()]
        path = said.links["next"]["url"] if "next" in said.links else ""
    assert seen[:5] == runs[::-1]


def test_runs_are_found_by_their_state(daemon: Served) -> None:
    daemon.submit(wait=60)
    assert {view["state"] for view in daemon.get("/v1/runs?state=answered").json()} == {"answered"}
    for path in ("/v1/runs", "/v1/deliberations"):
        said = daemon.get(f"{path}?state=nonsense")
        assert (said.status_code, "'answered'" in said.json()["detail"]) == (422, True)


def test_events_are_the_entries_of_the_run(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    said = daemon.get(f"/v1/runs/{run}/events")
    assert said.headers["content-type"].startswith("text/event-stream")
    followed = [json.loads(line) for line in daemon.cli("runs", "follow", run, "--json").stdout.splitlines()]
    assert events(said.text) == followed
    assert [view["kind"] for view in followed][-1] == "run.ended"


def test_events_go_on_behind_the_last_one_that_was_seen(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    every = events(daemon.get(f"/v1/runs/{run}/events").text)
    behind = daemon.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": str(every[2]["seq"])})
    assert events(behind.text) == every[3:]
    over = daemon.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": str(every[-1]["seq"])})
    assert over.status_code == 204


def test_events_end_with_the_run_for_who_has_seen_more_than_there_is(daemon: Served) -> None:
    run = daemon.submit(provider="slow")["run"]
    said = daemon.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": "999999999999"}, timeout=14)
    assert [view["kind"] for view in events(said.text)][-1:] in (["run.ended"], [])


def test_events_come_while_the_run_goes_on(daemon: Served) -> None:
    run = daemon.submit(provider="slow")["run"]
    kinds: list[str] = []
    with daemon.client().stream("GET", f"/v1/runs/{run}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kinds.append(line[7:])
    assert kinds[0] == "run.requested"
    assert kinds[-1] == "run.ended"
    assert kinds.count("task.returned") == 1


def test_many_follow_the_same_run_and_all_see_the_same(daemon: Served) -> None:
    run = daemon.submit(provider="slow")["run"]
    seen: list[str] = []

    def follow() -> None:
        with daemon.client() as client:
            seen.append(client.get(f"/v1/runs/{run}/events").text)

    threads = [threading.Thread(target=follow) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 20
    assert {json.dumps(events(text)) for text in seen} == {json.dumps(events(seen[0]))}


def test_a_run_is_cancelled(daemon: Served) -> None:
    run = daemon.submit(provider="stuck")["run"]
    daemon.until(run, "running")
    said = daemon.post(f"/v1/runs/{run}/cancel")
    assert (said.status_code, said.json()["state"]) == (200, "cancelled")
    assert daemon.post(f"/v1/runs/{run}/cancel").status_code == 409
    assert daemon.post(f"/v1/runs/{run}/resume").status_code == 409


def test_a_task_is_done_again(daemon: Served) -> None:
    run = daemon.submit(wait=60, plan=CHAIN)["run"]
    said = daemon.post(f"/v1/runs/{run}/tasks/second/retry?wait=60")
    assert said.status_code == 200, said.text
    attempts = {task["task"]: len(task["attempts"]) for task in said.json()["tasks"]}
    assert attempts == {"first": 1, "second": 2}
    assert daemon.post(f"/v1/runs/{run}/tasks/nothing/retry").status_code == 404


def test_a_run_is_run_again_from_the_record(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    said = daemon.post(f"/v1/runs/{run}/rerun")
    assert said.status_code == 200, said.text
    assert daemon.post(f"/v1/runs/{run}/rerun", {"swap": {"nobody": "quick"}}).status_code == 409


def test_a_capsule_is_what_the_command_line_prints(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    assert daemon.get(f"/v1/runs/{run}/capsule").json() == json.loads(
        daemon.cli("runs", "capsule", run, "--json").stdout
    )


def test_two_runs_are_compared(daemon: Served) -> None:
    a, b = daemon.submit(wait=60)["run"], daemon.submit(wait=60)["run"]
    assert daemon.get(f"/v1/compare?a={a}&b={b}").status_code == 200
    assert daemon.get(f"/v1/compare?a={a}&b=nothing").status_code == 404


def test_a_plan_comes_back_as_submit_takes_it(daemon: Served) -> None:
    made = daemon.post("/v1/plans", {"request": "please"})
    assert made.status_code == 200, made.text
    said = daemon.submit(wait=60, plan=made.json())
    assert [task["task"] for task in said["tasks"]] == ["only"]


def test_a_plan_that_nobody_makes_is_told(daemon: Served) -> None:
    said = daemon.post("/v1/plans?wait=30", {"request": "please", "provider": "stuck"})
    assert said.status_code == 409
    assert said.json()["run"]
    assert "is failed and has no plan: the coordinator gave no usable answer (" in said.json()["detail"]
    said = daemon.post("/v1/plans?wait=30", {"request": "please", "max_calls": 0})
    assert said.json()["detail"].endswith("is stopped and has no plan: budget")


def test_a_plan_that_comes_later_is_found_where_whoever_waited_was_told(tmp_path: Path) -> None:
    tasks = "{tasks = [{id = 'late', lane = 'backend', instruction = 'do it', needs = [], done_when = []}]}"
    entries = f"{{match = {{role = 'coordinator'}}, structured = {tasks}, latency_s = 2.0}}"
    thoughtful = f"[providers.thoughtful]\nkind = 'scripted'\nentries = [{entries}]\n"
    with serving(place(tmp_path, more=thoughtful)) as daemon:
        said = daemon.post("/v1/plans?wait=0.2", {"request": "please", "provider": "thoughtful"})
        assert (said.status_code, said.headers["location"]) == (409, f"/v1/runs/{said.json()['run']}")
        assert f"no plan yet; it goes on, and plan.seq of {said.headers['location']}" in said.json()["detail"]
        seq = daemon.until(said.json()["run"], "answered")["plan"]["seq"]
        plan = daemon.get(f"/v1/ledger/entries/{seq}/parts/plan").json()
        again = daemon.submit(wait=60, plan=plan, provider="quick")
    assert [task["task"] for task in again["tasks"]] == ["late"]


def test_whoever_cancels_what_another_process_drives_sees_it_end(daemon: Served) -> None:
    process = started(daemon.folder, "submit", "elsewhere", "--lane", "backend", "--provider", "stuck")
    try:
        run = wait_for(lambda: next((each["run"] for each in listed(daemon) if each["request"] == "elsewhere"), None))
        daemon.until(run, "running")
        wait_for(lambda: daemon.get(f"/v1/ledger/entries?run={run}&kind=task.attempted").json())
        said = daemon.post(f"/v1/runs/{run}/cancel")
        assert (said.status_code, said.json()["state"]) == (200, "cancelled")
        assert process.wait(timeout=60) == 13
    finally:
        process.kill()
        process.communicate()


def listed(daemon: Served) -> list[dict[str, Any]]:
    return list(daemon.get("/v1/runs").json())


def test_whoever_waits_for_no_plan_does_not_wait(daemon: Served) -> None:
    began = time.monotonic()
    said = daemon.post("/v1/plans?wait=0", {"request": "please", "provider": "silent"})
    assert (said.status_code, time.monotonic() - began < 30) == (409, True)
    daemon.post(f"/v1/runs/{said.json()['run']}/cancel")


def test_the_short_way_and_the_long_way_give_the_same_route(daemon: Served) -> None:
    body = {"text": "the css of the login page is broken"}
    short, long = daemon.post("/v1/route", body), daemon.post("/v1/route?&", body)
    for name in ("lane", "evidence", "scores", "confidence", "runner_up", "tier"):
        assert short.json()[name] == long.json()[name]
    assert set(short.headers) == set(long.headers)


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"a"}',
        b' {"te\\u0078t" : "a"}\n',
        b'\xef\xbb\xbf{"text":"a"}',
        '{"text":"a"}'.encode("utf-16"),
        b'{"text":"a","text":"b"}',
        b'{"text":"a","more":"b"}',
        b'{"text":"a \\"word\\""}',
        b'{"text":"\\ud800"}',
        b'{"text":"\\ud83d\\ude00 \\u0000"}',
        b'{"text":"\xff"}',
        b'{"text":"a\tb"}',
        b'{"text":"a"}"',
        b'{"text":"a"} //',
        b'{"text":" "}',
        b'["text","a"]',
        b'{"text":["a"]}',
        b"",
    ],
)
def test_both_ways_read_a_body_alike(daemon: Served, body: bytes) -> None:
    found = []
    for path in ("/v1/route", "/v1/route?&"):
        said = daemon.client().post(path, content=body, headers={"Content-Type": "application/json"})
        told = said.json()
        parts = f"/v1/ledger/entries/{told.get('entry')}/parts/request"
        found.append((said.status_code, daemon.get(parts).content if said.status_code == 200 else told["detail"]))
    assert found[0] == found[1]


def test_a_route_is_answered_and_recorded(daemon: Served) -> None:
    said = daemon.post("/v1/route", {"text": "the css of the login page is broken"}).json()
    assert said["lane"] == "frontend"
    entry = daemon.get(f"/v1/ledger/entries/{said['entry']}").json()
    assert (entry["kind"], entry["data"]["lane"], entry["data"]["surface"]) == ("route.given", "frontend", "http")
    part = daemon.get(f"/v1/ledger/entries/{said['entry']}/parts/request")
    assert part.text == "the css of the login page is broken"
    assert daemon.post("/v1/route", {"text": part.text}).json() == {**said, "entry": said["entry"] + 1}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/runs", {"request": ""}, 422),
        ("/v1/runs", {"request": "   "}, 422),
        ("/v1/runs", {"request": "x", "surprise": 1}, 422),
        ("/v1/runs", {"request": "x", "max_calls": "3"}, 422),
        ("/v1/runs", {"request": "x", "provider": "nobody"}, 409),
        ("/v1/runs", {"request": "x", "lane": "nowhere"}, 409),
        ("/v1/runs", {"request": "x", "plan": {"tasks": []}}, 409),
        ("/v1/runs", {"request": "x", "gates": ["somewhere"]}, 409),
        ("/v1/runs", {"request": "x", "gates": ["lane:nowhere"]}, 409),
        ("/v1/runs", {"request": "x", "lane": "backend", "gates": ["task:nothing"]}, 409),
        ("/v1/runs", {"request": "x", "max_parallel": 0}, 422),
        ("/v1/runs?wait=-1", {"request": "x"}, 422),
        ("/v1/runs?surprise=1", {"request": "x"}, 422),
        ("/v1/runs/nothing/cancel", None, 404),
        ("/v1/runs/00000000-0000-7000-8000-000000000000/resume", None, 404),
        ("/v1/route", {"text": 7}, 422),
    ],
)
def test_what_is_wrong_is_told_as_a_problem(daemon: Served, path: str, body: Any, status: int) -> None:
    said = daemon.post(path, body)
    assert said.status_code == status, said.text
    assert said.headers["content-type"] == "application/problem+json"
    assert said.json()["status"] == status
    assert said.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/runs", {"request": "x", "lane": "nowhere"}, "lane: there is no lane"),
        ("/v1/runs", {"request": "x", "gates": ["somewhere"]}, "gates 'somewhere'"),
        ("/v1/runs", {"request": "x", "gates": ["lane:nowhere"]}, "gates 'lane:nowhere'"),
        ("/v1/runs", {"request": "x", "max_usd": "999999999"}, "max_usd: "),
        ("/v1/deliberations", {}, "config"),
        ("/v1/deliberations", {"problem": "x", "provider": "fake"}, "script"),
        ("/v1/deliberations", {"problem": "x", "provider": "quick", "script": {}}, "script answers"),
    ],
)
def test_what_is_wrong_bears_the_name_that_the_caller_wrote(daemon: Served, path: str, body: Any, named: str) -> None:
    said = daemon.post(path, body)
    assert said.status_code == 409
    assert named in said.json()["detail"]
    assert "--" not in said.json()["detail"]


BODIES = {
    '{"x": 1, "x": 1}': "'x' stands twice",
    '{"x": {"y": {"z": 1, "z": 2}}}': "'z' stands twice",
    '{"x": NaN}': "NaN is no number",
    '{"x": [-Infinity]}': "-Infinity is no number",
    '{"x": 1e999}': "1e999 is more than a number can be",
    '{"x": 9007199254740993}': "beyond 2^53-1",
    f'{{"x": {"9" * 5000}}}': "of 5,000 digits, is more than a number can be",
    '{"x": {"y": "\\ud800"}}': "half of a surrogate pair",
    '{"\\udfff": 1}': "half of a surrogate pair",
    '{"x": ' + "[" * 200_000 + "]" * 200_000 + "}": "nested too deeply to be read",
    '{"x": ' + "[" * 200 + "]" * 200 + "}": "nested too deeply",
}


UNRECORDABLE = ("beyond 2^53-1", "half of a surrogate pair", "nested too deeply")
"""JSON like any other, which the record cannot hold."""


def test_a_body_that_has_two_readings_is_refused_by_every_route(daemon: Served) -> None:
    described = daemon.get("/openapi.json").json()["paths"]
    paths = [path for path, item in described.items() if "requestBody" in item.get("post", {})]
    assert {"/v1/runs", "/v1/plans", "/v1/route", "/v1/deliberations", "/v1/ledger/verify"} < set(paths)
    assert len(paths) == 8
    for path in (re.sub(r"\{\w+\}", "nothing", each) for each in paths):
        for body, why in BODIES.items():
            said = daemon.post(path, content=body, headers={"content-type": "application/json"})
            status = 409 if why in UNRECORDABLE else 422
            assert (said.status_code, said.headers["content-type"]) == (status, "application/problem+json"), (
                path,
                body,
            )
            assert why in said.json()["detail"], (path, said.text)


def test_half_a_character_in_a_plan_is_refused_before_anything_is_recorded(daemon: Served) -> None:
    before = daemon.get("/v1/status").json()["entries"]
    plan = {"tasks": [{**ONE["tasks"][0], "instruction": "\ud800"}]}
    body = json.dumps({"request": "x", "plan": plan})
    said = daemon.post("/v1/runs", content=body, headers={"content-type": "application/json"})
    assert (said.status_code, "half of a surrogate pair" in said.json()["detail"]) == (409, True)
    assert daemon.get("/v1/status").json()["entries"] == before


def test_a_run_that_is_not_there_is_not_found(daemon: Served) -> None:
    for path in ("", "/events"):
        assert daemon.get(f"/v1/runs/nothing{path}").status_code == 404


def test_a_plan_brings_no_programs_along(daemon: Served) -> None:
    plan = {"tasks": [{**ONE["tasks"][0], "checks": [{"command": ["touch", "here"]}]}]}
    said = daemon.post("/v1/runs", {"request": "x", "plan": plan})
    assert said.status_code == 403
    assert "--allow-commands" in said.json()["detail"]
    assert not (daemon.folder / "here").exists()


def test_what_another_process_leaves_is_driven_here(daemon: Served) -> None:
    given = daemon.cli("submit", "please", "--provider", "quick", "--detach")
    assert given.returncode == 0, given.stderr
    wait_for(lambda: daemon.show(given.stdout.strip())["state"] == "answered")


def test_what_is_sent_again_under_its_own_id_is_not_done_twice(daemon: Served) -> None:
    run = str(uuid4())
    asked = {"request": "please", **BARE, "run": run}
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: daemon.client().post("/v1/runs", json=asked), range(8)))
    assert sorted(each.status_code for each in said) == [202] + [409] * 7
    assert {each.json()["run"] for each in said} == {run}
    assert {each.headers["location"] for each in said} == {f"/v1/runs/{run}"}
    daemon.until(run, "answered")
    again = daemon.post("/v1/plans", {"request": "other", "run": run})
    assert (again.status_code, again.json()["run"]) == (409, run)
    entries = daemon.get(f"/v1/ledger/entries?run={run}&limit=1000").json()
    assert [each["kind"] for each in entries].count("run.requested") == 1
    assert daemon.show(run)["spent"]["calls"] == 1


@pytest.mark.parametrize("run", ["last", "", "x", "01A1E65E-88E3-7FBE-89DD-01F6BD7AD89E", f"{uuid4()}\n", 7])
def test_an_id_that_is_no_uuid_is_refused(daemon: Served, run: Any) -> None:
    assert daemon.post("/v1/runs", {"request": "x", **BARE, "run": run}).status_code == 422


def test_an_id_is_still_free_where_the_request_was_refused(daemon: Served) -> None:
    run = str(uuid4())
    assert daemon.post("/v1/runs", {"request": "x", "lane": "nowhere", "run": run}).status_code == 409
    assert daemon.post("/v1/runs?wait=60", {"request": "x", **BARE, "run": run}).json()["state"] == "answered"
