"""Long work as a task, by the extension io.modelcontextprotocol/tasks: a task is a run, and outlives its server."""

import json
from pathlib import Path
from typing import Any

from command_line import hansard
from ledgers import full_disk
from mcp_clients import Wire, eventually

SUBMIT = {"name": "submit", "arguments": {"request": "compare three queues"}}
SLOW = {"name": "submit", "arguments": {"request": "x", "lane": "backend"}}
GATED = {"name": "submit", "arguments": {"request": "compare three queues", "gates": ["plan"]}}


async def until(wire: Wire, task: str, *states: str) -> dict[str, Any]:
    """Ask for a task until it stands so."""

    async def look() -> dict[str, Any] | None:
        answer: dict[str, Any] = (await wire.modern("tasks/get", {"taskId": task}))["result"]
        assert answer["resultType"] == "complete"
        return answer if answer["status"] in states else None

    found: dict[str, Any] = await eventually(look)
    return found


async def test_a_submit_becomes_a_task_whose_id_is_the_run(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        made = (await wire.modern("tools/call", SUBMIT))["result"]
        assert made["resultType"] == "task"
        assert made["ttlMs"] is None
        assert made["pollIntervalMs"] > 0
        done = await until(wire, made["taskId"], "completed")
        assert done["createdAt"] == made["createdAt"]
        assert done["statusMessage"] == "answered"
        view = done["result"]["structuredContent"]
        assert (view["run"], view["state"]) == (made["taskId"], "answered")
        direct = (await wire.modern("tools/call", SUBMIT, extensions=()))["result"]
        assert direct["resultType"] == "complete", "who does not know of tasks is given none"


async def test_a_deliberation_becomes_a_task_too(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        call = {"name": "deliberate", "arguments": {"problem": "Keep our own mail server?"}}
        made = (await wire.modern("tools/call", call))["result"]
        done = await until(wire, made["taskId"], "completed")
        assert done["result"]["structuredContent"]["outcome"] == "synthesis"
        assert done["statusMessage"] == "answered: synthesis"


async def test_a_task_is_durable_before_it_is_named_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--cmd", "sleep 3600") as wire:
        task = (await wire.modern("tools/call", SLOW))["result"]["taskId"]
        await eventually(lambda: was_taken(wire, task, 1))
        wire.process.kill()
        await wire.process.wait()
    told = json.loads(hansard(tmp_path, "runs", "show", task, "--json", "--ledger", "ledger.db").stdout)
    assert told["run"] == task
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        assert (await until(wire, task, "working"))["status"] == "working"
        await eventually(lambda: was_taken(wire, task, 2))
        assert (await wire.modern("tasks/cancel", {"taskId": task}))["result"]["resultType"] == "complete"
        await until(wire, task, "cancelled")


async def was_taken(wire: Wire, run: str, times: int) -> bool:
    """Whether so many drivers took the run; asking for its task is what sets it going again."""
    await wire.modern("tasks/get", {"taskId": run})
    call = {"name": "run_follow", "arguments": {"run": run}}
    page: dict[str, Any] = (await wire.modern("tools/call", call))["result"]["structuredContent"]
    return [each["kind"] for each in page["entries"]].count("run.claimed") == times


async def test_a_task_that_is_cancelled_ends_cancelled_on_the_record(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--cmd", "sleep 3600") as wire:
        task = (await wire.modern("tools/call", SLOW))["result"]["taskId"]
        await wire.modern("tasks/cancel", {"taskId": task})
        ended = await until(wire, task, "cancelled")
        assert "result" not in ended
        assert (await wire.modern("tasks/cancel", {"taskId": task}))["result"]["resultType"] == "complete"
    told = json.loads(hansard(tmp_path, "runs", "show", task, "--json", "--ledger", "ledger.db").stdout)
    assert told["state"] == "cancelled"


async def test_who_cancels_a_task_where_nothing_can_be_recorded_is_told_so(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--cmd", "sleep 3600") as wire:
        task = (await wire.modern("tools/call", SLOW))["result"]["taskId"]
        await eventually(lambda: was_taken(wire, task, 1))
        with full_disk(str(tmp_path / "ledger.db")):
            said = await wire.modern("tasks/cancel", {"taskId": task})
            assert "disk is full" in said["error"]["message"]
        assert (await wire.modern("tasks/cancel", {"taskId": task}))["result"]["resultType"] == "complete"
        await until(wire, task, "cancelled")


async def test_a_task_asks_for_a_decision_and_goes_on_with_it(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal", "--allow-gates") as wire:
        task = (await wire.modern("tools/call", GATED))["result"]["taskId"]
        waiting = await until(wire, task, "input_required")
        [(key, form)] = waiting["inputRequests"].items()
        assert form["method"] == "elicitation/create"
        stray = {"nobody": {"action": "accept", "content": {"decision": "approve"}}}
        assert (await wire.modern("tasks/update", {"taskId": task, "inputResponses": stray}))["result"]
        assert (await until(wire, task, "input_required"))["inputRequests"].keys() == {key}
        wrong = {key: {"action": "accept", "content": {"decision": "maybe"}}}
        said = await wire.modern("tasks/update", {"taskId": task, "inputResponses": wrong})
        assert said["error"]["code"] == -32602
        answers = {key: {"action": "accept", "content": {"decision": "approve"}}}
        assert (await wire.modern("tasks/update", {"taskId": task, "inputResponses": answers}))["result"]
        assert (await until(wire, task, "completed"))["result"]["structuredContent"]["state"] == "answered"


async def test_without_the_grant_a_task_waits_and_says_where(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        task = (await wire.modern("tools/call", GATED))["result"]["taskId"]

        async def waiting() -> dict[str, Any] | None:
            found = await until(wire, task, "working")
            return found if "gate" in found["statusMessage"] else None

        view = await eventually(waiting)
        assert "inputRequests" not in view
        gate = view["statusMessage"].rpartition(" ")[2]
        answers = {gate: {"action": "accept", "content": {"decision": "approve"}}}
        assert (await wire.modern("tasks/update", {"taskId": task, "inputResponses": answers}))["result"]
        assert (await until(wire, task, "working"))["statusMessage"] == view["statusMessage"], "nothing was decided"


async def test_the_methods_refuse_what_the_extension_says_they_must(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        for task in ("nothing", "last", "01a1ddf5-68b5-78f0-a03f-979e532fb034", ""):
            for method in ("tasks/get", "tasks/cancel"):
                assert (await wire.modern(method, {"taskId": task}))["error"]["code"] == -32602
        assert (await wire.modern("tasks/get", {}))["error"]["code"] == -32602
        said = await wire.modern("tasks/get", {"taskId": "nothing"}, extensions=())
        assert said["error"]["code"] == -32021
        assert said["error"]["data"]["requiredCapabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        await wire.greet("2025-11-25")
        assert (await wire.ask("tasks/get", {"taskId": "nothing"}))["error"]["code"] == -32601
