"""Every tool, as the official client meets it in both generations of the protocol."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from hansard.app.ledgers.custody import pin_of
from hansard.app.setup.wishes import Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted
from hansard.surfaces.mcp.running import MAX_FOLLOWED
from hansard.surfaces.mcp.server import tools_of
from hansard.surfaces.mcp.tool import described
from ledgers import full_disk
from mcp_clients import asking, called, client_of, desk_in, eventually, refused

READS = {
    "runs_list", "run_show", "run_follow", "route", "status", "verify", "ledger_get", "causes", "summary",
    "ledger_state", "receipt", "gates_list", "get_run_summary", "list_personas",
}  # fmt: skip
RUNS = {
    "submit", "plan", "run_resume", "deliberate", "deliberate_streaming", "deliberate_adaptive", "deliberate_continue",
    "generate_persona",
}  # fmt: skip
CHANGES = {"run_cancel", "gate_decide"}
CONFIGS = Path(__file__).parent.parent.parent / "examples" / "configs"
GENERATIONS = pytest.mark.parametrize("mode", ["auto", "legacy"])


async def arguments(client: Client) -> dict[str, dict[str, Any]]:
    """Something to call each tool with."""
    done = await called(client, "submit", {"request": "compare three queues"})
    held = await called(client, "deliberate", {"problem": "Keep our own mail server?"})
    gated = {"request": "with care", "gates": ["plan"]}
    waiting = [await called(client, "submit", gated) for _ in range(3)]
    assert [each["state"] for each in waiting] == ["waiting"] * 3
    seq = {"seq": done["answer_seq"]}
    return {
        "submit": {"request": "compare three queues", "max_calls": 50, "judge": "checks"},
        "plan": {"request": "compare three queues"},
        "runs_list": {"limit": 2},
        "run_show": {"run": done["run"]},
        "run_follow": {"run": done["run"][:13]},
        "run_cancel": {"run": waiting[0]["run"]},
        "run_resume": {"run": waiting[1]["run"]},
        "gate_decide": {"gate": waiting[2]["open_gates"][0], "decision": "approve", "note": "fine"},
        "route": {"text": "fix the stylesheet of the login page"},
        "status": {},
        "verify": {"deep": True},
        "ledger_get": seq | {"part": "answer"},
        "causes": seq,
        "summary": {},
        "ledger_state": {"at": 3},
        "receipt": {"seq": 0},
        "gates_list": {},
        "deliberate": {"problem": "Keep our own mail server?", "max_rounds": 2, "max_total_tokens": 1_000_000},
        "deliberate_streaming": {"problem": "Keep our own mail server?", "panel": ["critic", "engineer"]},
        "deliberate_adaptive": {"problem": "Keep our own mail server?", "max_expansions": 1},
        "deliberate_continue": {"run": await asking(client), "answer": "the blue one", "provider": "rehearsal"},
        "generate_persona": {"need": "somebody who knows the law of mail"},
        "get_run_summary": {"run_dir": held["run_dir"]},
        "list_personas": {},
    }


@GENERATIONS
async def test_every_tool_can_be_called_and_gives_what_its_schema_says(tmp_path: Path, mode: str) -> None:
    async with desk_in(tmp_path, gates=True) as desk, client_of(desk, mode) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        for name, asked in (await arguments(client)).items():
            jsonschema.validate(asked, tools[name].input_schema)
            given = await called(client, name, asked)
            jsonschema.validate(given, tools.pop(name).output_schema or {})
            assert given
        assert not tools, "nobody called these"


async def test_every_tool_has_words_schemas_and_honest_hints(tmp_path: Path) -> None:
    async with desk_in(tmp_path, gates=True) as desk, client_of(desk) as client:
        tools = (await client.list_tools()).tools
    assert {each.name for each in tools} == READS | RUNS | CHANGES
    for each in tools:
        assert each.title
        assert each.description
        for schema in (each.input_schema, each.output_schema):
            assert schema is not None
            assert schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(schema)
        assert each.input_schema["additionalProperties"] is False
        assert each.annotations is not None
        assert each.annotations.read_only_hint is (each.name in READS)
        assert each.annotations.destructive_hint is (each.name in CHANGES)
        assert each.annotations.open_world_hint is (each.name in RUNS)


async def test_what_is_shown_as_text_is_what_is_shown_as_structure(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        result = await client.call_tool("status", {})
        [text] = result.content
        assert text.type == "text"
        assert json.loads(text.text) == result.structured_content


@GENERATIONS
async def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol(tmp_path: Path, mode: str) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk, mode) as client:
        for name in ("nothing", "gate_decide"):
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, {})
            assert caught.value.error.code == -32602
        assert await called(client, "status")


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("submit", {}, "request: Field required"),
    ("submit", {"request": " "}, "request"),
    ("submit", {"request": "x", "cmd": "rm -rf /"}, "cmd: Extra inputs are not permitted"),
    (
        "status",
        {str(each): 1 for each in range(1_001)},
        "status: arguments: it has 1,001 members; at most 1,000 are read",
    ),
    ("submit", {"request": "x", "max_calls": "many"}, "max_calls"),
    ("submit", {"request": "x", "lane": "nobody"}, "nobody"),
    ("submit", {"request": "x", "provider": "nobody"}, "there is no provider 'nobody'"),
    ("submit", {"request": "x", "plan": {"tasks": []}}, "the plan"),
    ("submit", {"request": "x", "gates": ["everywhere"]}, "write plan, task:ID or lane:NAME"),
    ("run_show", {"run": "never"}, "there is no run"),
    ("run_cancel", {"run": "never"}, "there is no run"),
    ("run_resume", {"run": "never"}, "there is no run"),
    ("ledger_get", {"seq": 10**9}, "1000000000"),
    ("ledger_get", {"seq": -1}, "seq"),
    ("ledger_get", {"seq": 0, "part": "soul"}, "has no part 'soul'"),
    ("causes", {"seq": 10**9}, "1000000000"),
    ("receipt", {"seq": 10**9}, "1000000000"),
    ("deliberate", {}, "there is no problem"),
    ("deliberate", {"problem": "x", "panel": ["nobody"]}, "nobody"),
    ("deliberate", {"config": {"agents": 7}}, "Config"),
    ("deliberate_continue", {"run": "never", "answer": "x"}, "there is no run"),
    ("get_run_summary", {"run_dir": "never"}, "never"),
]


async def test_a_mistake_is_told_as_a_result_that_can_be_read(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        for name, asked, said in MISTAKES:
            assert said in await refused(client, name, asked)
        assert await called(client, "status")


async def test_no_path_leads_out_of_the_projects_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to("/etc")
    async with desk_in(inside) as desk, client_of(desk) as client:
        for path in ("../outside", "/etc/passwd", "link/passwd", "a/../../outside", "~/../../outside/../.."):
            for name, asked in (
                ("verify", {"path": path}),
                ("get_run_summary", {"run_dir": path}),
                ("deliberate", {"problem": "x", "output_dir": path}),
            ):
                assert "outside of the project's folder" in await refused(client, name, asked)
        assert "should match pattern" in await refused(client, "verify", {"path": "a\0b"})
    assert not list((tmp_path / "outside").iterdir())


async def test_a_receipt_is_held_against_a_pin_and_never_against_a_file(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        (tmp_path / "pin").write_text(pin := pin_of(desk.hansard.store) or "")
        (tmp_path / "r").write_text((await called(client, "receipt", {"seq": 0}))["receipt"])
        for path in (None, "r"):
            asked = {"path": path} if path else {}
            assert (await called(client, "verify", asked | {"pin": pin}))["signed"]["keys"] == "pinned"
            told = await called(client, "verify", asked | {"pin": f"{pin[:-64]}{'0' * 64}"})
            assert (told["ok"], told["exit_code"]) == (False, 21)
            assert "pin: " in await refused(client, "verify", asked | {"pin": str(tmp_path / "pin")})
        assert "no witness has seen entry 0 yet" in await refused(client, "receipt", {"seq": 0, "cosigned": True})


async def test_a_plan_runs_no_programs_unless_that_was_allowed(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    task = {"id": "a", "lane": "backend", "instruction": "x", "checks": [{"command": ["touch", str(touched)]}]}
    asked = {"request": "x", "plan": {"tasks": [task]}, "judge": "checks", "answer": "join"}
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        assert "--allow-commands" in await refused(client, "submit", asked)
        assert not touched.exists()
    async with desk_in(tmp_path, commands=True) as desk, client_of(desk) as client:
        assert (await called(client, "submit", asked))["state"] == "answered"
        assert touched.exists()


async def test_without_a_provider_who_runs_something_is_told_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where an agent CLI is installed, it is asked.
    monkeypatch.setenv("PATH", str(tmp_path))
    async with desk_in(tmp_path, wishes=Wishes()) as desk, client_of(desk) as client:
        for tool, asked in (("submit", {"request": "x"}), ("deliberate", {"problem": "x"})):
            said = await refused(client, tool, asked)
            assert "nobody can be asked yet" in said
            assert "--" not in said


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("submit", {"request": "x", "lane": "nowhere"}, "lane: there is no lane"),
        ("submit", {"request": "x", "gates": ["somewhere"]}, "gates 'somewhere'"),
        ("plan", {"request": "x", "max_usd": "999999999"}, "max_usd: "),
        ("deliberate", {}, "config"),
        ("deliberate", {"problem": "x", "provider": "fake"}, "script"),
        ("deliberate_adaptive", {"problem": "x", "script": {}, "experts": ["law"]}, "instead of script"),
    ],
)
async def test_what_is_wrong_bears_the_name_that_the_caller_wrote(
    tmp_path: Path, tool: str, arguments: dict[str, Any], named: str
) -> None:
    async with desk_in(tmp_path, wishes=Wishes(provider="rehearsal", typed=True)) as desk, client_of(desk) as client:
        said = await refused(client, tool, arguments)
        assert named in said
        assert "--" not in said


async def test_a_caller_may_spend_less_than_the_flags_allow_and_never_more(tmp_path: Path) -> None:
    wishes = Wishes(provider="rehearsal", max_calls=20, max_usd="0.50")
    async with desk_in(tmp_path, wishes=wishes) as desk, client_of(desk) as client:
        for asked, calls, nano in (
            ({}, 20, 500_000_000),
            ({"max_calls": 1000, "max_usd": "10"}, 20, 500_000_000),
            ({"max_calls": 15, "max_usd": "0.1"}, 15, 100_000_000),
        ):
            given = (await called(client, "submit", {"request": "x", **asked}))["budget"]
            assert (given["max_calls"], given["max_cost_usd_nano"]) == (calls, nano)


async def test_a_request_is_shaped_as_with_the_flags(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        shape = {"judge_intent": True, "revise": True, "profile": "brief", "max_parallel": 3}
        run = await called(client, "submit", {"request": "x", "judge": "checks", **shape})
        [configured] = desk.hansard.ledger.show(run=run["run"], kind="run.configured")
        config = json.loads(desk.hansard.ledger.part(configured["seq"], "config"))
        assert config["judge_intent"] is config["revise"] is True
        assert (config["profile"], config["policy"]["max_parallel"]) == ("brief", 3)
        assert "profile 'chatty'; known are brief" in await refused(
            client, "submit", {"request": "x", "profile": "chatty"}
        )
        for wrong in ({"max_parallel": 0}, {"judge_intent": "yes"}, {"revise": 1}, {"profile": ""}):
            assert next(iter(wrong)) in await refused(client, "submit", {"request": "x", **wrong})


async def test_what_breaks_behind_a_tool_is_told_without_our_insides(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.close()
    async with client_of(desk) as client:
        for name in ("status", "summary", "runs_list"):
            said = await refused(client, name)
            assert "sqlite3" not in said
            assert "File" not in said


async def test_a_run_can_be_left_and_followed_to_its_end(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        tasks = [{"id": f"t{number}", "lane": "backend", "instruction": "do it"} for number in range(50)]
        asked = {"request": "compare fifty queues", "plan": {"tasks": tasks}, "wait": False}
        run = (await called(client, "submit", asked))["run"]
        # While it goes on, and once more when it has long ended.
        for _ in range(2):
            seen, after, state = list[int](), -1, ""
            while state != "answered":
                page = await called(client, "run_follow", {"run": run, "after": after})
                state, after = page["state"], page["after"]
                seen += [each["seq"] for each in page["entries"]]
            assert seen == [each["seq"] for each in desk.hansard.runs.views(run)]
            assert len(seen) > MAX_FOLLOWED


async def test_a_run_that_could_not_be_recorded_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.surfaces.mcp.desk.AGAIN_S", 0.1)
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        with full_disk(desk.hansard.store.place, when="NEW.kind = 'run.ended'"):
            asked = {"request": "compare two queues", "lane": "backend"}
            assert "disk is full" in await refused(client, "submit", asked)
        [run] = [each["run"] for each in (await called(client, "runs_list"))["runs"]]
        await eventually(lambda: desk.hansard.runs.show(run)["state"] == "answered")


async def test_runs_are_listed_page_by_page(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        made = [(await called(client, "plan", {"request": f"plan {number}"}))["run"] for number in range(5)]
        listed: list[str] = []
        page: dict[str, Any] = {"before": None}
        while not listed or page["before"] is not None:
            page = await called(client, "runs_list", {"limit": 2} | ({"before": page["before"]} if listed else {}))
            listed += [each["run"] for each in page["runs"]]
        assert listed == made[::-1]


async def test_gates_are_listed_page_by_page(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        asked = {"request": "with care", "gates": ["plan"]}
        waiting = [(await called(client, "submit", asked))["run"] for _ in range(5)]
        whole = await called(client, "gates_list")
        assert ([each["run"] for each in whole["gates"]], whole["after"]) == (waiting, None)
        listed: list[Any] = []
        page: dict[str, Any] = {"after": 0}
        while page["after"] is not None:
            page = await called(client, "gates_list", {"limit": 2, "after": page["after"]})
            assert len(page["gates"]) <= 2
            listed += page["gates"]
        assert listed == whole["gates"]
        for wrong in (0, 501):
            assert "limit" in await refused(client, "gates_list", {"limit": wrong})


async def test_the_runs_of_a_state_are_listed_page_by_page_as_of_one_moment(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        for number in range(5):
            await called(client, "plan", {"request": f"plan {number}"})
        whole = await called(client, "ledger_state")
        listed: list[Any] = []
        page: dict[str, Any] = {"after": 0}
        while page["after"] is not None:
            page = await called(client, "ledger_state", {"at": whole["at"], "limit": 2, "after": page["after"]})
            assert {**page, "runs": [], "after": None} == {**whole, "runs": []}
            listed += page["runs"]
            await called(client, "plan", {"request": "meanwhile"})
        assert (len(listed), listed) == (5, whole["runs"])


async def test_what_json_calls_a_whole_number_is_one(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        asked = {"problem": "why?", "panel": ["critic"], "max_rounds": 2.0, "max_total_tokens": 90_000.0}
        run = (await called(client, "deliberate", asked))["run"]
        assert (await called(client, "ledger_get", {"seq": 1.0}))["seq"] == 1
        assert len((await called(client, "runs_list", {"limit": 1.0}))["runs"]) == 1
        assert (await called(client, "run_follow", {"run": run, "after": -1.0}))["entries"]
        assert "limit" in await refused(client, "runs_list", {"limit": 1.5})


async def test_what_is_refused_names_tools_and_no_path_of_ours(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        held = await called(client, "deliberate", {"problem": "Keep our own mail server?"})
        nobody = "01a1f34b-b6c2-781d-9fed-a8b303ed5197"
        for name, asked, said in (
            ("run_show", {"run": nobody}, "in this ledger; `runs_list` shows them"),
            ("ledger_get", {"seq": 99_999}, "no entry 99999 in this ledger"),
            ("run_cancel", {"run": held["run"]}, "`deliberate_continue` goes on from a session"),
        ):
            told = await refused(client, name, asked)
            assert (said in told, str(tmp_path) in told, "--ledger" in told) == (True, False, False), told


async def test_a_state_that_no_run_can_be_in_is_refused(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        assert "'answered'" in await refused(client, "runs_list", {"state": "nonsense"})


async def test_a_plan_that_comes_with_a_lane_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    plan = {"tasks": [{"id": "one", "lane": "backend", "instruction": "do it"}]}
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        for more in ({"lane": "frontend"}, {"single": True}):
            assert "contradicts" in await refused(client, "submit", {"request": "x", "plan": plan, **more})
        assert (await called(client, "runs_list"))["runs"] == []


async def test_a_plan_that_nobody_makes_comes_with_the_reason(tmp_path: Path) -> None:
    babbles = Scripted(Script.of({"on_exhaustion": "loop", "entries": [{"text": "a fine plan"}]}), id="babbles")
    async with desk_in(tmp_path, babbles) as desk, client_of(desk) as client:
        made = await called(client, "plan", {"request": "compare three queues"})
        assert (made["state"], made["reason"], made["plan"]) == ("failed", "coordinator_silent", None)
        assert (made["unusable"]["role"], made["unusable"]["said"]) == ("coordinator", "a fine plan")


async def test_a_plan_that_was_given_is_taken_back(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        plan = (await called(client, "plan", {"request": "compare three queues"}))["plan"]
        done = await called(client, "submit", {"request": "compare three queues", "plan": plan})
        assert (done["state"], done["mode"]) == ("answered", "plan")
        assert [each["task"] for each in done["tasks"]] == [each["id"] for each in plan["tasks"]]


async def test_a_configuration_and_its_script_come_inline(tmp_path: Path) -> None:
    config, script = (
        json.loads((CONFIGS / name).read_text()) for name in ("walking-skeleton.json", "walking-skeleton.script.json")
    )
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        held = await called(client, "deliberate", {"config": config, "script": script, "output_dir": "sessions"})
        assert held["outcome"] == "synthesis"
        assert Path(held["run_dir"]).parent == tmp_path / "sessions"
        for name in ("synthesis_answer", "selected_agents", "transcript_digest", "cumulative_usage", "rounds"):
            assert held[name]
        kept = await called(client, "get_run_summary", {"run_dir": held["run_dir"]})
        assert kept["digest_replay_ok"]
        assert kept["transcript_digest"] == held["transcript_digest"]


async def test_sessions_have_their_directories_where_the_server_has_them(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    held_in = tmp_path / "sessions"
    async with desk_in(tmp_path / "project", sessions=held_in) as desk, client_of(desk) as client:
        for asked, place in ({}, held_in), ({"output_dir": "mine"}, tmp_path / "project" / "mine"):
            held = await called(client, "deliberate", {"problem": "x", **asked})
            assert Path(held["run_dir"]).parent == place
            assert (await called(client, "get_run_summary", {"run_dir": held["run_dir"]}))["digest_replay_ok"]
        assert "outside" in await refused(client, "get_run_summary", {"run_dir": str(held_in.parent)})
        assert not (tmp_path / "project" / "runs").exists()


async def test_the_gates_of_a_run_are_found_as_the_run_is(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        run = (await called(client, "submit", {"request": "x", "gates": ["plan"]}))["run"]
        for name in (run, run[:20], "last"):
            [gate] = (await called(client, "gates_list", {"run": name}))["gates"]
            assert gate["run"] == run
        assert "there is no run 'nobody'" in await refused(client, "gates_list", {"run": "nobody"})


async def test_the_tools_are_described_once_for_all_who_list_them(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        first, second = await client.list_tools(), await client.list_tools()
        assert first.tools == second.tools
        for each in tools_of(desk):
            assert described(each) is described(each)
