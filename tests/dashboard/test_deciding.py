"""What people do from the pages: only with the right role, from a page of their own session, and bound to what they saw."""

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from daemons import ONE, Served, place, serving, wait_for
from hansard.surfaces.http.dashboard.gates import MOST_SHOWN
from shell import hansard
from visitors import Visitor


@pytest.fixture(scope="module")
def roles(daemon: Served) -> dict[str, str]:
    return {role: daemon.issue("add", f"only-{role}", "--roles", role) for role in ("reader", "operator", "approver")}


def waiting(daemon: Served, gate: str = "task:one") -> tuple[str, str, list[str]]:
    """A run that waits, its gate, and what is shown there."""
    run = daemon.submit(gates=[gate])["run"]
    daemon.until(run, "waiting")
    [found] = daemon.get(f"/v1/gates?run={run}").json()
    return run, found["gate"], found["shown"]


def test_a_reader_sees_no_buttons_and_may_press_none(daemon: Served, roles: dict[str, str]) -> None:
    run, gate, shown = waiting(daemon)
    reader = Visitor(daemon, roles["reader"])
    assert "Approve" not in reader.text("/dashboard/gates")
    assert "Cancel this run" not in reader.text(f"/dashboard/runs/{run}")
    assert reader.send(f"/dashboard/runs/{run}/cancel").status_code == 403
    assert reader.send(f"/dashboard/runs/{run}/tasks/one/retry").status_code == 403
    assert reader.send(f"/dashboard/gates/{gate}/decision", decision="approve", shown=shown).status_code == 403
    assert daemon.show(run)["state"] == "waiting"


def test_an_operator_cancels_and_does_not_decide(daemon: Served, roles: dict[str, str]) -> None:
    run, gate, shown = waiting(daemon)
    operator = Visitor(daemon, roles["operator"])
    assert operator.send(f"/dashboard/gates/{gate}/decision", decision="approve", shown=shown).status_code == 403
    assert operator.send(f"/dashboard/runs/{run}/cancel").headers["location"] == f"/dashboard/runs/{run}"
    assert daemon.until(run, "cancelled")


def test_an_approver_decides_by_name_and_with_a_reason(daemon: Served, roles: dict[str, str]) -> None:
    run, gate, shown = waiting(daemon)
    approver = Visitor(daemon, roles["approver"])
    assert approver.send(f"/dashboard/runs/{run}/cancel").status_code == 403
    said = approver.send(f"/dashboard/gates/{gate}/decision", decision="approve", shown=shown, note="fine by me")
    assert said.headers["location"] == "/dashboard/gates"
    daemon.until(run, "answered")
    [decided] = daemon.get(f"/v1/gates/{gate}").json()["decisions"]
    assert (decided["by"], decided["authenticated"]) == ("human:only-approver", True)
    assert daemon.get(f"/v1/ledger/entries/{decided['seq']}/parts/note").text == "fine by me"


def test_a_rejection_and_an_edit_do_what_they_say(daemon: Served, visitor: Visitor) -> None:
    run, gate, shown = waiting(daemon)
    visitor.send(f"/dashboard/gates/{gate}/decision", decision="reject", shown=shown)
    daemon.until(run, "failed")
    run, gate, shown = waiting(daemon, "plan")
    plan = {"tasks": [{**ONE["tasks"][0], "instruction": "first line\r\nsecond line"}]}
    edit = json.dumps(plan, indent=2).replace("\n", "\r\n")
    visitor.send(f"/dashboard/gates/{gate}/decision", decision="edit", shown=shown, edit=edit)
    daemon.until(run, "answered")
    [decided] = daemon.get(f"/v1/gates/{gate}").json()["decisions"]
    kept = daemon.get(f"/v1/ledger/entries/{decided['seq']}/parts/edit").text
    assert "\r" not in kept
    assert json.loads(kept) == plan


def test_what_was_not_shown_cannot_be_approved(daemon: Served, visitor: Visitor) -> None:
    run, gate, shown = waiting(daemon)
    for other in (["ab" * 32], []):
        said = visitor.send(f"/dashboard/gates/{gate}/decision", decision="approve", shown=other)
        assert said.status_code == 409
        assert "look at it again" in said.text
    assert visitor.send(f"/dashboard/gates/{gate}/decision", decision="edit", shown=shown, edit="").status_code == 409
    assert visitor.send(f"/dashboard/gates/{gate}/decision", decision="perhaps", shown=shown).status_code == 422
    assert visitor.send("/dashboard/gates/nothing/decision", decision="approve").status_code == 404
    visitor.send(f"/dashboard/runs/{run}/cancel")


def test_the_words_in_which_a_gate_asks_are_not_what_is_edited(tmp_path: Path) -> None:
    board = '[[gate]]\nname = "board"\nlanes = ["backend"]\nquestion = "Look twice.\\n\\nMay it run?"\n'
    with serving(place(tmp_path, more=board)) as daemon:
        instruction = "first\n\nsecond"
        run = daemon.submit(provider="quick", plan={"tasks": [{**ONE["tasks"][0], "instruction": instruction}]})["run"]
        daemon.until(run, "waiting")
        page = Visitor(daemon).text("/dashboard/gates")
        assert "Look twice.\n\nMay it run?\n\nfirst\n\nsecond</pre>" in page
        assert ">\nfirst\n\nsecond</textarea>" in page


def test_who_approves_twice_is_counted_once(tmp_path: Path) -> None:
    with serving(place(tmp_path, more='[[gate]]\nname = "board"\nbefore = "plan"\nneeded = 2\n')) as daemon:
        run = daemon.submit(provider="quick")["run"]
        daemon.until(run, "waiting")
        [gate] = daemon.get("/v1/gates").json()
        for _ in range(2):
            said = daemon.post(f"/v1/gates/{gate['gate']}/decision", {"decision": "approve"}).json()
            assert said["state"] == "open"
            assert "1 of 2 approved" in Visitor(daemon).text("/dashboard/gates")


def test_who_is_no_approver_is_not_counted(tmp_path: Path) -> None:
    board = '[[gate]]\nname = "board"\nbefore = "plan"\nneeded = 2\napprovers = ["human:ann", "human:bob"]\n'
    with serving(place(tmp_path, more=board)) as daemon:
        run = daemon.submit(provider="quick")["run"]
        daemon.until(run, "waiting")
        [gate] = daemon.get("/v1/gates").json()
        said = daemon.post(f"/v1/gates/{gate['gate']}/decision", {"decision": "approve"}).json()
        assert [(each["by"], each["counts"]) for each in said["decisions"]] == [("human:default", False)]
        page = Visitor(daemon).text("/dashboard/gates")
        assert "0 of 2 approved" in page
        assert "does not count" in page
        daemon.cli("gates", "approve", gate["gate"], "--by", "human:ann")
        page = Visitor(daemon).text("/dashboard/gates")
        assert "1 of 2 approved" in page


def test_a_task_is_done_again(daemon: Served, visitor: Visitor) -> None:
    run = daemon.submit(wait=30)["run"]
    assert "Do one again" in visitor.text(f"/dashboard/runs/{run}")
    assert visitor.send(f"/dashboard/runs/{run}/tasks/one/retry").status_code == 303
    daemon.until(run, "answered")
    assert len(daemon.show(run)["tasks"][0]["attempts"]) == 2
    assert visitor.send(f"/dashboard/runs/{run}/tasks/none/retry").status_code == 404
    assert visitor.send(f"/dashboard/runs/{run}/resume").status_code == 409


def test_a_task_with_an_odd_name_is_done_again(daemon: Served, visitor: Visitor) -> None:
    name = "api/login 'a' %2F?#&"
    run = daemon.submit(wait=30, plan={"tasks": [{**ONE["tasks"][0], "id": name}]})["run"]
    [action] = re.findall(r'action="([^"]*/retry)"', visitor.text(f"/dashboard/runs/{run}"))
    assert visitor.send(unescape(action)).headers["location"] == f"/dashboard/runs/{run}"
    daemon.until(run, "answered")
    assert len(daemon.show(run)["tasks"][0]["attempts"]) == 2
    assert daemon.post(f"/v1/runs/{run}/tasks/{quote(name, '')}/retry").status_code == 202


def test_a_form_without_the_token_of_its_session_changes_nothing(daemon: Served, visitor: Visitor) -> None:
    run, gate, shown = waiting(daemon)
    other = Visitor(daemon).form_token()
    for given in ({}, {"form_token": ""}, {"form_token": "0" * 64}, {"form_token": other}, {"form_token": "ü"}):
        for path, fields in (
            (f"runs/{run}/cancel", {}),
            (f"gates/{gate}/decision", {"decision": "approve", "shown": shown}),
        ):
            said = visitor.client.post(f"/dashboard/{path}", data={**given, **fields})
            assert said.status_code == 403, given
    assert visitor.client.post("/dashboard/sign-out", data={"form_token": other}).status_code == 403
    assert daemon.show(run)["state"] == "waiting"
    visitor.send(f"/dashboard/runs/{run}/cancel")


def test_a_form_of_another_site_or_of_no_page_is_refused(daemon: Served, visitor: Visitor) -> None:
    good = {"form_token": visitor.form_token()}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        for path in ("/dashboard/sign-out", "/dashboard/sign-in"):
            said = visitor.client.post(path, data=good, headers={"Origin": origin})
            assert said.status_code == 403, (origin, path)
    del visitor.client.headers["Origin"]
    for path in ("/dashboard/sign-out", "/dashboard/sign-in", "/dashboard/runs/last/cancel"):
        assert visitor.client.post(path, data=good).status_code == 403
        assert visitor.client.post(path, data=good, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_only_a_form_is_taken_from_a_page_and_only_json_from_a_program(daemon: Served, visitor: Visitor) -> None:
    assert visitor.client.post("/dashboard/sign-out", json={"form_token": visitor.form_token()}).status_code == 415
    assert daemon._clients[0].post("/v1/runs", data={"request": "x"}).status_code == 415
    assert visitor.client.post(
        "/dashboard/sign-out", content=b"\xff=%zz", headers={"Content-Type": "application/x-www-form-urlencoded"}
    ).status_code in (400, 403)


def test_what_was_cut_short_goes_on_from_the_page(tmp_path: Path) -> None:
    place(tmp_path)
    with serving(tmp_path, "--provider", "quick", "--grace", 1) as daemon:
        run = daemon.submit(provider="slow")["run"]
        daemon.until(run, "running")
    with serving(tmp_path, "--provider", "quick", "--no-resume") as daemon:
        visitor = Visitor(daemon)
        assert daemon.show(run)["state"] == "interrupted"
        assert "Resume" in visitor.text(f"/dashboard/runs/{run}")
        assert visitor.send(f"/dashboard/runs/{run}/resume").status_code == 303
        assert daemon.until(run, "answered")["answer"] == "the slow result"


def test_a_run_whose_gate_is_decided_is_resumed_and_not_decided_again(tmp_path: Path) -> None:
    place(tmp_path)
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--gate", "plan").returncode == 14
    [gate] = json.loads(hansard(tmp_path, "gates", "--json").stdout)
    assert hansard(tmp_path, "gates", "approve", gate["gate"]).returncode == 0
    with serving(tmp_path, "--no-resume") as daemon:
        visitor = Visitor(daemon)
        path = f"/dashboard/runs/{gate['run']}"
        assert ("Decide at the gate" in visitor.text(path), ">decide</a>" in visitor.text("/dashboard/")) == (
            False,
            False,
        )
        assert f'action="{path}/resume"' in visitor.text(path)
        assert visitor.send(f"{path}/resume").status_code == 303
        daemon.until(gate["run"], "answered")


def test_a_gate_behind_many_others_is_found_by_its_run(tmp_path: Path) -> None:
    tasks = [{"id": f"t{each}", "lane": "backend", "instruction": "do it"} for each in range(MOST_SHOWN)]
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        visitor = Visitor(daemon)
        many = daemon.submit(plan={"tasks": tasks}, gates=["lane:backend"], max_parallel=MOST_SHOWN)["run"]
        wait_for(lambda: len(daemon.get(f"/v1/gates?run={many}").json()) == MOST_SHOWN)
        run, gate, shown = waiting(daemon)
        assert "1 more wait behind these." in visitor.text("/dashboard/gates")
        [link] = re.findall(r'href="(/dashboard/gates\?[^"#]*)#gate-', visitor.text(f"/dashboard/runs/{run}"))
        text = visitor.text(link)
        assert f'id="gate-{gate}"' in text
        assert text.count('<section class="card"') == 1
        assert visitor.send(f"/dashboard/gates/{gate}/decision", decision="approve", shown=shown).status_code == 303
        assert visitor.see("/dashboard/gates?run=nothing").status_code == 404
