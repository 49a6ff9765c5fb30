"""What stands on the pages: the same as the views say, and nothing that a browser would act on."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

import deliberating
import panels
from command_line import started
from daemons import ONE, Served, place, serving, wait_for
from forging import database
from hansard.app.service import Hansard
from hansard.app.serving.daemon import Daemon
from hansard.app.settings import Settings
from hansard.app.telling.recorded import STATES
from hansard.surfaces.http.app import make_app
from hansard.surfaces.http.dashboard.graphs import causal, timeline, waves
from hansard.surfaces.http.dashboard.pages import page
from hansard.surfaces.http.dashboard.spending import spend
from hansard.surfaces.http.desk import Desk
from hansard.surfaces.http.metrics import Metrics
from shell import hansard
from visitors import Markup, Visitor

HOSTILE = '<script>alert("mark")</script> "><img src=x onerror=alert(1)> \u202egnp.exe \x1b[31m \U000e0169\u3164 mark {{ 7*7 }}'
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def hostile(daemon: Served) -> str:
    """A run whose request, instructions, task names and results do not mean well."""
    plan = {"tasks": [{"id": "one", "lane": "backend", "instruction": HOSTILE}]}
    return str(daemon.submit(HOSTILE, wait=30, plan=plan, provider="echo")["run"])


@pytest.fixture(scope="module")
def gated(daemon: Served) -> str:
    run = str(
        daemon.submit(HOSTILE, plan={"tasks": [{**ONE["tasks"][0], "instruction": HOSTILE}]}, gates=["task:one"])["run"]
    )
    daemon.until(run, "waiting")
    return run


@pytest.fixture(scope="module")
def debated(daemon: Served) -> str:
    said = daemon.post("/v1/deliberations?wait=60", {"problem": HOSTILE, "provider": "rehearsal"})
    return str(said.json()["run"])


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon with a run of more tasks than a page draws, and of more entries than several pages show."""
    plan = {"tasks": [{"id": f"t{each}", "lane": "backend", "instruction": "do it"} for each in range(407)]}
    with serving(place(tmp_path_factory.mktemp("crowded")), "--provider", "quick") as served:
        served.submit("before it", wait=30)
        served.until(served.submit(plan=plan)["run"], "answered")
        yield served


def every_page(daemon: Served, *runs: str) -> list[str]:
    size = daemon.get("/v1/status").json()["entries"]
    return [
        *("/dashboard/", "/dashboard/?state=waiting", "/dashboard/gates", "/dashboard/ledger", "/dashboard/verify"),
        *("/dashboard/ledger?kind=task.returned", "/dashboard/ledger?after=-1", "/dashboard/sign-in?again=1"),
        *(f"/dashboard/ledger/{seq}" for seq in range(size)),
        *(f"/dashboard/runs/{run}" for run in runs),
        f"/dashboard/compare?run={runs[0]}&run={runs[1]}",
    ]


def test_every_page_is_markup_of_ours_and_has_the_strict_policy(
    daemon: Served, visitor: Visitor, hostile: str, gated: str, debated: str
) -> None:
    pages = [*every_page(daemon, hostile, gated), f"/dashboard/deliberations/{debated}"]
    for path in pages:
        said = visitor.see(path)
        assert said.status_code == 200, (path, said.text[:300])
        assert said.headers["content-security-policy"] == POLICY
        assert said.headers["cache-control"] == "no-store"
        assert said.headers["content-type"] == "text/html; charset=utf-8"
        for tag, attributes in Markup(said.text).elements:
            assert tag != "img", path
            assert tag != "script" or set(attributes) == {"type", "src"}, path
            assert not any(name.startswith("on") or name == "style" for name in attributes), path
        assert "\u202e" not in said.text.replace("<textarea", "\0<textarea").split("\0")[0], path


def test_hostile_words_are_shown_as_they_are(visitor: Visitor, hostile: str, gated: str) -> None:
    for path in (f"/dashboard/runs/{hostile}", "/dashboard/gates", "/dashboard/"):
        text = visitor.text(path)
        assert "&lt;script&gt;" in text, path
        assert "\\u202egnp.exe" in text, path
        assert "\\ue0169\\u3164 mark" in text, path
        assert "{{ 7*7 }}" in text, path
    assert "&lt;script&gt;" in visitor.text(f"/dashboard/runs/{gated}")


def test_what_is_edited_at_a_gate_begins_as_what_is_in_question(daemon: Served, visitor: Visitor, gated: str) -> None:
    [gate] = daemon.get(f"/v1/gates?run={gated}").json()
    asked = daemon.get(f"/v1/gates/{gate['gate']}").json()["question"].split("\n\n", 1)[1]
    page = visitor.text("/dashboard/gates")
    box = page.split("<textarea", 1)[1].split(">\n", 1)[1].split("</textarea>")[0]
    for raw, escaped in (("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"), ("&#34;", '"'), ("&#39;", "'")):
        box = box.replace(raw, escaped)
    assert box == asked


def test_a_gate_shows_the_results_that_its_task_would_be_given(daemon: Served, visitor: Visitor) -> None:
    one = {"id": "one", "lane": "backend", "instruction": HOSTILE}
    two = {"id": "two", "lane": "backend", "instruction": "Send it.", "needs": ["one"]}
    run = str(daemon.submit("x", plan={"tasks": [one, two]}, gates=["task:two"], provider="echo")["run"])
    daemon.until(run, "waiting")
    [gate] = daemon.get(f"/v1/gates?run={run}").json()
    [given] = daemon.get(f"/v1/gates/{gate['gate']}").json()["built_on"]
    page = visitor.text(f"/dashboard/gates?run={run}")
    shown = page.partition("Built on the result of one ")[2].partition("</details>")[0]
    assert (given["task"], f"#{given['seq']}</a>" in shown) == ("one", True)
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    daemon.post(f"/v1/runs/{run}/cancel")


def test_a_run_shows_its_request_answer_verdicts_and_spend(daemon: Served, visitor: Visitor) -> None:
    run = daemon.post("/v1/runs?wait=30", {"request": "ship it", "max_calls": 50}).json()
    text = visitor.text(f"/dashboard/runs/{run['run']}")
    for each in ("ship it", "the result", "passed", "do it", "of 50", "<meter", "only, attempt 1", "validator of only"):
        assert each in text, each
    assert [each["check"] for each in run["checks"]] == ["intent", "delivery"]
    assert all(f'<th scope="row">{each["check"]} ' in text for each in run["checks"])


def test_a_deliberation_shows_its_spend_and_its_digest_and_is_kept_as_one_file(
    daemon: Served, visitor: Visitor, debated: str
) -> None:
    view = daemon.get(f"/v1/deliberations/{debated}").json()
    assert view["budget"]["max_tokens"] == 500_000
    text = visitor.text(f"/dashboard/deliberations/{debated}")
    for each in (view["transcript_digest"], "of 500,000", "share of tokens", f"/{debated}/page"):
        assert each in text, each
    said = visitor.see(f"/dashboard/deliberations/{debated}/page")
    assert said.headers["content-disposition"] == f'attachment; filename="session-{debated}.html"'
    assert view["transcript_digest"] in said.text
    assert "<script" not in said.text


BENCH = """\
[run]
ladder = ["panel:bench"]
[roles]
validator = "panel:judges"
[panels.bench]
agents = ["critic"]
provider = "voices"
max_calls = 9
[panels.judges]
agents = ["engineer"]
provider = "voices"
[panels.stuck]
agents = ["critic"]
provider = "silent"
[providers.voices]
kind = "scripted"
on_exhaustion = "loop"
entries = [
  {{match = {{schema = "turn_structured_output"}}, text = {turn}}},
  {{match = {{schema = "verdict"}}, text = {verdict}}},
  {{text = {synthesis}}},
]
""".format(
    turn=json.dumps(json.dumps(panels.turn("Ten, I think."))),
    verdict=json.dumps(json.dumps(panels.verdict())),
    synthesis=json.dumps(json.dumps(panels.synthesis(json.dumps({"ok": True, "score": 0.9, "reasons": "so be it"})))),
)


def test_a_context_source_that_failed_is_told_on_the_page_of_the_run(tmp_path: Path) -> None:
    failing = '\n[[context]]\nname = "wiki"\ncommand = ["no-such-<program>"]\nwhen = "task"\n'
    with serving(place(tmp_path, more=failing), "--provider", "echo") as daemon:
        view = daemon.submit(wait=60)
        text = unescape(Visitor(daemon).text(f"/dashboard/runs/{view['run']}"))
    [context] = view["contexts"]
    assert (context["task"], context["failed"]) == ("one", True)
    assert "The context source wiki failed for one" in text
    assert "NotStarted: no-such-<program>: could not be started" in text


def test_a_panel_that_met_inside_of_a_run_has_the_page_of_a_deliberation(tmp_path: Path) -> None:
    tasks = [{"id": name, "lane": "backend", "instruction": "do it"} for name in ("one", "two")]
    with serving(place(tmp_path, more=BENCH)) as daemon:
        run = daemon.submit(wait=60, plan={"tasks": tasks}, judge="model")["run"]
        visitor = Visitor(daemon)
        text = visitor.text(f"/dashboard/runs/{run}")
        links = set(re.findall(rf'href="(/dashboard/deliberations/{run}-[0-9]+)"', text))
        convened = daemon.get(f"/v1/ledger/entries?run={run}&kind=session.convened").json()
        assert len(convened) == 4
        assert links == {f"/dashboard/deliberations/{each['data']['session']}" for each in convened}
        assert text.count("A panel met: synthesis, 1 round.") == 4
        turns = daemon.get(f"/v1/ledger/entries?run={run}&kind=turn.taken").json()
        pages = {link: visitor.text(link) for link in links}
        for page in pages.values():
            assert page.count("Ten, I think.") == 1
            assert f'inside of run <a href="/dashboard/runs/{run}"' in page
            assert "<form" not in page.split("<main")[1]
        # Each turn stands on the page of its own session, and on no other.
        for turn in (each for each in turns if each["data"]["type"] != "problem_statement"):
            assert sum(f'href="/dashboard/ledger/{turn["seq"]}"' in page for page in pages.values()) == 1
        [bench, _] = [page for page in pages.values() if "of 9</td>" in page]
        assert "asked to do" in bench
        [kept] = {link for link, page in pages.items() if "as validator of one" in page}
        alone = visitor.text(f"/dashboard/runs/{run}/page")
        assert all(f"hansard session export {each['data']['session']} --html" in alone for each in convened)
        folder, _, session = kept.rpartition("/")
        assert visitor.text(f"{folder}/{session.upper()}") == pages[kept]
        said = visitor.see(f"{kept}/page")
        assert said.headers["content-disposition"].startswith(f'attachment; filename="session-{run}-')
        assert "<script" not in said.text
        gone = next(each for each in convened if kept.endswith(each["data"]["session"]))
        assert daemon.cli("ledger", "redact", gone["seq"], "config", "--reason", "secret").returncode == 0
        assert visitor.text(kept).count("its limit is not in the ledger any more") == 3
        assert "no limit" not in visitor.text(kept)
        for none in (f"{run}-1", f"{run}-", "x" * 36 + "-7", run):
            assert visitor.see(f"/dashboard/deliberations/{none}").status_code == 404, none


def test_the_debate_of_a_panel_that_still_sits_inside_of_a_run_is_shown(tmp_path: Path) -> None:
    more = BENCH.replace('["panel:bench"]', '["panel:stuck"]')
    with serving(place(tmp_path, more=more)) as daemon:
        run = daemon.submit()["run"]
        [asked] = wait_for(lambda: daemon.get(f"/v1/ledger/entries?run={run}&kind=session.convened").json())
        path = f"/dashboard/deliberations/{asked['data']['session']}"
        visitor = Visitor(daemon)
        wait_for(lambda: "· round 1" in visitor.text(path))
        assert 'class="state dim">running' in visitor.text(path)
        assert f'data-events="/dashboard/data/runs/{run}/events"' in visitor.text(path)
        assert "A panel was convened, and has not ended." in visitor.text(f"/dashboard/runs/{run}")
        daemon.post(f"/v1/runs/{run}/cancel")
        daemon.until(run, "cancelled")
        assert "There is no synthesis: user_cancel." in visitor.text(path)
        assert "data-events" not in visitor.text(path)


def test_a_deliberation_without_an_end_is_not_kept_as_a_file(daemon: Served, visitor: Visitor) -> None:
    run = daemon.post("/v1/deliberations", {"problem": "x", "provider": "silent"}).json()["run"]
    assert "/page" not in visitor.text(f"/dashboard/deliberations/{run}")
    said = visitor.see(f"/dashboard/deliberations/{run}/page")
    assert (said.status_code, "has no artifact on the record" in said.text) == (404, True)
    daemon.post(f"/v1/runs/{run}/cancel", {})


def test_an_unknown_run_is_told_as_a_page(visitor: Visitor) -> None:
    for path in (
        "/dashboard/nothing",
        "/dashboard/runs/nothing",
        "/dashboard/deliberations/nothing",
        "/dashboard/ledger?run=nothing",
        "/dashboard/ledger/99999",
        "/dashboard/ledger/x",
    ):
        said = visitor.see(path)
        assert said.status_code in (404, 422), path
        assert said.headers["content-security-policy"] == POLICY
        assert 'role="alert"' in said.text


def test_a_deliberation_that_came_to_nothing_says_what_it_asks_for_or_why(daemon: Served, visitor: Visitor) -> None:
    alone = deliberating.config(["ada"]).as_data()
    lost = alone | {"agents": [alone["agents"][0] | {"persona_ref": "nobody-knows"}]}
    endings = (
        (alone, deliberating.verdict("request_user_input"), "which?"),
        (alone, deliberating.verdict("request_external_research"), "what is known?"),
        (alone, deliberating.fails("auth_failure"), "chair: auth_failure"),
        (lost, deliberating.turn(), "nobody-knows"),
    )
    for config, last, words in endings:
        body = {"config": config, "script": deliberating.script([deliberating.turn(), last]).as_data()}
        run = daemon.post("/v1/deliberations?wait=60", body).json()["run"]
        text = visitor.text(f"/dashboard/deliberations/{run}")
        assert words in text
        assert "yet" not in text, "what is over comes to nothing more"
        assert f"/dashboard/deliberations/{run}/continue" not in text
        assert ("An answer is not enough here: that session was answered by a script" in text) == words.endswith("?")


def test_a_replay_that_was_refused_is_no_session_and_says_so(tmp_path: Path) -> None:
    # Nobody can see whether a server's model is still the one that it was.
    far = '[providers.far]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    with serving(place(tmp_path, more=far), "--provider", "quick") as daemon:
        daemon.cli("deliberate", "what colour?", "--panel", "critic", "--provider", "far")
        [held] = (tmp_path / "runs").iterdir()
        refused = daemon.cli("session", "execution-replay", held)
        assert (refused.returncode, "pinning_violation" in refused.stderr) == (3, True), refused.stderr
        assert "No session was held: not replayed." in Visitor(daemon).text("/dashboard/deliberations/last")


def test_a_round_in_which_nobody_spoke_counts(daemon: Served, visitor: Visitor) -> None:
    silent = (deliberating.turn(), deliberating.verdict(), deliberating.fails("auth_failure"))
    body = {"config": deliberating.config(["ada"]).as_data(), "script": deliberating.script(silent).as_data()}
    view = daemon.post("/v1/deliberations?wait=60", body).json()
    assert view["rounds"] == 2
    assert "· round 2\n" in visitor.text(f"/dashboard/deliberations/{view['run']}")
    stuck = {"problem": "what colour?", "panel": ["critic"], "provider": "silent"}
    run = daemon.post("/v1/deliberations", stuck).json()["run"]
    wait_for(lambda: "· round 1\n" in visitor.text(f"/dashboard/deliberations/{run}"))
    daemon.post(f"/v1/runs/{run}/cancel")


def test_whoever_may_run_answers_a_session_that_asks_and_sees_the_next(tmp_path: Path) -> None:
    wanted = {"question": "which?", "context": "There is a blue one."}
    asks = {**panels.verdict("request_user_input"), "user_input_request": wanted}
    large = {f"member {number}": True for number in range(700)}
    turn = {"text": "It depends.", "direct_requests": [{"target": "ann", "type": "question", "content": large}]}
    said = (turn, asks, turn, panels.verdict(), panels.synthesis("The blue one."))
    entries = "}, {".join(f"text = {json.dumps(json.dumps(each))}" for each in said)
    scripted = f"[providers.curious]\nkind = 'scripted'\nmode = 'sequential'\nentries = [{{{entries}}}]\n"
    with serving(place(tmp_path, more=scripted), "--provider", "quick") as daemon:
        asked = {"problem": "what colour?", "panel": ["critic"], "provider": "curious"}
        path = f"/dashboard/deliberations/{daemon.post('/v1/deliberations?wait=60', asked).json()['run']}"
        reader = Visitor(daemon, daemon.issue("add", "ann", "--roles", "reader"))
        assert "may look but not answer" in reader.text(path)
        assert "which?\nThere is a blue one." in reader.text(path)
        assert "(question): {&#34;member 0&#34;: true, " in reader.text(path)
        assert reader.send(f"{path}/continue", answer="blue").status_code == 403
        visitor = Visitor(daemon)
        assert visitor.send(f"{path}/continue", answer="").status_code == 422
        sent = visitor.send(f"{path}/continue", answer="Anything but\r\nred.")
        assert sent.status_code == 303, sent.text
        run = sent.headers["location"].rpartition("/")[2]
        daemon.until(run, "answered")
        text = visitor.text(sent.headers["location"])
        assert "The blue one." in text
        assert "&gt; Anything but\n&gt; red." in text
        assert f'goes on from <a href="{path}"' in text
        earlier = visitor.text(path)
        assert f'goes on in <a href="{sent.headers["location"]}"' in earlier
        assert "<form" not in earlier.partition("It asks:")[2]
        again = visitor.send(f"{path}/continue", answer="Anything but\r\nred.")
        assert (again.status_code, f"answered already, and goes on in {run}" in again.text) == (409, True)
        assert len(daemon.get("/v1/deliberations").json()) == 2


def test_a_session_is_answered_once_also_by_whoever_presses_the_button_many_times(tmp_path: Path) -> None:
    asks = {**panels.verdict("request_user_input"), "user_input_request": {"question": "which?"}}
    entries = "}, {".join(f"text = {json.dumps(json.dumps(each))}" for each in ({"text": "It depends."}, asks))
    scripted = f"[providers.curious]\nkind = 'scripted'\nmode = 'sequential'\nentries = [{{{entries}}}]\n"
    with serving(place(tmp_path, more=scripted), "--provider", "quick") as daemon:
        asked = {"problem": "what colour?", "panel": ["critic"], "provider": "curious"}
        path = f"/dashboard/deliberations/{daemon.post('/v1/deliberations?wait=60', asked).json()['run']}/continue"
        visitor = Visitor(daemon)
        fields = {"form_token": visitor.form_token(), "answer": "Anything but red."}
        together = threading.Barrier(8)

        def press(_: int) -> int:
            together.wait()
            visitor.see("/dashboard/verify")
            together.wait()
            return visitor.client.post(path, data=fields).status_code

        with ThreadPoolExecutor(8) as presses:
            said = list(presses.map(press, range(8)))
        assert sorted(said) == [303, *[409] * 7]
        assert len(daemon.get("/v1/deliberations").json()) == 2


def test_a_session_that_has_gone_on_often_enough_has_no_form_that_would_be_refused(tmp_path: Path) -> None:
    asks = {**panels.verdict("request_user_input"), "user_input_request": {"question": "which?"}}
    entries = "}, {".join(f"text = {json.dumps(json.dumps(each))}" for each in ({"text": "It depends."}, asks))
    scripted = f"[providers.curious]\nkind = 'scripted'\nmode = 'sequential'\non_exhaustion = 'loop'\nentries = [{{{entries}}}]\n"
    with serving(place(tmp_path, more=scripted), "--provider", "quick") as daemon:
        asked = {"problem": "what colour?", "panel": ["critic"], "provider": "curious", "max_expansions": 1}
        visitor = Visitor(daemon)
        path = f"/dashboard/deliberations/{daemon.post('/v1/deliberations?wait=60', asked).json()['run']}"
        assert f'action="{path}/continue"' in visitor.text(path)
        path = visitor.send(f"{path}/continue", answer="Anything but red.").headers["location"]
        daemon.until(path.rpartition("/")[2], "stopped")
        text = visitor.text(path)
        assert f'action="{path}/continue"' not in text
        assert "An answer is not enough here: this deliberation has gone on 1 times" in text


def test_a_run_whose_price_nobody_knows_is_not_listed_as_free(tmp_path: Path) -> None:
    billed = f"[providers.billed]\nkind = 'command'\nargv = ['{sys.executable}', 'echo.py', '0']\nunmetered = false\n"
    with serving(place(tmp_path, more=billed), "--provider", "quick") as daemon:
        daemon.submit(wait=30)
        cells = r'data-label="US\$" class="number">([^<]*)<'
        visitor = Visitor(daemon)
        assert re.findall(cells, visitor.text("/dashboard/")) == ["0"]
        daemon.submit(wait=30, provider="billed")
        assert re.findall(cells, visitor.text("/dashboard/")) == ["no price is known", "0"]
        assert [run["spent"]["priced"] for run in daemon.get("/v1/runs").json()] == [False, True]


def test_a_run_page_of_a_deliberation_leads_to_its_own_page(visitor: Visitor, debated: str) -> None:
    said = visitor.see(f"/dashboard/runs/{debated}")
    assert said.headers["location"] == f"/dashboard/deliberations/{debated}"
    text = visitor.text(said.headers["location"])
    assert "Round 1" in text
    assert "coordination turn" in text


def test_runs_come_in_pages_and_by_state(daemon: Served, visitor: Visitor, gated: str) -> None:
    for number in range(31):
        daemon.submit(f"number {number}", wait=30)
    text = visitor.text("/dashboard/")
    assert text.count('class="request"') == 30
    older = next(attributes["href"] for tag, attributes in Markup(text).elements if attributes.get("rel") == "next")
    assert "number 0" in visitor.text(str(older))
    waiting = visitor.text("/dashboard/?state=waiting")
    assert gated in waiting
    assert "number 30" not in waiting
    offered = text.partition('<select id="state"')[2].partition("</select>")[0]
    assert all(f">{state}</option>" in offered for state in STATES)


def test_the_ledger_is_filtered_and_paged(daemon: Served, visitor: Visitor, hostile: str) -> None:
    text = visitor.text(f"/dashboard/ledger?run={hostile}&kind=task.judged")
    assert text.count('data-label="Kind"') == 1
    newest = daemon.submit("the newest", wait=30)
    shown = visitor.text("/dashboard/ledger?run=last")
    assert shown.count('data-label="Kind"') == newest["entries"]
    named = newest["run"][-12:]
    assert named in visitor.text("/dashboard/")
    assert visitor.text(f"/dashboard/ledger?run={named}").count('data-label="Kind"') == newest["entries"]
    assert visitor.see("/dashboard/ledger?run=no-such").status_code == 404
    assert "No entry is like this" in visitor.text("/dashboard/ledger?kind=no.such")
    first = visitor.text("/dashboard/ledger?after=-1")
    assert "log.genesis" in first
    assert "Newest" in first
    # Neither values nor facts are cut off in silence.
    assert re.search(r'<span class="dim">epoch_key</span> \S{40}…', first)
    assert re.search(r"data-label=\"Says\"[^\n]*…</td></tr>", visitor.text("/dashboard/ledger?kind=task.returned"))


@pytest.mark.parametrize("chosen", ["", "kind=task.attempted", "run=last", "kind=task.attempted&actor=lane:backend"])
def test_the_ledger_is_leafed_through_both_ways_whatever_is_chosen(crowded: Served, chosen: str) -> None:
    visitor, whole, asked = Visitor(crowded), list[int](), f"/v1/ledger/entries?limit=1000&{chosen}"
    while asked:
        said = crowded.get(asked)
        whole += [view["seq"] for view in said.json()]
        asked = said.links["next"]["url"] if "next" in said.links else ""
    for begin, word, forwards in ("", "Older", False), ("&after=-1", "Newer", True):
        seen, path = list[int](), f"/dashboard/ledger?{chosen}{begin}"
        while path:
            text = unescape(visitor.text(path))
            shown = [
                int(seq) for seq in re.findall(r'scope="row"><a class="seq" href="/dashboard/ledger/(\d+)"', text)
            ][::-1]
            seen = [*seen, *shown] if forwards else [*shown, *seen]
            links = {word: href for href, word in re.findall(r'href="([^"]+)">(\w+)</a>', text)}
            path = links.get(word, "")
        assert seen == whole
        assert ("Newer" if not forwards else "Older") in links, "and back again"


def test_an_entry_shows_its_parts_and_both_ways_of_causes(daemon: Served, visitor: Visitor, hostile: str) -> None:
    [returned] = daemon.get(f"/v1/ledger/entries?run={hostile}&kind=task.returned").json()
    view = daemon.get(f"/v1/ledger/entries/{returned['seq']}").json()
    text = visitor.text(f"/dashboard/ledger/{returned['seq']}")
    for seq in (*view["causes"], *view["effects"]):
        assert f'<a href="/dashboard/ledger/{seq}" aria-label' in text
    assert view["leaf"] in text
    assert view["parts"][0]["commitment"] in text


def test_what_does_not_fit_is_marked_and_not_left_out_in_silence(daemon: Served, visitor: Visitor) -> None:
    plan = {"tasks": [{"id": f"t{each}", "lane": "backend", "instruction": "do it"} for each in range(60)]}
    run = daemon.submit("word " * 28 + "and more", wait=60, plan=plan)["run"]
    daemon.until(run, "answered")
    for kind, member in (("plan.made", "effects"), ("run.answered", "causes")):
        [listed] = daemon.get(f"/v1/ledger/entries?run={run}&kind={kind}").json()
        left = len(daemon.get(f"/v1/ledger/entries/{listed['seq']}").json()[member]) - 50
        assert left > 0
        assert f"and {left:,} more" in visitor.text(f"/dashboard/ledger/{listed['seq']}")
    listed = visitor.text("/dashboard/")
    assert "word word …</a>" in listed
    assert "and more" not in listed


def test_a_page_says_how_many_calls_it_does_not_draw_and_of_how_many_it_does_not_show_the_texts(
    crowded: Served,
) -> None:
    run = crowded.get("/v1/runs/last").json()["run"]
    text = Visitor(crowded).text(f"/dashboard/runs/{run}")
    assert text.count('<svg class="time"') == 400
    drawing, behind = text.split("<h2>Timeline</h2>")
    assert ["7 more are not drawn." in each for each in (drawing, behind)] == [True, True]
    assert text.count("<summary>Prompt</summary>") == 200
    assert "Prompts and outputs of the last 207 attempts are not shown here" in behind


def test_a_receipt_is_a_file_that_verifies(daemon: Served, visitor: Visitor, hostile: str) -> None:
    [returned] = daemon.get(f"/v1/ledger/entries?run={hostile}&kind=task.returned").json()
    said = visitor.see(f"/dashboard/ledger/{returned['seq']}/receipt?disclose=output")
    assert said.headers["content-disposition"] == f'attachment; filename="entry-{returned["seq"]}.tlog-proof"'
    (daemon.folder / "x.tlog-proof").write_bytes(said.content)
    checked = daemon.cli("verify", "x.tlog-proof", "--json")
    assert checked.returncode == 0, checked.stdout
    assert visitor.see("/dashboard/ledger/0/receipt?disclose=nothing").status_code == 404


def test_a_run_can_be_kept_as_one_file(daemon: Served, visitor: Visitor, hostile: str) -> None:
    said = visitor.see(f"/dashboard/runs/{hostile}/page")
    assert said.headers["content-disposition"].startswith("attachment")
    assert said.text == daemon.cli("runs", "page", hostile).stdout
    assert "\\u202egnp.exe" in said.text
    assert not set("\u202e\x1b\u3164\U000e0169") & set(said.text)


def test_a_kept_run_is_read_by_its_parts_and_scrolled_with_the_keyboard(visitor: Visitor, hostile: str) -> None:
    elements = Markup(visitor.text(f"/dashboard/runs/{hostile}/page")).elements
    levels = [int(tag[1]) for tag, _ in elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    assert [tag for tag, _ in elements].count("main") == 1
    [waves] = [attributes for _, attributes in elements if attributes.get("class") == "waves"]
    assert (waves.get("role"), waves.get("tabindex"), waves.get("aria-label")) == ("region", "0", "Tasks by waves")


def test_two_runs_are_compared_and_one_is_not(daemon: Served, visitor: Visitor, hostile: str, gated: str) -> None:
    assert "Two runs beside each other" in visitor.text(f"/dashboard/compare?run={hostile}&run={gated}")
    said = visitor.see(f"/dashboard/compare?run={hostile}")
    assert said.status_code == 422
    assert "tick two" in said.text


def test_two_runs_without_an_answer_did_not_give_the_same_one(daemon: Served, visitor: Visitor) -> None:
    runs = [daemon.submit(gates=["task:one"])["run"] for _ in range(2)]
    for run in runs:
        daemon.until(run, "waiting")
        visitor.send(f"/dashboard/runs/{run}/cancel")
        daemon.until(run, "cancelled")
    text = visitor.text(f"/dashboard/compare?run={runs[0]}&run={runs[1]}")
    assert "Neither has an answer in the ledger." in text
    assert "the same answer" not in text
    assert "neither has an answer" in daemon.cli("runs", "compare", *runs).stdout


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("style.css", "text/css"),
        ("verify.js", "text/javascript"),
        ("live.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    ],
)
def test_static_files_have_their_types_and_are_asked_for_again(daemon: Served, name: str, media: str) -> None:
    stranger = Visitor(daemon, None)
    said = stranger.see(f"/dashboard/static/{name}")
    assert said.headers["content-type"].startswith(media)
    assert said.headers["x-content-type-options"] == "nosniff"
    for known in ("{}", "W/{}", '"another", {}', "*"):
        seen = {"If-None-Match": known.format(said.headers["etag"])}
        again = stranger.client.get(f"/dashboard/static/{name}", headers=seen)
        assert (again.status_code, again.content) == (304, b"")
    assert stranger.client.get(f"/dashboard/static/{name}", headers={"If-None-Match": '"another"'}).status_code == 200


OUTSIDE = (
    "nothing.js",
    "../pages.py",
    "..%2fpages.py",
    "%2e%2e/pages.py",
    "..%5cpages.py",
    "/etc/passwd",
    "__init__.py",
    "",
)


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_else_is_served_as_a_static_file(daemon: Served, name: str) -> None:
    head = f"GET /dashboard/static/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert daemon.raw(head.encode()).split(b" ")[1] in (b"404", b"303")


def test_lines_and_checkpoints_come_as_they_are_kept(daemon: Served, visitor: Visitor) -> None:
    size = daemon.get("/v1/status").json()["entries"]
    raw, lines = visitor.see("/dashboard/data/lines?start=0").content, []
    while raw:
        length = int.from_bytes(raw[:4], "big")
        lines.append(raw[4 : 4 + length])
        raw = raw[4 + length :]
    assert [json.loads(line)["seq"] for line in lines][:size] == list(range(size))
    assert visitor.see(f"/dashboard/data/lines?start={size + 50}").content == b""
    wait_for(lambda: daemon.get("/v1/ledger/checkpoint").status_code == 200)
    newest = daemon.get("/v1/ledger/checkpoint").json()["checkpoint"]
    kept = [json.loads(line)["note"] for line in visitor.see("/dashboard/data/checkpoints").text.splitlines()]
    assert newest in kept


def test_the_events_of_a_run_go_on_behind_an_entry(daemon: Served, visitor: Visitor, hostile: str) -> None:
    view = daemon.show(hostile)
    behind = view["last_seq"] - 2
    text = visitor.text(f"/dashboard/data/runs/{hostile}/events?after={behind}")
    assert [line for line in text.splitlines() if line.startswith("id: ")] == [f"id: {behind + 1}", f"id: {behind + 2}"]
    assert visitor.see(f"/dashboard/data/runs/{hostile}/events?after={view['last_seq']}").status_code == 204


def test_a_page_that_has_seen_more_than_there_is_hears_of_what_comes_and_of_the_end(
    daemon: Served, visitor: Visitor
) -> None:
    run = daemon.submit("put back", provider="slow")["run"]
    with visitor.client.stream("GET", f"/dashboard/data/runs/{run}/events?after=999999999999") as said:
        for line in said.iter_lines():
            assert not line.startswith(":") or daemon.show(run)["state"] != "answered", "it is over, and nobody says so"


def task(name: str, *needs: str) -> dict[str, Any]:
    return {"task": name, "needs": list(needs), "state": "passed", "lane": "x"}


def test_a_task_stands_behind_everything_that_it_needs() -> None:
    drawn = waves([task("c", "a", "b"), task("a"), task("b", "a"), task("lost", "nobody")])
    at = {node.name: node.x for node in drawn.nodes}
    assert at["a"] == at["lost"] < at["b"] < at["c"]
    assert len(drawn.edges) == 3
    assert waves([]).nodes == ()


def test_what_was_spent_is_not_shown_as_nothing() -> None:
    spent = {"calls": 3, "tokens": 1_381, "cost_usd_nano": 45, "elapsed_us": 417_601}
    budget = {"max_calls": None, "max_tokens": None, "max_cost_usd_nano": 15_500_000, "max_seconds": 2}
    said = [(row["used"], row["limit"]) for row in spend({"spent": spent, "budget": budget})]
    assert said == [("3", None), ("1,381", None), ("0.000000045", "0.0155"), ("0.4176", "2")]


def test_models_without_a_price_are_named_beside_the_money() -> None:
    view = {
        "spent": dict.fromkeys(("calls", "tokens", "cost_usd_nano", "elapsed_us"), 0),
        "budget": dict.fromkeys(("max_calls", "max_tokens", "max_cost_usd_nano", "max_seconds")),
    }
    said = "US$, an estimate unless billed"
    assert spend(view)[2]["name"] == spend({**view, "unpriced": []})[2]["name"] == said
    assert spend({**view, "unpriced": ["a", "b"]})[2]["name"] == f"{said}; no price is known of a, b"


def test_a_circle_of_tasks_does_not_hang_the_drawing() -> None:
    drawn = waves([task("a", "b"), task("b", "a"), task("c")])
    assert [node.name for node in drawn.nodes] == ["c"]
    assert drawn.left_out == 2


def test_a_crowd_of_effects_is_counted_and_not_drawn() -> None:
    def look(seq: int) -> dict[str, Any]:
        return {"seq": seq, "kind": "k", "causes": [], "effects": []}

    drawn = causal({"seq": 0, "kind": "k", "causes": [], "effects": list(range(1, 101))}, look)
    assert (len(drawn.nodes), drawn.left_out) == (9, 92)


def test_a_call_without_an_answer_reaches_to_the_end_of_the_timeline_or_as_far_as_its_driver_did() -> None:
    asked = {"seq": 1, "kind": "task.attempted", "ts": 100, "causes": [], "data": {"task": "t", "attempt": 1}}
    later = {"seq": 2, "kind": "task.judged", "ts": 150, "causes": [], "data": {}}
    taken = {"seq": 3, "kind": "run.claimed", "ts": 200, "causes": [], "data": {}}
    closed = {"seq": 4, "kind": "task.returned", "ts": 200, "causes": [1], "data": {"ok": False}}
    [bar] = timeline([asked, later])
    assert (bar.x, bar.width, bar.answered, bar.awaited) == (0, 1000, False, True)
    for rest, answered in (([taken], False), ([taken, closed], True)):
        [bar] = timeline([asked, later, *rest])
        assert (bar.took_us, bar.width, bar.answered, bar.awaited) == (50, 500, answered, False)
    assert timeline([later]) == ()


WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists():\n    time.sleep(0.02)\nprint('done')"


def test_a_call_that_died_with_its_driver_is_not_waited_for(tmp_path: Path) -> None:
    door = tmp_path / "door"
    argv = json.dumps([sys.executable, "-c", WAITS, str(door)])
    place(tmp_path, more=f'[providers.waits]\nkind = "command"\nargv = {argv}\n')
    waits = ("--provider", "waits", "--lane", "backend", "--judge", "checks", "--answer", "join")
    with started(tmp_path, "submit", "cut off", *waits, "--progress", "plain", stderr=subprocess.PIPE) as driver:
        assert driver.stderr is not None
        assert any("started" in line for line in driver.stderr)
        driver.kill()
    shown = hansard(tmp_path, "runs", "show", "last").stdout
    assert "no answer yet" in shown
    door.touch()
    assert hansard(tmp_path, "runs", "resume", "last").returncode == 0
    with serving(tmp_path) as daemon:
        run = daemon.show("last")["run"]
        for told in (Visitor(daemon).text(f"/dashboard/runs/{run}"), daemon.cli("runs", "show", run).stdout):
            assert "no answer came" in told
            assert "no answer yet" not in told


def test_a_message_that_was_swapped_is_told_and_is_no_bug(tmp_path: Path) -> None:
    place(tmp_path)
    with serving(tmp_path, "--provider", "quick") as daemon:
        run = daemon.post("/v1/deliberations?wait=60", {"problem": "keep it?", "provider": "rehearsal"}).json()["run"]
        spoken = daemon.get(f"/v1/ledger/entries?run={run}&kind=turn.taken").json()[-1]["seq"]
        with database(tmp_path / "l.db") as found:
            change = "UPDATE bodies SET body = x'7b7d', shared = NULL WHERE id >> 8 = ?"
            assert found.execute(change, (spoken,)).rowcount
        said = Visitor(daemon).see(f"/dashboard/deliberations/{run}")
        assert (said.status_code, "POST /v1/ledger/verify tells more" in said.text) == (503, True)
        assert "bug" not in [line["event"] for line in daemon.logged()]


def test_every_page_of_a_ledger_that_is_broken_says_so(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        run = daemon.submit(wait=30)["run"]
        assert "This ledger is broken" not in Visitor(daemon).text("/dashboard/")
    with database(tmp_path / "l.db") as found:
        change = (
            "UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":false') WHERE line LIKE '%task.judged%'"
        )
        assert found.execute(change).rowcount == 1
    with serving(tmp_path, "--provider", "quick") as daemon:
        broken = daemon.get("/v1/status").json()["broken"]
        visitor = Visitor(daemon)
        for path in (
            "/dashboard/",
            f"/dashboard/runs/{run}",
            "/dashboard/gates",
            "/dashboard/ledger",
            "/dashboard/verify",
        ):
            assert f"This ledger is broken</strong>: {broken}." in visitor.text(path), path
        assert "This ledger is broken" not in Visitor(daemon, None).text("/dashboard/sign-in")


def test_a_name_that_stands_twice_in_an_address_is_refused_on_pages_too(visitor: Visitor, debated: str) -> None:
    for path, name in (
        ("/dashboard/?state=answered&state=failed", "state"),
        ("/dashboard/?after=3&state=answered&after=9", "after"),
        ("/dashboard/ledger?kind=run.ended&kind=run.claimed", "kind"),
        (f"/dashboard/gates?run={debated}&run={debated}", "run"),
        (f"/dashboard/data/runs/{debated}/events?after=1&after=2", "after"),
        ("/dashboard/data/lines?start=0&start=1", "start"),
        ("/dashboard/sign-in?to=/dashboard/&to=/dashboard/ledger", "to"),
    ):
        said = visitor.see(path)
        assert said.status_code == 422, path
        assert f"query/{name}: it stands more than once, and has one value" in said.text
    # What has many values, and what no page knows.
    for path in (f"/dashboard/compare?run={debated}&run={debated}", "/dashboard/verify?utm=1&utm=2"):
        assert visitor.see(path).status_code == 200, path


def test_whoever_ticks_one_run_to_compare_is_told_in_words(daemon: Served, visitor: Visitor, hostile: str) -> None:
    said = visitor.see(f"/dashboard/compare?run={hostile}")
    assert said.status_code == 422
    assert "two runs can be compared, and 1 is ticked; tick two" in said.text
    assert "Unprocessable" not in said.text


def test_what_was_redacted_is_told_to_be_gone_and_not_never_to_have_been(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        visitor, run = Visitor(daemon), daemon.submit(wait=30)["run"]
        debate = daemon.post("/v1/deliberations?wait=60", {"problem": "keep it?", "provider": "rehearsal"}).json()[
            "run"
        ]
        made = daemon.post("/v1/plans?wait=60", {"request": "plan it", "provider": "rehearsal"})
        planned = made.headers["location"].rpartition("/")[2]
        turns = daemon.get(f"/v1/ledger/entries?run={debate}&kind=turn.taken").json()
        for each, kind, part in (
            (run, "run.requested", "request"),
            (run, "plan.made", "plan"),
            (run, "run.answered", "answer"),
            (debate, "session.ended", "artifact"),
            (planned, "plan.made", "plan"),
        ):
            [entry] = daemon.get(f"/v1/ledger/entries?run={each}&kind={kind}").json()
            assert daemon.cli("ledger", "redact", entry["seq"], part, "--reason", "secret").returncode == 0
        assert daemon.cli("ledger", "redact", turns[2]["seq"], "message", "--reason", "secret").returncode == 0
        text = visitor.text(f"/dashboard/runs/{run}")
        assert text.count("It is not in the ledger any more.") == 2
        kept = visitor.text(f"/dashboard/runs/{run}/page")
        assert "There is no answer" not in text + kept
        plans = [visitor.text(f"/dashboard/runs/{each}{page}") for each in (run, planned) for page in ("", "/page")]
        assert ["There is no plan" in each for each in plans] == [False] * 4
        text = visitor.text(f"/dashboard/deliberations/{debate}")
        assert "It is not over." not in text
        assert "its request is not in the ledger any more" in visitor.text("/dashboard/")
        gone = text.split("<h2>Not in the ledger any more</h2>")[1].split("</ul>")[0]
        assert gone.count("<li>") == 1
        assert f"#{turns[2]['seq']}</a> {turns[2]['data']['speaker']}" in gone


def test_a_turn_shows_which_tools_it_used(tmp_path: Path) -> None:
    entries = [
        "calls = [{name = 'almanac', arguments = {}}]",
        "structured = {text = 'It was 1969.'}",
        f"text = {json.dumps(json.dumps(panels.verdict()))}",
        f"text = {json.dumps(json.dumps(panels.synthesis('1969')))}",
    ]
    scripted = (
        "[providers.curious]\nkind = 'scripted'\nmode = 'sequential'\nentries = [{" + "}, {".join(entries) + "}]\n"
    )
    tool = f"[tools.almanac]\ncommand = {json.dumps([sys.executable, '-c', 'print(1969)'])}\n"
    panel = "[panels.bench]\nagents = ['critic']\nprovider = 'curious'\ntools = {critic = ['almanac']}\n"
    with serving(place(tmp_path, more=scripted + tool + panel), "--provider", "quick") as daemon:
        asked = {"problem": "when?", "panel": ["panel:bench"], "provider": "curious"}
        run = daemon.post("/v1/deliberations?wait=60", asked).json()["run"]
        [called] = daemon.get(f"/v1/ledger/entries?run={run}&kind=tools.called").json()
        text = Visitor(daemon).text(f"/dashboard/deliberations/{run}")
    assert "used almanac" in text
    assert f'href="/dashboard/ledger/{called["seq"]}"' in text
    assert text.count("used almanac") == 1


class Written:
    """A text that remembers which thread has written it onto a page."""

    by: int | None = None

    def __html__(self) -> str:
        self.by = threading.get_ident()
        return "said"


def test_a_page_of_the_record_is_not_made_on_the_event_loop(tmp_path: Path) -> None:
    async def made(text: Written) -> bytes:
        async with Hansard.open(settings=Settings(ledger=str(tmp_path / "l.db"), state=tmp_path)) as hansard:
            desk = Desk(hansard=hansard, daemon=Daemon(hansard, lambda *_, **__: None), metrics=Metrics())
            request = Request({"type": "http", "app": make_app(desk), "path": "/dashboard/", "headers": []})
            return bytes((await page(request, "error.html", title="a title", detail=text)).body)

    text = Written()
    assert b"said" in asyncio.run(made(text))
    assert text.by not in (None, threading.get_ident())
