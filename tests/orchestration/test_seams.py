"""Seams: context, verifier, reviser, intent judge. Recorded, bounded, believed in nothing, fatal in nothing."""

import asyncio
import http.server
import json
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.errors import UsageError
from hansard.orchestration import seams
from hansard.orchestration.config import RunConfig
from hansard.orchestration.seams import Verification, read_sources, trimmed
from hansard.providers.base import failure
from running import Answers, Desk, Ledger, Said, audit, blocks, desk, fails, obliging, one, plan, task, user_text, who

RAMBLING = " ".join(
    ["As a matter of fact, it is worth noting that, in order to say it plainly, please do the only thing."] * 30
)
BRIEF = "Please do the only thing."


class Notes:
    """A context source that says what it was asked about."""

    def __init__(self, text: str = "") -> None:
        self.asked: list[str | None] = []
        self._text = text

    async def context(self, request: str, task: str | None) -> str:
        self.asked.append(task)
        return self._text or f"notes on {task or 'the request'}"


class Broken:
    async def context(self, request: str, task: str | None) -> str:
        raise RuntimeError("the shelf fell over")

    async def verify(self, request: str, answer: str) -> Verification | None:
        raise RuntimeError("the judge fell asleep")

    async def revise(self, request: str, answer: str) -> str | None:
        raise RuntimeError("the pen broke")


class Says:
    """A verifier or reviser that says one thing."""

    def __init__(self, said: Any) -> None:
        self._said = said

    async def verify(self, request: str, answer: str) -> Verification | None:
        found: Verification | None = self._said
        return found

    async def revise(self, request: str, answer: str) -> str | None:
        found: str | None = self._said
        return found


def source(name: str, *, when: str = "request", max_tokens: int = 1000) -> dict[str, Any]:
    return {"name": name, "entry_point": name, "when": when, "max_tokens": max_tokens}


async def run_with(at: Desk, config: RunConfig, **how: Any) -> str:
    run = await at.runs.submit("please do the only thing", config, **how)
    ended = await at.runs.drive(run)
    assert ended.state == "answered", ended
    audit(at.store, run)
    return run


async def test_context_reaches_the_coordinator_and_each_task_fenced_and_on_the_record() -> None:
    told = Answers()
    at = desk(told)
    at.pool.seams |= {"all": Notes(), "tasks": Notes()}
    run = await run_with(at, replace(at.config(), context=(source("all", when="both"), source("tasks", when="task"))))
    asked = told.asked("coordinator")[0]
    assert ("context-1", "notes on the request") in blocks(user_text(asked))
    worker = blocks(user_text(told.asked("worker")[0]))
    assert [text for name, text in worker if name.startswith("context")] == ["notes on only", "notes on only"]
    given = at.entries(run, "context.given")
    assert [(e.data["source"], e.data.get("task")) for e in given] == [
        ("all", None),
        ("all", "only"),
        ("tasks", "only"),
    ]
    attempt = one(at.entries(run, "task.attempted"))
    assert {each.seq for each in given[1:]} <= set(attempt.causes)
    assert given[0].seq in one(at.entries(run, "plan.made")).causes


async def test_context_is_trimmed_to_its_share_and_that_is_recorded() -> None:
    told = Answers()
    at = desk(told)
    at.pool.seams["long"] = Notes("é" * 1000)
    run = await run_with(at, replace(at.config(), context=(source("long", max_tokens=10),)))
    entry = one(at.entries(run, "context.given"))
    assert (entry.data["offered_tokens"], entry.data["admitted_tokens"]) == (500, 10)
    assert at.text(entry, "context") == "é" * 20
    assert trimmed("", 5) == ("", 0, 0, "")


async def test_a_source_with_nothing_to_say_is_on_the_record_and_in_no_prompt() -> None:
    class Silent:
        async def context(self, request: str, task: str | None) -> str:
            return ""

    told = Answers()
    at = desk(told)
    at.pool.seams["silent"] = Silent()
    run = await run_with(at, replace(at.config(), context=(source("silent"),)))
    assert one(at.entries(run, "context.given")).data["failed"] is False
    assert not any(name.startswith("context") for name, _ in blocks(user_text(told.asked("coordinator")[0])))


async def test_a_source_that_breaks_or_hangs_is_recorded_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs:
        async def context(self, request: str, task: str | None) -> str:
            await asyncio.sleep(60)
            return "late"

    monkeypatch.setattr(seams, "SEAM_SECONDS", 0.05)
    at = desk(Answers())
    at.pool.seams |= {"broken": Broken(), "hangs": Hangs(), "wrong": Says(None)}
    run = await run_with(at, replace(at.config(), context=(source("broken"), source("hangs"), source("wrong"))))
    given = at.entries(run, "context.given")
    assert [entry.data["failed"] for entry in given] == [True, True, True]
    assert "the shelf fell over" in at.text(given[0], "context")
    assert "TimeoutError" in at.text(given[1], "context")


async def test_a_resumed_run_reads_context_from_the_record_and_asks_nobody_twice() -> None:
    ledger, notes = Ledger(), Notes()
    at = desk(Answers(), store=ledger)
    at.pool.seams["notes"] = notes
    run = await run_with(at, replace(at.config(), context=(source("notes", when="both"),)))
    for commits in range(2, len(ledger.commits)):
        fresh = Notes()
        again = desk(Answers(), store=ledger.until(commits))
        again.pool.seams["notes"] = fresh
        recorded = {entry.data.get("task") for entry in again.entries(run, "context.given")}
        assert (await again.runs.drive(run)).state == "answered"
        assert recorded.isdisjoint(fresh.asked)
        assert {entry.data.get("task") for entry in again.entries(run, "context.given")} == {None, "only"}


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (None, "abstained"),
        (Verification(outcome="passed", detail="fine"), "passed"),
        (Verification(outcome="refused", detail="not so"), "refused"),
        (Verification(outcome="great"), "crashed"),  # type: ignore[arg-type]
        (Verification(outcome="passed", detail=None), "crashed"),  # type: ignore[arg-type]
        ("passed", "crashed"),
    ],
)
async def test_what_a_verifier_says_is_recorded_as_its_word_and_stops_nothing(said: Any, outcome: str) -> None:
    at = desk(Answers())
    at.pool.seams["v"] = Says(said)
    run = await run_with(at, replace(at.config(), verifier={"entry_point": "v"}))
    entry = one([e for e in at.entries(run, "answer.checked") if e.data["check"] == "verifier"])
    assert entry.data["outcome"] == outcome
    assert at.answer(run) is not None


async def test_a_verifier_that_gives_no_verification_is_told_what_it_gave() -> None:
    at = desk(Answers())
    at.pool.seams["v"] = Says(True)
    run = await run_with(at, replace(at.config(), verifier={"entry_point": "v"}))
    entry = one([e for e in at.entries(run, "answer.checked") if e.data["check"] == "verifier"])
    assert at.text(entry, "detail") == "TypeError: gave a bool instead of a Verification"


async def test_a_verifier_that_breaks_is_recorded_and_not_fatal() -> None:
    at = desk(Answers())
    at.pool.seams["v"] = Broken()
    run = await run_with(at, replace(at.config(), verifier={"entry_point": "v"}))
    entry = one([e for e in at.entries(run, "answer.checked") if e.data["check"] == "verifier"])
    assert entry.data["outcome"] == "crashed"
    assert "fell asleep" in at.text(entry, "detail")


def rambles(exchange: Exchange) -> Said:
    match who(exchange)[0]:
        case "worker":
            return RAMBLING
        case "reviser":
            return BRIEF
        case "intent_judge":
            return {"drifted": True, "reason": "it speaks of something else"}
        case _:
            return obliging(exchange)


async def test_by_default_only_the_checks_that_cost_nothing_run() -> None:
    told = Answers(rambles)
    at = desk(told)
    run = await run_with(at, at.config())
    checks = {entry.data["check"]: entry.data["outcome"] for entry in at.entries(run, "answer.checked")}
    assert set(checks) == {"intent", "delivery"}
    assert checks["delivery"] == "flagged"
    assert at.entries(run, "answer.revised") == []
    assert {who(each)[0] for each in told.calls} == {"coordinator", "worker", "validator"}


async def test_a_revision_that_is_shorter_and_covers_no_less_becomes_the_answer() -> None:
    at = desk(Answers(rambles))
    run = await run_with(at, at.config(Wishes(revise=True)))
    revised = one(at.entries(run, "answer.revised"))
    assert revised.data["accepted"] is True
    assert list(revised.body) == ["answer"]
    assert revised.data["words_after"] < revised.data["words_before"]
    assert at.answer(run) == BRIEF
    view = at.runs.show(run)
    assert (view["answer"], view["answer_seq"], view["missing"]) == (BRIEF, revised.seq, [])
    # What was found of the answer before is not told of this one.
    answered = one(at.entries(run, "run.answered"))
    assert {(each["check"], each["of"]) for each in view["checks"]} >= {("delivery", answered.seq)}
    assert f", of entry {answered.seq} before it was revised" in at.runs.page(run)
    assert at.text(one(at.entries(run, "run.answered")), "answer") == RAMBLING


async def test_an_answer_that_no_check_finds_too_long_is_not_revised() -> None:
    told = Answers()
    at = desk(told)
    run = await run_with(at, at.config(Wishes(revise=True)))
    checks = {entry.data["check"]: entry.data["outcome"] for entry in at.entries(run, "answer.checked")}
    assert checks["delivery"] == "passed"
    assert (told.asked("reviser"), at.entries(run, "answer.revised")) == ([], [])


async def test_an_answer_of_which_a_model_would_see_the_beginning_only_is_not_revised_by_it() -> None:
    told, ledger = Answers(rambles), Ledger()
    at = desk(told, store=ledger)
    config = at.config(Wishes(revise=True))
    run = await run_with(at, replace(config, tuning=replace(config.tuning, answer_chars=len(RAMBLING) - 1)))
    assert (told.asked("reviser"), at.entries(run, "answer.revised")) == ([], [])
    assert at.answer(run) == RAMBLING
    for commits in range(2, len(ledger.commits) + 1):
        again = desk(Answers(rambles), store=ledger.until(commits))
        await again.runs.drive(run)
        said = [entry for entry in again.entries(run, "answer.checked") if entry.data["check"] == "delivery"]
        assert len(said) == 2, commits
        assert "was not revised" in again.text(said[-1], "detail")
        assert (await again.runs.rerun(run))["identical"] is True, commits


def delivery_of(at: Desk, run: str) -> tuple[str, str]:
    """The last word on how concise the answer is."""
    said = [entry for entry in at.entries(run, "answer.checked") if entry.data["check"] == "delivery"]
    assert [entry.data["outcome"] for entry in said[:-1]] == ["flagged"]
    return said[-1].data["outcome"], at.text(said[-1], "detail") or ""


def mute(exchange: Exchange) -> Said:
    """A reviser that cannot be asked."""
    return failure("auth_failure", "no key") if who(exchange)[0] == "reviser" else rambles(exchange)


@pytest.mark.parametrize(
    ("says", "seam", "limits", "said"),
    [
        (rambles, None, {"max_calls": 1}, ("abstained", "nothing was left of the budget .* calls: 1 of 1 spent")),
        (
            rambles,
            None,
            {"max_tokens": 800},
            ("abstained", "nothing was left of the budget .* tokens: .* of 800 spent"),
        ),
        (mute, None, {}, ("crashed", "the reviser gave no usable answer: no key")),
        (rambles, " ", {}, ("abstained", "the reviser gave no text")),
    ],
)
async def test_the_record_says_why_there_is_no_revision_that_was_wished_for(
    says: Any, seam: str | None, limits: dict[str, int], said: tuple[str, str]
) -> None:
    ledger = Ledger()
    at = desk(Answers(says), store=ledger)
    config = at.config(Wishes(revise=True, judge="checks", **limits))  # type: ignore[arg-type]
    if seam:
        at.pool.seams["r"], config = Says(seam), replace(config, reviser={"entry_point": "r"})
    run = await run_with(at, config, plan=plan(task("one")))
    assert (at.entries(run, "answer.revised"), at.answer(run)) == ([], RAMBLING)
    for commits in range(2, len(ledger.commits) + 1):
        again = desk(Answers(says), store=ledger.until(commits))
        again.pool.seams["r"] = Says(seam)
        if (await again.runs.drive(run)).state != "answered":
            # A call that a crash cut short counts, and this was the only one.
            continue
        outcome, why = delivery_of(again, run)
        assert outcome == said[0]
        assert re.match(said[1], why), why
        assert (await again.runs.rerun(run))["identical"] is True, commits


async def test_the_record_says_that_there_was_no_time_for_a_revision() -> None:
    class Slow(Says):
        async def revise(self, request: str, answer: str) -> str | None:
            await asyncio.sleep(60)
            raise AssertionError("nobody waits for that")

    at = desk(Answers(rambles))
    at.pool.seams["r"] = Slow("")
    config = replace(at.config(Wishes(revise=True, judge="checks", max_seconds=2)), reviser={"entry_point": "r"})
    run = await run_with(at, config, plan=plan(task("one")))
    assert delivery_of(at, run) == (
        "abstained",
        "the reviser: the time of the run was over before it had said anything",
    )


async def test_a_revision_that_loses_the_point_is_refused_and_the_answer_stands() -> None:
    at = desk(Answers(rambles))
    at.pool.seams["r"] = Says("Bananas.")
    run = await run_with(at, replace(at.config(Wishes(revise=True)), reviser={"entry_point": "r"}))
    revised = one(at.entries(run, "answer.revised"))
    assert revised.data["accepted"] is False
    assert at.text(revised, "why") == "it covers less of the request"
    assert at.answer(run) == RAMBLING


@pytest.mark.parametrize(("run", "is_asked"), [({}, True), ({"revise": True}, True), ({"revise": False}, False)])
async def test_a_reviser_of_the_file_is_asked_unless_the_file_says_that_nobody_is(run: Any, is_asked: bool) -> None:
    at = desk(Answers(rambles), settings={"reviser": {"entry_point": "r"}, "run": run})
    at.pool.seams["r"] = Says(BRIEF)
    found = await run_with(at, at.config())
    assert at.answer(found) == (BRIEF if is_asked else RAMBLING)


async def test_a_reviser_that_breaks_leaves_the_answer_as_it_is() -> None:
    at = desk(Answers(rambles))
    at.pool.seams["r"] = Broken()
    run = await run_with(at, replace(at.config(Wishes(revise=True)), reviser={"entry_point": "r"}))
    assert at.entries(run, "answer.revised") == []
    assert at.answer(run) == RAMBLING
    assert delivery_of(at, run) == ("crashed", "the reviser failed: RuntimeError: the pen broke")


class Panic(BaseException):
    """What libraries in other languages raise where they break."""


class Leaves:
    """Somebody whose code ends its process."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    async def context(self, request: str, task: str | None) -> str:
        raise self._error("usage: context [-h]")

    async def verify(self, request: str, answer: str) -> Verification | None:
        raise self._error(0)

    async def revise(self, request: str, answer: str) -> str | None:
        raise self._error(0)


@pytest.mark.parametrize("error", [SystemExit, Panic])
async def test_a_seam_that_would_end_the_process_is_recorded_and_ends_nothing(error: type[BaseException]) -> None:
    at = desk(Answers(rambles))
    at.pool.seams["x"] = Leaves(error)
    seam, config = {"entry_point": "x"}, at.config(Wishes(revise=True))
    run = await run_with(at, replace(config, context=(source("x"),), verifier=seam, reviser=seam))
    assert at.text(one(at.entries(run, "context.given")), "context") == f"{error.__name__}: usage: context [-h]"
    checks = [(each.data["check"], at.text(each, "detail")) for each in at.entries(run, "answer.checked")]
    assert ("verifier", f"{error.__name__}: 0") in checks
    assert ("delivery", f"the reviser failed: {error.__name__}: 0") in checks


class Mute(Exception):
    """An error that fails when it is to say what it is."""

    def __str__(self) -> str:
        raise AttributeError("response")


async def test_an_error_of_a_seam_that_cannot_say_what_it_is_ends_nothing() -> None:
    at = desk(Answers(rambles))
    at.pool.seams["x"] = Leaves(Mute)
    seam, config = {"entry_point": "x"}, at.config(Wishes(revise=True))
    run = await run_with(at, replace(config, context=(source("x"),), verifier=seam, reviser=seam))
    assert at.text(one(at.entries(run, "context.given")), "context") == "Mute"
    checks = [(each.data["check"], at.text(each, "detail")) for each in at.entries(run, "answer.checked")]
    assert {("verifier", "Mute"), ("delivery", "the reviser failed: Mute")} <= set(checks)


class Never:
    """Somebody whose work does not end, or is cancelled by itself."""

    def __init__(self, *, cancelled: bool) -> None:
        self._cancelled = cancelled

    async def context(self, request: str, task: str | None) -> str:
        if self._cancelled:
            raise asyncio.CancelledError
        await asyncio.Event().wait()
        return ""

    async def verify(self, request: str, answer: str) -> Verification | None:
        await self.context(request, None)
        return None

    async def revise(self, request: str, answer: str) -> str | None:
        return await self.context(request, None)


@pytest.mark.parametrize(("cancelled", "said"), [(False, "TimeoutError"), (True, "cancelled from inside")])
async def test_whoever_is_plugged_in_and_never_answers_or_is_cancelled_from_inside_is_recorded_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, cancelled: bool, said: str
) -> None:
    monkeypatch.setattr(seams, "SEAM_SECONDS", 0.05)
    at = desk(Answers(rambles))
    at.pool.seams["n"] = Never(cancelled=cancelled)
    plugged = {"context": (source("n"),), "verifier": {"entry_point": "n"}, "reviser": {"entry_point": "n"}}
    async with asyncio.timeout(20):
        run = await run_with(at, replace(at.config(Wishes(revise=True)), **plugged))  # type: ignore[arg-type]
    assert said in at.text(one(at.entries(run, "context.given")), "context")
    crashed = [e for e in at.entries(run, "answer.checked") if e.data["outcome"] == "crashed"]
    assert [e.data["check"] for e in crashed] == ["delivery", "verifier"]
    assert all(said in at.text(each, "detail") for each in crashed)
    assert at.answer(run) == RAMBLING


async def test_the_intent_judge_is_asked_only_when_the_answer_is_flagged() -> None:
    def drifts(exchange: Exchange) -> Said:
        return "Penguins live on the ice and eat fish." if who(exchange)[0] == "worker" else rambles(exchange)

    for says, asked in ((drifts, 1), (rambles, 0)):
        told = Answers(says)
        at = desk(told)
        run = (
            await at.runs.submit(
                "compare three message queue libraries for Python", at.config(Wishes(judge_intent=True)), lane="alpha"
            )
            if says is drifts
            else await at.runs.submit("please do the only thing", at.config(Wishes(judge_intent=True)))
        )
        assert (await at.runs.drive(run)).state == "answered"
        assert len(told.asked("intent_judge")) == asked
        judged = [e for e in at.entries(run, "answer.checked") if e.data["check"] == "intent_judge"]
        assert [entry.data["outcome"] for entry in judged] == ["flagged"] * asked
        audit(at.store, run)


@pytest.mark.parametrize(("max_calls", "why"), [(None, "the shelf is empty"), (2, "calls: 2 of 2 spent")])
async def test_an_answer_stands_where_nobody_can_say_whether_it_drifted(max_calls: int | None, why: str) -> None:
    def says(exchange: Exchange) -> Said:
        if who(exchange)[0] == "intent_judge":
            return fails("auth_failure", "the shelf is empty")
        return "Penguins live on the ice and eat fish." if who(exchange)[0] == "worker" else obliging(exchange)

    at = desk(Answers(says))
    wishes = Wishes(judge_intent=True, max_calls=max_calls)
    ended = await at.run("compare three message queue libraries for Python", wishes=wishes, lane="alpha")
    assert ended.state == "answered"
    judged = one([e for e in at.entries(ended.run, "answer.checked") if e.data["check"] == "intent_judge"])
    assert judged.data["outcome"] == "crashed"
    assert why in at.text(judged, "detail")


async def test_an_answer_with_code_is_looked_at_and_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"

    def codes(exchange: Exchange) -> Said:
        if who(exchange)[0] == "worker":
            return f"Here is the only thing:\n```python\nopen({str(trap)!r}, 'w')\nif x\n```\n"
        return obliging(exchange)

    at = desk(Answers(codes))
    run = await run_with(at, at.config())
    entry = one([e for e in at.entries(run, "answer.checked") if e.data["check"] == "code"])
    assert entry.data["outcome"] == "flagged"
    assert not trap.exists()


PROGRAM = """
import json, sys
asked = json.load(sys.stdin)
if asked["seam"] == "context":
    print("a program knows:", asked["task"] or asked["request"])
else:
    print(json.dumps({"outcome": "refused", "detail": asked["answer"][:20]}))
"""


async def test_a_program_is_a_context_source_and_a_verifier(tmp_path: Path) -> None:
    program = tmp_path / "seam.py"
    program.write_text(PROGRAM)
    argv = [sys.executable, "-I", "-S", str(program)]
    settings = Settings(
        ledger=str(tmp_path / "l.db"),
        state=tmp_path / "state",
        context=({"name": "program", "command": argv, "when": "both"},),
        verifier={"command": argv},
        environment={"PATH": "/usr/bin:/bin"},
    )
    told = Answers()
    async with Hansard.open(settings=settings, providers={"told": told}) as hansard:
        run = await hansard.submit("please", plan=plan(task("a", lane="backend")))
        assert (await run.ended()).state == "answered"
        entries = hansard.runs.entries(run.id)
    assert "a program knows: a" in user_text(told.asked("worker")[0])
    assert [e.data["outcome"] for e in entries if e.data.get("check") == "verifier"] == ["refused"]


LONG = """
import json, sys
if json.load(sys.stdin)["seam"] == "verifier":
    print(json.dumps({"outcome": "passed", "detail": "x" * (1 << 20)}))
else:
    print("Please do the only thing.", " " * (1 << 20), "and this.")
"""


async def test_the_password_of_a_proxy_that_a_verifier_is_given_is_not_recorded() -> None:
    at = desk(Answers(), settings={"environment": {"HTTPS_PROXY": "http://me:open-the-door@127.0.0.1:9"}})
    script = "import json, os; print(json.dumps({'outcome': 'abstained', 'detail': os.environ['HTTPS_PROXY']}))"
    run = await run_with(at, replace(at.config(), verifier={"command": [sys.executable, "-c", script]}))
    [checked] = [each for each in at.entries(run, "answer.checked") if each.data["check"] == "verifier"]
    assert at.text(checked, "detail") == "http://me:[secret HTTPS_PROXY]@127.0.0.1:9"


async def test_half_of_what_a_program_says_is_neither_a_revision_nor_a_verdict(tmp_path: Path) -> None:
    program = tmp_path / "long.py"
    program.write_text(LONG)
    argv = [sys.executable, "-I", "-S", str(program)]
    settings = Settings(
        ledger=str(tmp_path / "l.db"),
        state=tmp_path / "state",
        verifier={"command": argv},
        reviser={"command": argv},
        environment={"PATH": "/usr/bin:/bin"},
    )
    async with Hansard.open(settings=settings, providers={"told": Answers(rambles)}) as hansard:
        work = plan(task("a", lane="backend"))
        run = await hansard.submit("please do the only thing", plan=work, wishes=Wishes(revise=True))
        assert await run.answer() == RAMBLING
        checks = hansard.runs.show(run.id)["checks"]
    crashed = {each["check"]: each["detail"] for each in checks if each["outcome"] == "crashed"}
    assert set(crashed) == {"delivery", "verifier"}
    assert all("more than the 1,048,576 bytes" in said for said in crashed.values())


class Answering(http.server.BaseHTTPRequestHandler):
    said: ClassVar[bytes] = b'{"outcome": "passed", "detail": "by the book"}'

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}/"
        found.shutdown()


async def test_half_of_what_a_url_says_is_no_verdict(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answering, "said", b'{"outcome": "passed"}' + b" " * (4 << 20) + b"not that")
    at = desk(Answers())
    run = await run_with(at, replace(at.config(), verifier={"url": server}))
    [found] = [each for each in at.runs.show(run)["checks"] if each["check"] == "verifier"]
    assert (found["outcome"], "more than the 4,194,304 bytes" in found["detail"]) == ("crashed", True)


async def test_a_url_is_a_verifier_and_one_that_nobody_answers_is_not_fatal(server: str) -> None:
    for url, outcome in ((server, "passed"), ("http://127.0.0.1:9/", "crashed")):
        at = desk(Answers())
        run = await run_with(at, replace(at.config(), verifier={"url": url}))
        entry = one([e for e in at.entries(run, "answer.checked") if e.data["check"] == "verifier"])
        assert entry.data["outcome"] == outcome


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"name": "x"}, "one of command"),
        ({"name": "x", "command": "ls"}, "list of texts"),
        ({"name": "x", "url": ""}, "must be a text"),
        ({"name": "x", "url": "http://h/", "command": ["ls"]}, "one of command"),
        ({"name": "x", "url": "http://h/", "when": "noon"}, "when"),
        ({"name": "x", "url": "http://h/", "max_tokens": 0}, "max_tokens"),
        ({"name": "x", "url": "http://h/", "speed": 1}, "unknown key speed"),
        ({"name": "our wiki", "url": "http://h/"}, "name 'our wiki' cannot be recorded"),
        ({"name": "x" * 121, "url": "http://h/"}, "cannot be recorded"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_sources([row], "test")


async def test_a_seam_that_nobody_brings_is_a_mistake_of_usage_before_anything_is_recorded() -> None:
    at = desk(Answers())
    config = replace(at.config(), verifier={"entry_point": "ghost"})
    with pytest.raises(UsageError, match="ghost"):
        await at.runs.submit("please", config)
    assert list(at.store.lines()) == list(at.store.lines(0, 1))


async def test_a_secret_in_the_configuration_is_refused_before_anything_is_recorded() -> None:
    at = desk(Answers())
    at.pool.secrets.add("TOKEN", "a-long-secret-word")
    config = replace(at.config(), verifier={"url": "http://127.0.0.1:9/?token=a-long-secret-word"})
    with pytest.raises(UsageError, match="holds TOKEN in clear"):
        await at.runs.submit("please", config)
    assert list(at.store.lines()) == list(at.store.lines(0, 1))


async def test_a_capsule_of_an_earlier_run_is_context_for_the_next() -> None:
    told = Answers()
    at = desk(told)
    first = await at.run(plan=plan(task("a")))
    second = await run_with(at, at.config(Wishes(context=(first.run,))))
    given, again = at.entries(second, "context.given")
    assert (given.data.get("task"), again.data.get("task")) == (None, "only")
    assert at.text(again, "context") == at.text(given, "context")
    capsule = json.loads(at.text(given, "context"))
    assert (capsule["run"], capsule["state"], capsule["tasks"]) == (first.run, "answered", {"a": "passed"})
    assert capsule["results"][0]["output"] == "result of a, attempt 1"
    assert first.run in user_text(told.asked("coordinator")[0])
    assert first.run in user_text(told.asked("worker")[-1])


async def test_a_capsule_of_a_long_run_is_given_whole_in_any_script() -> None:
    said = {"worker": "结果" * 3_000, "synthesizer": "答案" * 5_000}
    at = desk(Answers(lambda e: said.get(who(e)[0]) or obliging(e)))
    first = await at.run("写出设计" * 4_000, plan=plan(*(task(f"t{number}") for number in range(20))))
    second = await at.run("go on", wishes=Wishes(context=(first.run,)), plan=plan(task("b")))
    [given] = at.entries(second.run, "context.given")
    assert given.data["admitted_tokens"] == given.data["offered_tokens"]
    capsule = json.loads(at.text(given, "context"))
    assert (len(capsule["results"]), len(capsule["tasks"])) == (8, 20)
    for text in (capsule["request"], capsule["answer"], capsule["results"][0]["output"]):
        assert text.endswith("more characters stand in the record]")


async def test_a_capsule_reaches_who_works_where_nobody_plans() -> None:
    told = Answers()
    at = desk(told)
    first = await at.run(plan=plan(task("a")))
    second = await run_with(at, at.config(Wishes(context=(first.run,))), lane="alpha")
    assert one(at.entries(second, "context.given")).data["task"] == "task"
    assert first.run in user_text(told.asked("worker")[-1])


async def test_last_is_the_run_before_and_an_unknown_run_is_refused() -> None:
    at = desk(Answers())
    first = await at.run(plan=plan(task("a")))
    second = await run_with(at, at.config(Wishes(context=("last",))))
    given, again = at.entries(second, "context.given")
    assert json.loads(at.text(given, "context"))["run"] == json.loads(at.text(again, "context"))["run"] == first.run
    with pytest.raises(UsageError, match="banana"):
        await at.runs.submit("please", at.config(Wishes(context=("banana",))))
