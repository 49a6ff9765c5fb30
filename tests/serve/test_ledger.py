import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components import need
from daemons import Served, wait_for
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.merkle import leaf_hash, root_of
from hansard.ledger.note import parse_note
from hansard.ledger.tiles import decode_bundle


@pytest.fixture(scope="module")
def run(daemon: Served) -> str:
    return str(daemon.submit("please look", wait=60)["run"])


def test_entries_come_in_pages(daemon: Served, run: str) -> None:
    seen, path = [], "/v1/ledger/entries?limit=3"
    while path:
        said = daemon.get(path)
        seen += said.json()
        path = said.links["next"]["url"] if "next" in said.links else ""
    assert [view["seq"] for view in seen] == list(range(len(seen)))
    shown = daemon.cli("ledger", "show", "--limit", 0, "--json").stdout.splitlines()
    assert [json.loads(line) for line in shown][: len(seen)] == seen


def test_the_next_page_is_there_and_of_the_run_that_was_the_newest(daemon: Served) -> None:
    newest = daemon.submit(wait=60)["run"]
    first = daemon.get("/v1/ledger/entries?run=last&limit=2")
    daemon.submit(wait=60)
    second = daemon.get(first.links["next"]["url"])
    assert {each["run"] for each in first.json() + second.json()} == {newest}
    entries = len(daemon.get(f"/v1/ledger/entries?run={newest}").json())
    whole = daemon.get(f"/v1/ledger/entries?run={newest}&limit={entries}")
    assert (len(whole.json()), "next" in whole.links) == (entries, False)


def test_entries_are_found_by_run_kind_and_actor(daemon: Served, run: str) -> None:
    found = daemon.get(f"/v1/ledger/entries?run={run}&kind=run.requested").json()
    assert [(view["run"], view["kind"], view["actor"]) for view in found] == [(run, "run.requested", "human:default")]
    assert daemon.get("/v1/ledger/entries?actor=human:nobody").json() == []


def test_one_entry_has_its_parts_causes_and_effects(daemon: Served, run: str) -> None:
    answered = daemon.show(run)["answer_seq"]
    view = daemon.get(f"/v1/ledger/entries/{answered}").json()
    assert view == json.loads(daemon.cli("ledger", "get", answered, "--json").stdout)
    assert daemon.get(f"/v1/ledger/entries/{answered}/parts/answer").text == "the result"
    causes = daemon.get(f"/v1/ledger/entries/{answered}/causes").json()
    assert (causes[0]["kind"], causes[-1]["seq"]) == ("run.requested", answered)
    for path in ("999999999", f"{answered}/parts/nothing", "999999999/causes", "999999999/receipt"):
        assert daemon.get(f"/v1/ledger/entries/{path}").status_code == 404


def test_a_receipt_can_be_checked_offline(daemon: Served, run: str, tmp_path: Path) -> None:
    answered = daemon.show(run)["answer_seq"]
    said = daemon.get(f"/v1/ledger/entries/{answered}/receipt?disclose=answer")
    assert said.status_code == 200, said.text
    printed = json.loads(daemon.cli("ledger", "receipt", answered, "--disclose", "answer", "--json").stdout)
    assert said.json().keys() == printed.keys()
    (tmp_path / "r.tlog-proof").write_text(said.json()["receipt"])
    assert daemon.cli("verify", tmp_path / "r.tlog-proof").returncode == 0
    assert daemon.get(f"/v1/ledger/entries/{answered}/receipt?disclose=nothing").status_code == 404
    unseen = daemon.get(f"/v1/ledger/entries/{answered}/receipt?cosigned=true")
    assert (unseen.status_code, unseen.json()["detail"]) == (409, f"no witness has seen entry {answered} yet")


def test_state_and_summary_are_what_the_command_line_says(daemon: Served, run: str) -> None:
    at = daemon.show(run)["last_seq"]
    assert daemon.get(f"/v1/ledger/state?at={at}").json() == json.loads(
        daemon.cli("ledger", "replay", "--at", at, "--json").stdout
    )
    assert daemon.get("/v1/ledger/state?at=999999999").status_code == 404
    summary = daemon.get("/v1/ledger/summary").json()
    assert summary == json.loads(daemon.cli("ledger", "summary", "--json").stdout) | {
        "checkpoints": summary["checkpoints"]
    }


def test_the_runs_of_a_state_come_in_pages_of_the_same_moment(daemon: Served) -> None:
    for _ in range(3):
        daemon.submit(wait=60)
    whole = daemon.get("/v1/ledger/state?limit=1000").json()
    said, seen = daemon.get(f"/v1/ledger/state?at={whole['at']}&limit=2"), list[object]()
    while True:
        assert {**said.json(), "runs": []} == {**whole, "runs": []}
        seen += said.json()["runs"]
        if "next" not in said.links:
            break
        daemon.submit(wait=60)
        said = daemon.get(said.links["next"]["url"])
    assert seen == whole["runs"]
    assert "at=" in daemon.get("/v1/ledger/state?limit=1").links["next"]["url"]


@pytest.mark.parametrize(
    ("path", "twice"),
    [
        ("/v1/ledger/entries?limit=1&limit=2", "limit"),
        ("/v1/runs?state=answered&limit=3&state=failed", "state"),
        ("/v1/gates?run=last&run=last", "run"),
        ("/v1/compare?a=last&b=last&a=last", "a"),
    ],
)
def test_a_name_that_stands_twice_in_a_query_is_refused(daemon: Served, path: str, twice: str, run: str) -> None:
    said = daemon.get(path)
    assert (said.status_code, said.json()["errors"][0]["where"]) == (422, ["query", twice])


def test_a_name_that_a_route_does_not_know_is_refused_in_its_query(daemon: Served, run: str) -> None:
    described: dict[str, Any] = daemon.get("/openapi.json").json()["paths"]
    for path, item in described.items():
        for method in item:
            # As somebody who takes a member of the body for a parameter, and would be told of a ledger that was not looked at.
            asked = path.format(run=run, task="one", seq=2, part="prompt", gate="g", path="0/000")
            said = daemon.client().request(method, f"{asked}?deep=true")
            assert (said.status_code, said.json()["errors"][0]["where"]) == (422, ["query", "deep"]), (method, path)
    said = daemon.get("/v1/runs?after=1&deep=true").json()
    assert said["detail"] == "query/deep: this route takes after, limit, state, and not that"


@pytest.mark.parametrize("number", ["1_0", "%2B1", "1.0", "%201", "%EF%BC%91", "-1", "1e1", ""])
def test_a_number_in_an_address_is_taken_in_digits_alone_as_the_description_says(
    daemon: Served, number: str, run: str
) -> None:
    where = {
        f"/v1/ledger/entries?limit={number}": ["query", "limit"],
        f"/v1/ledger/entries?after={number}": ["query", "after"],
        f"/v1/gates?limit={number}": ["query", "limit"],
        f"/v1/ledger/state?at={number}": ["query", "at"],
        f"/v1/ledger/proof/consistency?from={number}": ["query", "from"],
        f"/v1/runs?after={number}": ["query", "after"],
    }
    if number:
        where[f"/v1/ledger/entries/{number}"] = ["path", "seq"]
    for path, place in where.items():
        said = daemon.get(path)
        assert (said.status_code, said.json()["errors"][0]["where"]) == (422, place), path
        assert said.json()["detail"].endswith("is not a whole number in digits")
    assert len(daemon.get("/v1/ledger/entries?limit=01&after=0").json()) == 1


def test_what_has_many_values_may_stand_many_times(daemon: Served, run: str) -> None:
    answered = daemon.show(run)["answer_seq"]
    said = daemon.get(f"/v1/ledger/entries/{answered}/receipt?disclose=answer&disclose=answer")
    assert (said.status_code, said.json()["disclosed"]) == (200, ["answer"]), said.text


def test_an_auditor_rebuilds_the_signed_root_from_tiles(daemon: Served, run: str) -> None:
    wait_for(lambda: daemon.get("/checkpoint").status_code == 200)
    note = daemon.get("/checkpoint").text
    checkpoint = parse_checkpoint(parse_note(note).text)
    size = checkpoint.size
    assert size < 256
    leaves = daemon.get(f"/tile/0/000.p/{size}").content
    entries = decode_bundle(daemon.get(f"/tile/entries/000.p/{size}").content)
    assert b"".join(map(leaf_hash, entries)) == leaves
    assert root_of([leaf_hash(entry) for entry in entries]) == checkpoint.root
    for path in ("0/000", "1/000", "entries/000", "0/000.p/0", f"0/000.p/{size + 100}", "x", "entries/0"):
        assert daemon.get(f"/tile/{path}").status_code == 404


def test_the_checkpoint_extends_an_older_size(daemon: Served, run: str) -> None:
    wait_for(lambda: daemon.get("/v1/ledger/checkpoint").status_code == 200)
    newest = daemon.get("/v1/ledger/checkpoint").json()
    said = daemon.get(f"/v1/ledger/proof/consistency?from=1&to={newest['size']}").json()
    assert (said["old"], said["size"]) == (1, newest["size"])
    assert said["consistency"].startswith("old 1\n")
    assert daemon.get("/v1/ledger/proof/consistency?from=999999999").status_code == 409
    refused = daemon.get("/v1/ledger/proof/consistency?from=0&to=999999999")
    assert refused.status_code == 409
    assert "the newest is of size" in refused.json()["detail"]
    assert daemon.get("/v1/ledger/proof/consistency").status_code == 422


def test_the_ledger_is_verified_by_a_process_of_its_own(daemon: Served, run: str) -> None:
    said = daemon.post("/v1/ledger/verify", {"deep": True})
    assert (said.status_code, said.json()["ok"]) == (200, True)


def test_the_ledger_is_held_against_a_pin_and_never_against_a_file(daemon: Served, run: str) -> None:
    pin = daemon.cli("ledger", "pin").stdout.strip()
    assert daemon.post("/v1/ledger/verify", {"pin": pin}).json()["signed"]["keys"] == "pinned"
    other = daemon.post("/v1/ledger/verify", {"pin": pin[:-1] + ("0" if pin[-1] != "0" else "1")}).json()
    assert (other["ok"], other["exit_code"]) == (False, 21)
    (daemon.folder / "pin").write_text(pin)
    for wrong in (str(daemon.folder / "pin"), "x", "x@" + "0" * 64):
        said = daemon.post("/v1/ledger/verify", {"pin": wrong})
        assert (said.status_code, "pin: " in said.json()["detail"]) == (409, True)
    assert daemon.post("/v1/ledger/verify", {"pin": pin + "\n"}).status_code == 422


def test_status_health_and_metrics(daemon: Served, run: str) -> None:
    status = daemon.get("/v1/status").json()
    assert status["entries"] >= daemon.show(run)["last_seq"]
    assert status["draining"] is False
    # A run is over for who waits for it before the daemon has heard of it.
    wait_for(lambda: 'hansard_runs_ended_total{state="answered"}' in daemon.get("/metrics").text)
    text = daemon.get("/metrics").text
    assert 'route="/v1/runs/{run}"' in text
    assert f"hansard_ledger_entries {status['entries']}" in text


def test_every_metric_says_what_it_is(daemon: Served, run: str) -> None:
    lines = daemon.get("/metrics").text.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("# TYPE "):
            assert re.fullmatch(rf"# HELP {line.split()[2]} \S.*\.", lines[at - 1]), line


@pytest.mark.long
def test_promtool_finds_nothing_in_the_metrics(daemon: Served, run: str) -> None:
    need(shutil.which("promtool") is not None, "promtool (apt install prometheus)")
    text = daemon.get("/metrics").text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_agents_ask_over_mcp_is_counted_under_its_name(daemon: Served) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    told = {"Accept": "application/json, text/event-stream"}
    status = daemon.post("/mcp", asked, headers=told).status_code
    assert daemon.post("/mcp-no-such", asked).status_code == 404
    text = daemon.get("/metrics").text
    assert f'hansard_http_requests_total{{method="POST",route="/mcp",status="{status}"}} ' in text
    assert 'hansard_http_requests_total{method="POST",route="other",status="404"} ' in text
