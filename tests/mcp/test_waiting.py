"""What happens while a client waits: progress, cancellation, decisions at gates."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from hansard.app.serving.daemon import Daemon
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.orchestration.gates import read_rules
from hansard.store.base import Query
from hansard.surfaces.mcp.desk import Desk
from mcp_clients import called, client_of, desk_in, eventually, refused
from running import Answers, obliging

GENERATIONS = pytest.mark.parametrize("mode", ["auto", "legacy"])
PLAN = {"tasks": [{"id": name, "lane": "backend", "instruction": name} for name in ("one", "two", "three")]}


class Told:
    """Keeps the progress that a client is told of."""

    def __init__(self) -> None:
        self.counts: list[float] = []
        self.words: list[str] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.counts.append(progress)
        self.words.append(message or "")


@GENERATIONS
async def test_each_task_is_told_as_progress_that_only_grows(tmp_path: Path, mode: str) -> None:
    told = Told()
    async with desk_in(tmp_path) as desk, client_of(desk, mode) as client:
        await called(client, "submit", {"request": "x", "plan": PLAN}, progress_callback=told)
    assert sorted(told.counts) == [float(each) for each in range(1, len(told.counts) + 1)]
    for task in ("one", "two", "three"):
        assert sum(each.startswith(f"started {task}") for each in told.words) == 1
        assert sum(each.startswith(f"passed {task}") for each in told.words) == 1
    assert told.words[-1] == "ended answered"


@GENERATIONS
async def test_each_turn_is_told_as_progress_and_quoted_where_that_is_wished(tmp_path: Path, mode: str) -> None:
    plain, aloud = Told(), Told()
    async with desk_in(tmp_path) as desk, client_of(desk, mode) as client:
        asked = {"problem": "Keep our own mail server?"}
        held = await called(client, "deliberate", asked, progress_callback=plain)
        await called(client, "deliberate_streaming", asked, progress_callback=aloud)
    for agent in held["selected_agents"]:
        assert plain.words.count(f"round 1: {agent}, primary turn") == 1
        assert sum(each.startswith(f"round 1: {agent}, primary turn: [rehearsal]") for each in aloud.words) == 1


async def test_runs_that_go_on_at_once_are_told_to_their_own_clients(tmp_path: Path) -> None:
    heard = [Told(), Told()]
    plans = [{"tasks": [{"id": f"only-{at}", "lane": "backend", "instruction": "x"}]} for at in (0, 1)]
    async with desk_in(tmp_path) as desk, client_of(desk) as client, asyncio.TaskGroup() as group:
        for told, plan in zip(heard, plans, strict=True):
            asked = {"request": "x", "plan": plan}
            group.create_task(called(client, "submit", asked, progress_callback=told))
    for at, told in enumerate(heard):
        assert any(f"only-{at}" in each for each in told.words)
        assert not any(f"only-{1 - at}" in each for each in told.words)


async def until(desk: Desk, run: str, state: str) -> None:
    """Wait until the record says so."""
    await eventually(lambda: desk.hansard.runs.show(run)["state"] == state)


@GENERATIONS
async def test_a_call_that_is_cancelled_cancels_its_run(tmp_path: Path, mode: str) -> None:
    slow = Answers(pause_s=3600)
    async with desk_in(tmp_path, slow) as desk, client_of(desk, mode) as client:
        call = asyncio.create_task(client.call_tool("submit", {"request": "x", "plan": PLAN}))
        await slow.asked_times(1)
        [run] = [each["run"] for each in desk.hansard.runs.listed()]
        call.cancel()
        await until(desk, run, "cancelled")
        kinds = [each["kind"] for each in desk.hansard.runs.views(run)]
        assert "run.cancel_asked" in kinds
        assert "run.interrupted" not in kinds
        assert slow.in_flight["all"] == 0
        assert (await called(client, "status"))["broken"] is None


async def test_what_run_cancel_has_asked_for_is_carried_out_also_when_the_client_leaves_at_once(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    async with desk_in(tmp_path, slow) as desk:
        async with client_of(desk) as client:
            run = (await called(client, "submit", {"request": "x", "plan": PLAN, "wait": False}))["run"]
            await slow.asked_times(1)
            asking = asyncio.create_task(client.call_tool("run_cancel", {"run": run}))
            await eventually(lambda: "run.cancel_asked" in [each["kind"] for each in desk.hansard.runs.views(run)])
            asking.cancel()
        await desk.close()
        assert desk.hansard.runs.show(run)["state"] == "cancelled"


@pytest.mark.parametrize(
    ("name", "asked"),
    [("submit", {"request": "x", "plan": PLAN}), ("plan", {"request": "x"}), ("deliberate", {"problem": "x"})],
)
async def test_a_call_that_is_cancelled_while_its_run_is_put_on_the_record_cancels_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, asked: dict[str, Any]
) -> None:
    silent = Answers(pause_s=3600)
    async with desk_in(tmp_path, silent) as desk, client_of(desk) as client:
        recording, record_all = asyncio.Event(), desk.hansard.recorder.record_all

        async def slowly(*args: Any, **more: Any) -> Any:
            recording.set()
            await asyncio.sleep(0.2)
            return await record_all(*args, **more)

        monkeypatch.setattr(desk.hansard.recorder, "record_all", slowly)
        call = asyncio.create_task(client.call_tool(name, asked))
        await recording.wait()
        call.cancel()
        [run] = await eventually(lambda: [each["run"] for each in desk.hansard.runs.listed()])
        await until(desk, run, "cancelled")
        assert not silent.calls


async def test_a_call_that_is_cancelled_while_a_person_is_asked_cancels_its_run(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def thinks(_: Any, __: ElicitRequestParams) -> ElicitResult:
        asked.set()
        await asyncio.sleep(3600)
        raise AssertionError

    async with (
        desk_in(tmp_path, gates=True) as desk,
        client_of(desk, "legacy", elicitation_callback=thinks) as client,
    ):
        call = asyncio.create_task(client.call_tool("submit", GATED))
        await asked.wait()
        [run] = [each["run"] for each in desk.hansard.runs.listed()]
        call.cancel()
        await until(desk, run, "cancelled")


async def test_a_persona_that_is_cancelled_is_cancelled_on_the_record(tmp_path: Path) -> None:
    async with desk_in(tmp_path, wishes=Wishes(cmd="sleep 3600")) as desk, client_of(desk) as client:
        call = asyncio.create_task(client.call_tool("generate_persona", {"need": "law"}))
        [run] = await eventually(lambda: [each["run"] for each in desk.hansard.runs.listed(state="running")])
        await asyncio.sleep(0.3)
        call.cancel()
        await until(desk, run, "cancelled")


async def test_a_deliberation_that_is_cancelled_ends_with_user_cancel(tmp_path: Path) -> None:
    async with desk_in(tmp_path, wishes=Wishes(cmd="sleep 3600")) as desk, client_of(desk) as client:
        call = asyncio.create_task(client.call_tool("deliberate", {"problem": "x"}))
        await eventually(lambda: any(desk.hansard.ledger.show(kind="turn.asked")))
        [run] = [each["run"] for each in desk.hansard.runs.listed()]
        call.cancel()
        await until(desk, run, "cancelled")
        assert (await called(client, "run_show", {"run": run}))["termination_reason"] == "user_cancel"


async def test_a_server_that_goes_home_interrupts_and_the_run_goes_on_later(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def says(exchange: Exchange) -> Any:
        await held.wait()
        return obliging(exchange)

    first = Answers(says)
    async with desk_in(tmp_path, first) as desk:
        async with client_of(desk) as client:
            run = (await called(client, "submit", {"request": "x", "plan": PLAN, "wait": False}))["run"]
            await first.asked_times(1)
        desk.closing = True
    async with desk_in(tmp_path, Answers()) as desk, client_of(desk) as client:
        view = await called(client, "run_show", {"run": run})
        assert (view["state"], view["interrupted"]["by"]) == ("interrupted", "shutdown")
        assert (await called(client, "run_resume", {"run": run}))["state"] == "answered"
        assert "has ended" in await refused(client, "run_resume", {"run": run})


async def test_whoever_resumes_what_another_process_drives_is_told_so(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def says(exchange: Exchange) -> Any:
        await held.wait()
        return obliging(exchange)

    first = Answers(says)
    async with desk_in(tmp_path, first) as desk, client_of(desk) as driver:
        run = (await called(driver, "submit", {"request": "x", "plan": PLAN, "wait": False}))["run"]
        await first.asked_times(1)
        async with desk_in(tmp_path, Answers()) as other, client_of(other) as client:
            said = await refused(client, "run_resume", {"run": run})
            assert (
                said == f"run {run} is driven by another process, which goes on with it; run_follow tells how it goes"
            )
            assert not list(desk.hansard.store.select(Query(run=run, kind="run.resume_asked")))
        held.set()
        await until(desk, run, "answered")


async def test_a_daemon_that_drains_interrupts_a_call_and_cancels_nothing(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    async with desk_in(tmp_path, slow) as desk, client_of(desk) as client:
        call = asyncio.create_task(refused(client, "submit", {"request": "x", "plan": PLAN}))
        await slow.asked_times(1)
        await desk.hansard.runs.close()
        assert "was interrupted here; run_resume goes on" in await call
        [view] = desk.hansard.runs.listed()
        assert view["state"] == "interrupted"


@pytest.mark.parametrize("tool", ["generate_persona", "run_resume"])
async def test_in_a_daemon_every_run_waits_for_its_turn_and_is_counted(tmp_path: Path, tool: str) -> None:
    answers, free = Answers(), asyncio.Event()
    async with desk_in(tmp_path, answers) as desk, client_of(desk) as client:
        desk.daemon = daemon = Daemon(desk.hansard, lambda *_, **__: None, most=1)
        asked = {"need": "law"}
        if tool == "run_resume":
            config = run_config(desk.hansard.settings, desk.hansard.pool, desk.wishes)
            asked = {"run": await desk.hansard.runs.submit("x", config, lane="backend")}
        busy = asyncio.create_task(daemon.in_turn(free.wait()))
        call = asyncio.create_task(client.call_tool(tool, asked))
        await eventually(lambda: daemon.driving == 1)
        await asyncio.sleep(0.3)
        assert not answers.calls
        free.set()
        await busy
        await answers.asked_times(1)
        await call
        assert daemon.driving == 0


async def test_a_daemon_that_drains_interrupts_a_persona_and_cancels_nothing(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    async with desk_in(tmp_path, slow) as desk, client_of(desk) as client:
        desk.daemon = Daemon(desk.hansard, lambda *_, **__: None)
        call = asyncio.create_task(refused(client, "generate_persona", {"need": "law"}))
        await slow.asked_times(1)
        await desk.daemon.drain(0)
        assert "was interrupted here; run_resume goes on" in await call
        [view] = desk.hansard.runs.listed()
        assert view["state"] == "interrupted"


class Person:
    """Whoever sits behind a client, and what he does with each form."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers, self.forms = list(answers), list[str]()

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        self.forms.append(params.message)
        return self.answers.pop(0)


def decides(decision: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"decision": decision, "note": "as asked"})


GATED = {"request": "x", "plan": PLAN, "gates": ["plan", "task:two"]}


@GENERATIONS
async def test_a_person_is_asked_at_each_gate_and_the_run_goes_on(tmp_path: Path, mode: str) -> None:
    person = Person(decides("approve"), decides("approve"))
    steps: list[float] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, mode, elicitation_callback=person) as client,
    ):
        done = await called(client, "submit", GATED, progress_callback=told)
        assert done["state"] == "answered"
        assert len(person.forms) == 2
        assert '"one"' in person.forms[0], "the form shows what is to be decided"
        decided = [each for each in desk.hansard.runs.views(done["run"]) if each["kind"] == "gate.decided"]
        assert [each["data"]["decision"] for each in decided] == ["approve", "approve"]
    assert sorted(steps) == [float(each) for each in range(1, len(steps) + 1)], "they grow over both gates"


async def test_the_form_shows_the_results_that_a_task_would_be_given(tmp_path: Path) -> None:
    person = Person(decides("approve"))
    plan = {"tasks": [PLAN["tasks"][0], {**PLAN["tasks"][1], "needs": ["one"]}]}
    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, "legacy", elicitation_callback=person) as client,
    ):
        await called(client, "submit", {"request": "x", "plan": plan, "gates": ["task:two"]})
    assert "\n\nBuilt on the result of one:\n\nresult of one, attempt 1" in person.forms[0]


@GENERATIONS
async def test_what_is_no_character_is_spelled_out_where_a_person_is_asked(tmp_path: Path, mode: str) -> None:
    person = Person(decides("reject"))
    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, mode, elicitation_callback=person) as client,
    ):
        config = run_config(desk.hansard.settings, desk.hansard.pool, Wishes(provider="told", gates=("plan",)))
        plan = {"tasks": [{"id": "one", "lane": "backend", "instruction": "half \ud83d"}]}
        run = await desk.hansard.runs.submit("half \ud83d", config, plan=plan, surface="python")
        await called(client, "run_resume", {"run": run})
        [resource] = (await client.list_resources()).resources
    assert resource.title == "half \\ud83d"
    assert person.forms[0].encode()


@GENERATIONS
async def test_a_person_who_rejects_the_plan_ends_the_run(tmp_path: Path, mode: str) -> None:
    person = Person(decides("reject"))
    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, mode, elicitation_callback=person) as client,
    ):
        done = await called(client, "submit", GATED)
        assert (done["state"], done["reason"]) == ("failed", "gate_rejected")


@GENERATIONS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_closes_the_form_has_decided_nothing(tmp_path: Path, mode: str, action: Any) -> None:
    person = Person(ElicitResult(action=action))
    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, mode, elicitation_callback=person) as client,
    ):
        waiting = await called(client, "submit", GATED)
        assert waiting["state"] == "waiting"
        assert not desk.hansard.gates.listed()[0]["decisions"]


async def test_a_client_who_cannot_ask_is_told_that_the_run_waits(tmp_path: Path) -> None:
    async def nobody(*_: Any) -> ErrorData:
        return ErrorData(code=-1, message="nobody is here")

    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, "legacy", elicitation_callback=nobody) as client,
    ):
        waiting = await called(client, "submit", GATED)
        assert waiting["state"] == "waiting"


@GENERATIONS
@pytest.mark.parametrize("answer", [ElicitResult(action="cancel"), decides("approve")], ids=["closed", "approved"])
async def test_what_was_decided_elsewhere_while_the_form_was_open_is_waited_for(
    tmp_path: Path, mode: str, answer: ElicitResult
) -> None:
    async def late(_: Any, __: ElicitRequestParams) -> ElicitResult:
        [gate] = desk.hansard.gates.listed()
        await desk.hansard.gates.decide(gate["gate"], "approve")
        return answer

    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, mode, elicitation_callback=late) as client,
    ):
        done = await called(client, "submit", GATED | {"gates": ["plan"]})
        assert done["state"] == "answered"


@GENERATIONS
async def test_a_word_counts_though_somebody_else_spoke_while_the_form_was_open(tmp_path: Path, mode: str) -> None:
    async def second(_: Any, __: ElicitRequestParams) -> ElicitResult:
        [gate] = desk.hansard.gates.listed()
        assert not gate["decisions"], "he is asked once"
        await desk.hansard.gates.decide(gate["gate"], "approve", actor="human:ann")
        return decides("approve")

    async with (
        desk_in(tmp_path, Answers(), gates=True) as desk,
        client_of(desk, mode, elicitation_callback=second) as client,
    ):
        config = run_config(desk.hansard.settings, desk.hansard.pool, Wishes(provider="told"))
        both = replace(config, gates=read_rules([{"before": "plan", "needed": 2}], "test"))
        run = await desk.hansard.runs.submit("x", both, plan=PLAN, surface="python")
        assert (await called(client, "run_resume", {"run": run}))["state"] == "answered"


@GENERATIONS
async def test_without_the_grant_nobody_is_asked_and_nothing_is_decided(tmp_path: Path, mode: str) -> None:
    person = Person()
    async with (
        desk_in(tmp_path, Answers()) as desk,
        client_of(desk, mode, elicitation_callback=person) as client,
    ):
        waiting = await called(client, "submit", GATED)
        assert waiting["state"] == "waiting"
        assert not person.forms
        with pytest.raises(MCPError):
            await client.call_tool("gate_decide", {"gate": waiting["open_gates"][0], "decision": "approve"})


async def test_a_run_that_was_let_through_elsewhere_goes_on_by_itself(tmp_path: Path) -> None:
    async with desk_in(tmp_path, Answers()) as desk, client_of(desk) as client:
        waiting = await called(client, "submit", GATED | {"gates": ["plan"]})
        await desk.hansard.gates.decide(waiting["open_gates"][0], "approve")
        await until(desk, waiting["run"], "answered")


async def test_an_edit_at_a_gate_brings_no_programs(tmp_path: Path) -> None:
    plan = {"tasks": [{"id": "one", "lane": "backend", "instruction": "x", "checks": [{"command": ["true"]}]}]}
    async with desk_in(tmp_path, Answers(), gates=True) as desk, client_of(desk) as client:
        waiting = await called(client, "submit", GATED | {"gates": ["plan"]})
        edit = {"gate": waiting["open_gates"][0], "decision": "edit", "edit": json.dumps(plan)}
        assert "--allow-commands" in await refused(client, "gate_decide", edit)
        waiting = await called(client, "submit", GATED | {"gates": ["task:two"]})
        # An instruction runs nothing, whatever it looks like.
        await called(client, "gate_decide", edit | {"gate": waiting["open_gates"][0]})
        await until(desk, waiting["run"], "answered")
