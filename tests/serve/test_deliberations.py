import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from daemons import Served, events, place, serving
from deliberating import config, script, synthesis, turn, verdict
from visitors import Visitor

ASKS = script([turn(), turn(), turn(), verdict("request_user_input")]).as_data()
ANSWERS = script([turn(), turn(), turn(), verdict("finalize"), synthesis()]).as_data()


def with_id(id: str) -> dict[str, Any]:
    return {"config": {**config().as_data(), "session_id": id}, "script": ANSWERS}


def test_a_deliberation_is_held_and_read(daemon: Served) -> None:
    said = daemon.post("/v1/deliberations?wait=120", {"problem": "keep our own mail server?", "provider": "rehearsal"})
    assert said.status_code == 200, said.text
    view = said.json()
    assert view["outcome"] == "synthesis"
    run = view["run"]
    assert daemon.get(f"/v1/deliberations/{run}").json() == view
    assert len(daemon.get(f"/v1/deliberations/{run}/transcript").json()) == view["messages"]
    assert daemon.get(f"/v1/deliberations/{run}/metrics").status_code == 200
    assert events(daemon.get(f"/v1/deliberations/{run}/events").text)[-1]["run"] == run
    assert [each["run"] for each in daemon.get("/v1/deliberations").json()] == [run]


def test_a_problem_may_come_with_caps_of_its_own(daemon: Served) -> None:
    asked = {"problem": "keep our own mail server?", "provider": "rehearsal"}
    said = daemon.post("/v1/deliberations?wait=120", asked | {"max_total_tokens": 1, "max_wallclock_seconds": 77})
    assert said.json()["termination_reason"] == "budget_exceeded", said.text
    [convened] = daemon.get(f"/v1/ledger/entries?run={said.json()['run']}&kind=session.convened").json()
    budget = daemon.get(f"/v1/ledger/entries/{convened['seq']}/parts/config").json()["budget"]
    assert (budget["max_total_tokens"], budget["max_wallclock_seconds"]) == (1, 77)
    for wrong in ({"max_total_tokens": 0}, {"max_total_cost_usd": 0}, {"max_wallclock_seconds": 1.5}):
        assert daemon.post("/v1/deliberations", asked | wrong).status_code == 422


def test_the_last_deliberation_is_the_newest_of_its_kind(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        assert daemon.get("/v1/runs/last").json()["detail"] == "there are no runs yet"
        daemon.submit(wait=30)
        said = daemon.get("/v1/deliberations/last")
        assert (said.status_code, "there is no deliberation" in said.json()["detail"]) == (404, True)
        held = [daemon.post("/v1/deliberations?wait=120", with_id(f"s-{each}")).json() for each in (1, 2)]
        daemon.submit(wait=30)
        assert daemon.get("/v1/deliberations/last").json() == held[-1]
        shown = json.loads(daemon.cli("session", "metrics", "last", "--json").stdout)
        assert daemon.get("/v1/deliberations/last/metrics").json() == shown
        seen = Visitor(daemon).see("/dashboard/deliberations/last")
        assert held[-1]["run"] in seen.text


def test_experts_join_a_panel_that_is_convened_over_http(daemon: Served) -> None:
    asked = {"problem": "keep it?", "provider": "rehearsal", "experts": ["a lawyer for data protection"]}
    said = daemon.post("/v1/deliberations?wait=120", asked)
    assert said.status_code == 200, said.text
    view = said.json()
    assert (view["outcome"], view["refused_experts"]) == ("synthesis", [])
    [made] = daemon.get(f"/v1/ledger/entries?run={view['run']}&kind=persona.made").json()
    assert view["selected_agents"][-1] == made["data"]["persona"]
    assert daemon.post("/v1/deliberations", asked | {"experts": ["one"] * 9}).status_code == 422
    refused = daemon.post("/v1/deliberations", asked | {"provider": None, "script": ANSWERS})
    assert (refused.status_code, "a script has no words for experts" in refused.text) == (409, True)


def test_a_session_that_asks_is_answered_and_another_goes_on_from_it(daemon: Served) -> None:
    id = str(uuid4())
    asked = daemon.post("/v1/deliberations?wait=120", {**with_id(id), "script": ASKS}).json()
    assert (asked["termination_reason"], asked["pending"]) == ("user_input_required", {"question": "which?"})
    path = f"/v1/deliberations/{asked['run']}/continue"
    said = daemon.post(f"{path}?wait=120", {"answer": "The blue one.", "provider": "rehearsal"})
    assert said.status_code == 200, said.text
    view = said.json()
    assert view["outcome"] == "synthesis"
    assert "> The blue one." in view["problem"]
    assert said.headers["location"] == f"/v1/deliberations/{view['run']}"
    [before] = daemon.get(f"/v1/ledger/entries?run={asked['run']}&kind=session.ended").json()
    [requested] = daemon.get(f"/v1/ledger/entries?run={view['run']}&kind=run.requested").json()
    assert requested["causes"] == [before["seq"]]
    chain = json.loads(daemon.cli("session", "chain", view["run"], "--json").stdout)
    assert [each["run"] for each in chain["sessions"]] == [asked["run"], view["run"]]

    run = str(uuid4())
    again = {"answer": "The red one.", "script": ANSWERS, "run": run}
    assert daemon.post(f"{path}?wait=120", again).json()["run"] == run
    assert (twice := daemon.post(path, again)).status_code == 409, twice.text
    for body, told in (
        ({}, "give answer, or experts"),
        ({"answer": "x"}, "answers of the next one as script"),
        ({"answer": "x", "provider": "rehearsal", "max_expansions": 0}, "max_expansions allows up to 5"),
    ):
        refused = daemon.post(path, body)
        assert (refused.status_code, told in refused.json()["detail"]) == (409, True), refused.text
    refused = daemon.post(f"/v1/deliberations/{view['run']}/continue", {"answer": "x", "provider": "rehearsal"})
    assert (refused.status_code, "asks for nothing" in refused.json()["detail"]) == (409, True)
    wrong: list[dict[str, Any]] = [
        {"answer": ""},
        {"answer": "x", "panel": ["a"]},
        {"answer": "x", "max_expansions": 6},
    ]
    assert [daemon.post(path, body).status_code for body in wrong] == [422] * 3
    assert daemon.post("/v1/deliberations/nobody/continue", {"answer": "x"}).status_code == 404


def test_first_answers_are_gathered_for_a_panel_that_is_convened_over_http(daemon: Served) -> None:
    asked = {"problem": "keep it?", "provider": "rehearsal", "ensemble": True}
    view = daemon.post("/v1/deliberations?wait=120", asked).json()
    assert view["outcome"] == "synthesis"
    found = daemon.get(f"/v1/ledger/entries?run={view['run']}&kind=ensemble.answered").json()
    assert {each["data"]["agent"] for each in found} == set(view["selected_agents"])


def test_the_command_line_prints_of_a_deliberation_what_its_routes_answer(daemon: Served) -> None:
    held = daemon.cli("deliberate", "keep our own mail server?", "--provider", "rehearsal", "--json")
    view = json.loads(held.stdout)
    assert daemon.get(f"/v1/deliberations/{view['run']}").json() == view
    shown = json.loads(daemon.cli("runs", "show", view["run"], "--json").stdout)
    assert daemon.show(view["run"]) == shown
    assert (shown["run_dir"], shown["spent"]) == (view["run_dir"], view["spent"])


def test_a_deliberation_whose_configuration_was_redacted_is_still_shown(daemon: Served) -> None:
    view = daemon.post("/v1/deliberations?wait=120", {"problem": "keep it?", "provider": "rehearsal"}).json()
    [configured] = daemon.get(f"/v1/ledger/entries?run={view['run']}&kind=run.configured").json()
    assert daemon.cli("ledger", "redact", configured["seq"], "config", "--reason", "legal").returncode == 0
    shown = daemon.get(f"/v1/deliberations/{view['run']}").json()
    assert (shown["outcome"], shown["problem"], shown["run_dir"]) == ("synthesis", "keep it?", None)
    assert "keep it?" in Visitor(daemon).text(f"/dashboard/deliberations/{view['run']}")


def test_a_deliberation_whose_synthesis_was_redacted_still_tells_how_it_ended(daemon: Served) -> None:
    before = daemon.post("/v1/deliberations?wait=120", {"problem": "keep it?", "provider": "rehearsal"}).json()
    path, visitor = f"/v1/deliberations/{before['run']}", Visitor(daemon)
    assert len(daemon.get(f"{path}/transcript").json()) == before["messages"]
    last = daemon.get(f"/v1/ledger/entries?run={before['run']}&kind=turn.taken").json()[-1]
    assert daemon.cli("ledger", "redact", last["seq"], "message", "--reason", "legal").returncode == 0
    assert daemon.get(path).json() == before | {"synthesis_answer": None}
    for part in ("transcript", "metrics"):
        said = daemon.get(f"{path}/{part}")
        assert (said.status_code, "one of its messages was redacted" in said.text) == (409, True)
    page = visitor.text(f"/dashboard/deliberations/{before['run']}")
    assert page.split("<h2>Outcome</h2>")[1].count("It is not in the ledger any more.") == 1
    assert before["transcript_digest"] in page
    assert visitor.see(f"/dashboard/deliberations/{before['run']}/page").status_code == 404
    told = daemon.cli("session", "chain", before["run"])
    assert (told.returncode, "(not in the ledger any more)" in told.stdout) == (0, True)


def test_what_is_no_deliberation_is_not_found(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    assert daemon.get(f"/v1/deliberations/{run}").status_code == 404
    assert daemon.get(f"/v1/deliberations/{run}/transcript").status_code == 404
    assert daemon.get(f"/v1/deliberations/{run}/metrics").status_code == 404


def test_what_only_a_planned_run_has_is_refused_in_words_for_a_deliberation(daemon: Served) -> None:
    run = daemon.post("/v1/deliberations?wait=120", {"problem": "keep it?", "provider": "rehearsal"}).json()["run"]
    for path in ("rerun", "tasks/a/retry", "resume", "cancel"):
        said = daemon.post(f"/v1/runs/{run}/{path}", {})
        assert said.status_code == 409, said.text
        assert ("`hansard session" if path == "rerun" else "`POST /v1/") in said.json()["detail"]
    for path in (f"runs/{run}", f"runs/{run}/capsule", f"compare?a={run}&b={run}"):
        assert daemon.get(f"/v1/{path}").status_code == 200


def test_what_a_deliberation_leaves_is_a_conflict_before_it_is_over(daemon: Served) -> None:
    run = daemon.post("/v1/deliberations", {"problem": "keep it?", "provider": "silent"}).json()["run"]
    for name in ("transcript", "metrics"):
        said = daemon.get(f"/v1/deliberations/{run}/{name}")
        assert (said.status_code, "has not ended" in said.json()["detail"]) == (409, True)
    daemon.post(f"/v1/runs/{run}/cancel", {})


def test_callers_bring_no_provider_that_is_not_configured(daemon: Served) -> None:
    """Neither the agent programs of the host, nor the keys in its environment."""
    for name in ("claude-cli", "codex-cli", "cli-auto", "openai:gpt-4.1", "anthropic"):
        said = daemon.post("/v1/deliberations?wait=60", {"problem": "which?", "provider": name})
        assert (said.status_code, f"there is no provider {name!r}" in said.json()["detail"]) == (409, True), said.text
        assert "claude-cli" not in said.json()["detail"].partition("known are")[2]
    asked = config().as_data() | {"session_id": str(uuid4())}
    for agent in (*asked["agents"], asked["coordinator"]):
        agent["provider"] = "claude-cli"
    said = daemon.post("/v1/deliberations?wait=60", {"config": asked})
    assert said.status_code != 200 or said.json()["termination_reason"] == "provider_unrecoverable", said.text
    assert [
        each["data"]
        for each in daemon.get("/v1/ledger/entries?kind=turn.asked").json()
        if each["data"]["provider"] == "claude-cli"
    ] == []


def test_a_problem_is_needed(daemon: Served) -> None:
    assert daemon.post("/v1/deliberations", {}).status_code == 409
    assert daemon.post("/v1/deliberations", {"problem": "x", "panel": ["nobody"]}).status_code == 409
    assert daemon.post("/v1/deliberations", {"problem": 1}).status_code == 422


def test_an_id_that_names_no_directory_is_refused_and_tells_nothing_of_the_disk(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--sessions", "sessions") as daemon:
        before = daemon.get("/v1/status").json()["entries"]
        told = [daemon.post("/v1/deliberations", with_id(id)) for id in ("/etc/shadow", "/etc/zork", "a/b", "x" * 300)]
        assert [each.status_code for each in told] == [400] * 4
        assert told[0].json()["detail"].replace("shadow", "zork") == told[1].json()["detail"]
        assert daemon.get("/v1/status").json()["entries"] == before
        assert daemon.post("/v1/deliberations?wait=60", with_id("good")).json()["outcome"] == "synthesis"


def test_what_the_daemon_may_spend_holds_for_deliberations(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "rehearsal", "--max-tokens", 500, "--max-seconds", 90) as daemon:
        asked = ({"problem": "keep it?"}, {"problem": "keep it?", "provider": "rehearsal"}, with_id("s-2"))
        for body in asked:
            view = daemon.post("/v1/deliberations?wait=60", body).json()
            assert [each.split(":")[0] for each in view["cut"]] == [
                "max_total_tokens is 500 and not 500,000",
                "max_wallclock_seconds is 90 and not 1,800",
            ]
            assert daemon.show(view["run"])["budget"]["max_tokens"] == 500
        assert view["outcome"] == "synthesis"
        stopped = daemon.post("/v1/deliberations?wait=60", asked[0]).json()
        assert stopped["termination_reason"] == "budget_exceeded"


def test_a_request_may_ask_for_less_than_the_daemon_may_spend_and_not_for_more(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "rehearsal", "--max-tokens", 500, "--max-usd", "0.5") as daemon:
        for asked, allowed in ((10**9, 500), (100, 100), (None, 500)):
            body = {"request": "x", "max_tokens": asked, "max_usd": "20"}
            run = daemon.post("/v1/runs", {name: each for name, each in body.items() if each is not None}).json()["run"]
            budget = daemon.show(run)["budget"]
            assert (budget["max_tokens"], budget["max_cost_usd_nano"]) == (allowed, 500_000_000)


def test_what_the_file_allows_is_what_a_request_gets_at_most(tmp_path: Path) -> None:
    budget = '[budget]\nmax_calls = 3\nmax_usd = "0.5"\nmax_seconds = 20\n'
    with serving(place(tmp_path, more=budget), "--provider", "rehearsal", "--max-calls", 9) as daemon:
        for asked, allowed in (
            ({"max_calls": 500, "max_usd": "900", "max_seconds": 9999.0}, (9, 500_000_000, 20)),
            ({"max_calls": 2, "max_usd": "0.1", "max_seconds": 15.0}, (2, 100_000_000, 15)),
        ):
            got = daemon.show(daemon.post("/v1/runs", {"request": "x", **asked}).json()["run"])["budget"]
            assert (got["max_calls"], got["max_cost_usd_nano"], got["max_seconds"]) == allowed


def test_a_request_has_no_more_tasks_at_once_than_the_policy_allows(tmp_path: Path) -> None:
    tasks = [{"id": f"t{at}", "lane": "backend", "instruction": "x"} for at in range(6)]
    with serving(place(tmp_path, more="[policy]\nmax_parallel = 2\n"), "--provider", "slow", "--grace", 2) as daemon:
        for asked, at_once in ((50, 2), (1, 1)):
            run = daemon.submit(plan={"tasks": tasks}, max_parallel=asked)["run"]
            seen = daemon.until(run, "answered")
            kinds = [each["kind"] for each in daemon.get(f"/v1/ledger/entries?run={run}&limit=1000").json()]
            begun = kinds[: kinds.index("task.returned")].count("task.attempted")
            assert (begun, seen["state"]) == (at_once, "answered")


def test_calls_that_the_daemon_may_make_are_counted_in_deliberations(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "rehearsal", "--max-calls", 3) as daemon:
        view = daemon.post("/v1/deliberations?wait=60", {"problem": "keep it?"}).json()
        assert (view["termination_reason"], view["messages"]) == ("provider_unrecoverable", 4)


def test_why_there_is_no_panel_is_told(daemon: Served) -> None:
    body = with_id("why")
    body["config"]["agents"][0]["persona_ref"] = "zork"
    view = daemon.post("/v1/deliberations?wait=60", body).json()
    assert (view["termination_reason"], "'zork'" in view["why"]) == ("schema_error", True)


def test_a_name_that_stands_twice_in_a_body_is_refused(daemon: Served) -> None:
    text = json.dumps(with_id("twice")).replace('"runtime":', '"runtime": {"max_branch_depth": 9}, "runtime":', 1)
    said = daemon.post("/v1/deliberations", content=text, headers={"content-type": "application/json"})
    assert (said.status_code, "'runtime' stands twice" in said.json()["detail"]) == (422, True)


def test_an_amount_that_the_record_cannot_hold_and_half_a_character_are_refused(daemon: Served) -> None:
    dear, half = with_id("dear"), with_id("half")
    dear["config"]["budget"]["max_total_cost_usd"] = 1e300
    half["config"]["originator"] = "\ud800"
    for body in (dear, half):
        said = daemon.post("/v1/deliberations", content=json.dumps(body), headers={"content-type": "application/json"})
        assert said.status_code == 409, said.text


def test_a_problem_that_is_sent_again_under_its_own_id_is_not_deliberated_twice(daemon: Served) -> None:
    asked = {"problem": "keep it?", "provider": "rehearsal", "run": str(uuid4())}
    assert daemon.post("/v1/deliberations?wait=60", asked).json()["run"] == asked["run"]
    again = daemon.post("/v1/deliberations", asked)
    assert (again.status_code, again.json()["run"]) == (409, asked["run"])
    entries = daemon.get(f"/v1/ledger/entries?run={asked['run']}&kind=session.convened").json()
    assert len(entries) == 1
