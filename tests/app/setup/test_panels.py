"""Panels and personas as files: what is read, what is refused, who pays, and what a check finds."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deliberating import config, fails, script
from hansard.app.archived.evaluating import Problem, compared, evaluated, find_held, read_problems, short
from hansard.app.pool import Pool
from hansard.app.service import Hansard
from hansard.app.settings import Settings, read_settings
from hansard.app.setup.convening import Call, convening, default_config
from hansard.app.setup.panels import panel_of, personas_of
from hansard.app.setup.panelviews import check_view, panel_view, panels_view, personas_list
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Completion, Cost, CostBasis, Exchange
from hansard.errors import UsageError
from panels import Voices, agreeing, synthesis, verdict
from shell import Shell

LAWYER = """
persona_class = "domain"
reasoning_scope = "data protection law"
reasoning_style = "careful and literal"
behavioral_constraints = ["Cite the article."]
failure_modes = ["Sees a risk in everything."]
domain_scope = ["privacy"]
forbidden_domains = ["cryptography"]
must_delegate = {cryptography = "engineer"}
"""
PANEL = """
agents = ["lawyer", "critic"]
provider = "voices"
max_rounds = 2
providers = {critic = "voices:large"}
"""


def project(folder: Path, panel: str = PANEL, persona: str = LAWYER, more: str = "") -> Settings:
    (folder / "panels").mkdir()
    (folder / "personas").mkdir()
    (folder / "panels" / "bench.toml").write_text(panel, "utf-8")
    (folder / "personas" / "lawyer.toml").write_text(persona, "utf-8")
    (folder / "hansard.toml").write_text(f'ledger = "log.db"\n{more}', "utf-8")
    return read_settings(environ={"HANSARD_STATE": str(folder / "state")}, folder=folder)


def test_a_panel_and_a_persona_are_files_beside_hansard_toml(tmp_path: Path) -> None:
    settings = project(tmp_path)
    plan = panel_of(settings, "bench")
    assert [(seat.persona.id, seat.target) for seat in plan.seats] == [("lawyer", "voices"), ("critic", "voices:large")]
    assert plan == panel_of(settings, "panel:bench")
    assert [each["name"] for each in panels_view(settings)] == ["bench"]
    assert {"id": "lawyer", "class": "domain", "scope": "data protection law", "shipped": False} in personas_list(
        settings
    )


def test_whoever_names_a_panel_that_is_not_there_learns_beside_what_to_write_it(shell: Shell) -> None:
    project(shell.folder)
    (shell.folder / "hansard.toml").unlink()
    assert "panels/NAME.toml beside it" in shell.type("panel")[1]
    shell.type("panel", "show", "bench")
    assert "panels/bench.toml beside it" in shell.err


def test_a_persona_of_the_project_goes_before_the_one_that_ships(tmp_path: Path) -> None:
    settings = project(tmp_path)
    own = LAWYER.replace("data protection law", "ours")
    (tmp_path / "personas" / "critic.toml").write_text(own.replace("domain_scope", "domain_scope"), "utf-8")
    found = personas_of(settings).get("critic")
    assert found is not None
    assert found.reasoning_scope == "ours"
    assert len(personas_of(settings)) == 7


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"persona": "reasoning_scope = 3"}, "lawyer.toml"),
        ({"persona": "not toml"}, "lawyer.toml"),
        ({"persona": f'id = "critic"\n{LAWYER}'}, "lawyer.toml: this persona is called lawyer, and its id is 'critic'"),
        ({"persona": LAWYER.replace('"engineer"}', '"engineer", tax = "critic"}')}, "same domains"),
        ({"panel": 'agents = ["lawyer", "nobody"]'}, "personas/nobody.toml"),
        ({"panel": 'providers = {nobody = "x"}'}, "agents of the panel"),
        ({"panel": "max_usd = -1"}, "max_usd"),
        ({"panel": "max_usd = 1e300"}, "at most 9,007,199"),
        ({"panel": f"max_seconds = {10**20}"}, "max_seconds must be a whole number from 1 to 1,000,000,000,000,000"),
        ({"panel": f"max_rounds = {10**400}"}, "max_rounds must be a whole number from 1 to "),
        ({"panel": 'agents = ["critic", "coordinator"]'}, "'coordinator' is the coordinator"),
        ({"panel": "zork = 1"}, "known are .*max_calls"),
        ({"panel": "agents = []"}, "list of personas"),
        ({"more": '[panels.bench]\nagents = ["critic"]'}, "keep one of them"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_the_file(tmp_path: Path, files: dict[str, str], said: str) -> None:
    settings = project(tmp_path, **files)
    with pytest.raises(UsageError, match=said):
        panel_of(settings, "bench")


def test_a_broken_panel_keeps_nobody_from_looking_at_the_ledger(tmp_path: Path) -> None:
    assert project(tmp_path, panel="not toml").ledger.endswith("log.db")


def test_a_check_finds_overlap_gaps_and_delegations_to_nobody(tmp_path: Path) -> None:
    twin = LAWYER.replace("data protection law", "adversarial-scrutiny")
    settings = project(tmp_path, persona=twin)
    found = check_view(settings, "bench")
    assert found["overlap"][0]["agents"] == ["lawyer", "critic"]
    missing = [each["missing"] for each in found["gaps"]]
    assert missing == [
        *("formal-structural", "lateral-creative", "evidence-based", "implementation-feasibility"),
        "engineer",
    ]
    assert found["ok"] is False


def test_the_default_panel_has_neither_overlap_nor_gaps(tmp_path: Path) -> None:
    settings = project(tmp_path, panel='provider = "voices"')
    assert check_view(settings, "bench")["ok"] is True


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[providers.voices]\nkind = "openai"\nmodel = "nobody-knows"', "not known here"),
        ('[providers.voices]\nkind = "openai"\nmodel = "nobody-knows"\nunmetered = true', "nobody sends a bill"),
        ('[providers.voices]\nkind = "claude-cli"', "estimates, not bills"),
        ('[providers.voices]\nkind = "command"\nargv = ["x"]', "a program of yours"),
        ('[providers.voices]\nkind = "replayed"\nrecording = "x"', "nobody is asked"),
        ('[providers.voices]\nkind = "of-a-plugin"', "a provider of kind 'of-a-plugin'"),
        ("", "not configured; write [providers.voices]"),
    ],
)
def test_who_pays_for_a_seat_is_said_in_plain_words(tmp_path: Path, more: str, said: str) -> None:
    view = panel_view(project(tmp_path, more=more), "bench")
    assert said in view["seats"][0]["billing"]


@pytest.mark.parametrize(
    ("more", "asks", "pays"),
    [
        (
            '[roles]\ndefault = "cloud:m"\n[providers.cloud]\nkind = "openai"\nmodel = "m"',
            "cloud:m, unless a run or a flag names another",
            "its price is not known here",
        ),
        (
            '[providers.mine]\nkind = "command"\nargv = ["x"]',
            "mine, unless a run or a flag names another",
            "a program of yours",
        ),
        ('[roles]\ndefault = "panel:bench"', "whomever a run or a flag names", "who pays is not known here"),
        ("", "whomever a run or a flag names", "who pays is not known here"),
    ],
)
def test_a_seat_for_which_nobody_is_named_shows_whom_it_asks_by_default(
    tmp_path: Path, more: str, asks: str, pays: str
) -> None:
    seat = panel_view(project(tmp_path, panel='agents = ["critic"]', more=more), "bench")["seats"][0]
    assert (seat["asks"], pays in seat["billing"]) == (asks, True)


def test_a_panel_that_is_named_without_its_prefix_is_told_how_it_is_called(tmp_path: Path) -> None:
    settings = project(tmp_path, panel='agents = ["critic"]')
    call = Call(problem="Keep it?", panel=["bench"], wishes=Wishes(provider="rehearsal"))
    with pytest.raises(UsageError, match="the panel of that name is called panel:bench"):
        convening(settings, Pool(settings), call)


def test_a_rehearsal_is_paid_by_nobody(tmp_path: Path) -> None:
    view = panel_view(project(tmp_path, panel='agents = ["critic"]\nprovider = "rehearsal"'), "bench")
    assert "nobody is asked" in view["seats"][0]["billing"]


def test_cli_auto_gives_the_visionary_a_voice_of_its_own(tmp_path: Path) -> None:
    settings = project(tmp_path, panel='agents = ["visionary", "critic"]\nprovider = "cli-auto"')
    seats = {seat["agent"]: seat["billing"] for seat in panel_view(settings, "bench")["seats"]}
    assert seats["visionary"].startswith("Codex")
    assert seats["critic"].startswith("Claude")


async def test_a_panel_by_name_is_convened_whole(tmp_path: Path) -> None:
    settings = project(tmp_path)
    pool = Pool(settings, {"voices": Voices()})
    made = convening(settings, pool, Call(problem="Keep it?", panel=["panel:bench"]))
    assert [agent.id for agent in made.config.agents] == ["lawyer", "critic"]
    assert made.config.agents[1].model == "large"
    assert made.config.problem_statement == "Keep it?"
    assert made.config.budget.max_rounds == 2


async def test_personas_of_the_project_sit_on_the_default_panel_and_beside_it(tmp_path: Path) -> None:
    settings = project(tmp_path)
    (tmp_path / "personas" / "critic.toml").write_text(LAWYER.replace("data protection law", "ours"), "utf-8")
    pool = Pool(settings, {"voices": Voices()})

    def seated(panel: list[str] | None) -> tuple[list[str], list[Any]]:
        call = Call(problem="Keep it?", panel=panel, wishes=Wishes(provider="voices"))
        config = convening(settings, pool, call).config
        return list(config.selector.default_deliberation_panel), [agent.as_data() for agent in config.agents]

    usual, agents = seated(None)
    assert usual == [agent["id"] for agent in agents] == ["logician", "visionary", "researcher", "critic", "engineer"]
    assert [agent["persona_ref"] for agent in agents[:3]] == ["logician", "visionary", "researcher"]
    assert agents[3]["persona_ref"]["reasoning_scope"] == "ours"
    named, agents = seated(["lawyer", "critic"])
    assert (named, agents[-1]["persona_ref"]["reasoning_scope"]) == (["lawyer", "critic"], "data protection law")
    for stranger in ("nobody", "coordinator"):
        with pytest.raises(UsageError, match=f"no agent '{stranger}' for the panel; there are .*engineer, lawyer"):
            seated(["critic", stranger])
    with pytest.raises(UsageError, match="'critic' stands twice"):
        seated(["critic", "lawyer", "critic"])


async def sessions(folder: Path, says: Any = agreeing) -> tuple[Hansard, Any]:
    settings = project(folder)
    hansard = Hansard.open(settings=settings, providers={"voices": Voices(says)})
    return hansard, convening(settings, hansard.pool, Call(problem="?", panel=["panel:bench"]))


async def test_a_panel_is_tried_on_a_set_of_problems_and_measured_from_the_record(tmp_path: Path) -> None:
    def says(exchange: Exchange) -> Any:
        about = "".join(message.content for message in exchange.messages)
        if exchange.schema_name == "verdict" and "needs more" in about:
            return verdict("request_external_research", external_research_request={"query": "what?"})
        return agreeing(exchange)

    hansard, made = await sessions(tmp_path, says)
    lines = ["a plain one", json.dumps({"id": "two", "problem": "rate?", "expect": "TEN"}), "needs more"]
    (tmp_path / "set.txt").write_text("\n".join([*lines, json.dumps({"problem": "x", "expect": "eleven"})]), "utf-8")
    async with hansard:
        view = await evaluated(hansard.deliberations, hansard.store, made, read_problems(tmp_path / "set.txt"))
        rows = view["problems"]
        assert [row["problem"] for row in rows] == ["1", "two", "3", "4"]
        assert [row["passed"] for row in rows] == [None, True, None, False]
        assert [row["outcome"] for row in rows][2] == "external_research_required"
        # Three sessions of four calls and one of three, each of fifteen tokens.
        assert view["summary"]["tokens"] == 15 * (3 * 4 + 3) / 4
        assert (view["summary"]["syntheses"], view["summary"]["passed"], view["summary"]["judged"]) == (3, 1, 2)
        again = find_held(rows[0]["run"], tmp_path, hansard.store)
        assert short(again)["tokens"] == 60


@pytest.mark.parametrize(
    ("expect", "answer", "passed"),
    [
        (None, "ten", None),
        ("TEN", "often", True),
        ("ten", None, False),
        ("cafe\u0301", "Das CAF\u00c9.", True),
        ("Straße", "STRASSE", True),
    ],
)
def test_an_answer_is_told_by_its_letters_and_not_by_their_bytes(
    expect: str | None, answer: str | None, passed: bool | None
) -> None:
    assert Problem(id="1", text="?", expect=expect).passed(answer) is passed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"problem": ""}',
        '{"problem": "x", "expect": 3}',
        '{"problem": "x", "expect": ""}',
        '{"problem": "x", "expect": " "}',
        '{"problem": "x", "problem": "y"}',
        "{",
        'fine\n{"problem": "\\ud800"}',
    ],
)
def test_a_set_of_problems_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "set.txt").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"set\.txt"):
        read_problems(tmp_path / "set.txt")


def test_a_line_of_a_set_ends_at_its_line_end_only_and_0_is_an_id_like_any_other(tmp_path: Path) -> None:
    rows = [{"id": 0, "problem": "one\u2028two\x85three"}, {"problem": "x"}]
    lines = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "set.jsonl").write_bytes(lines.encode())
    found = [(each.id, each.text) for each in read_problems(tmp_path / "set.jsonl")]
    assert found == [("0", "one\u2028two\x85three"), ("2", "x")]


async def test_two_sessions_are_compared_in_figures_answers_and_what_they_left_open(tmp_path: Path) -> None:
    answers = iter([synthesis("A", {"topic": "t", "positions": [{"agent": "critic", "claim": "c"}]}), synthesis("B")])

    def says(exchange: Exchange) -> Any:
        return next(answers) if exchange.schema_name == "synthesis_content" else agreeing(exchange)

    hansard, made = await sessions(tmp_path, says)
    async with hansard:
        runs = [await hansard.deliberations.convene(made) for _ in range(2)]
        for run in runs:
            await hansard.deliberations.hold(run)
        one, other = (find_held(run, tmp_path, hansard.store) for run in runs)
        view = compared(one, other)
        assert (view["same_answer"], view["settled_in_b"], view["open_in_b"]) == (False, ["t"], [])
        assert view["more_in_b"]["tokens"] == 0
        assert compared(one, one)["same_transcript"] is True


@pytest.mark.parametrize(("basis", "lacking"), [("unmetered", 0), ("unknown", 4)])
async def test_a_session_that_cost_nothing_is_told_from_one_whose_cost_nobody_knows(
    basis: CostBasis, lacking: int, tmp_path: Path
) -> None:
    class Unpriced(Voices):
        """A server that says nothing of money."""

        async def complete(self, exchange: Exchange) -> Completion:
            return replace(await super().complete(exchange), cost=Cost(usd_nano=0, basis=basis))

    settings = project(tmp_path)
    async with Hansard.open(
        settings=settings, providers={"voices": Unpriced(unmetered=basis == "unmetered")}
    ) as hansard:
        call = Call(config=default_config("Keep it?", "voices", "voice"), panel=["critic", "engineer"], runs=tmp_path)
        run = await hansard.deliberations.convene(convening(settings, hansard.pool, call))
        await hansard.deliberations.hold(run)
        for name in (run, str(hansard.deliberations.show(run)["run_dir"])):
            held = find_held(name, tmp_path, hansard.store)
            row = compared(held, held)["a"]
            assert (row["cost_usd"], row["calls_without_price"]) == (0, lacking)
        assert compared(held, replace(held, events=None))["b"]["calls_without_price"] is None


def test_two_sessions_without_an_answer_have_not_the_same_one(shell: Shell) -> None:
    for name, problem in (("a", "one"), ("b", "another")):
        made = json.dumps(config().as_data() | {"session_id": name, "problem_statement": problem})
        (shell.folder / f"{name}.json").write_text(made, "utf-8")
        (shell.folder / "script.json").write_text(json.dumps(script([fails("auth_failure")]).as_data()), "utf-8")
        assert shell.type("deliberate", "--config", f"{name}.json", "--script", "script.json")[0] == 11
    assert shell.type("session", "compare", "a", "b")[1].endswith("\nneither has an answer\n")
    assert shell.asks("session", "compare", "a", "b")["same_answer"] is False


def test_panels_and_sessions_on_the_command_line(shell: Shell) -> None:
    project(shell.folder, panel='agents = ["lawyer", "critic"]\nprovider = "rehearsal"')
    assert "bench" in shell.type("panel", "list")[1]
    assert "lawyer" in shell.type("panel", "show", "bench")[1]
    assert shell.type("panel", "check", "bench")[0] == 1
    (shell.folder / "panels" / "odd.toml").write_text('agents = ["critic"]\ncoordinator = "critic"', "utf-8")
    shell.type("panel", "check", "odd")
    assert "'critic' is the coordinator" in shell.err
    (shell.folder / "panels" / "odd.toml").unlink()
    shell.type("panel", "show", "x")
    assert "no panel 'x'" in shell.err
    view = shell.asks("deliberate", "Keep it?", "--panel", "panel:bench", "--provider", "rehearsal")
    assert view["selected_agents"] == ["lawyer", "critic"]
    assert shell.type("session", "export", view["session_id"], "--html", "-o", "page.html")[0] == 0, shell.err
    assert (shell.folder / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert shell.asks("session", "postmortem", view["run"])["scope_violations"] == []
    assert "same transcript" in shell.type("session", "compare", view["run"], view["run"])[1]
    (shell.folder / "set.txt").write_text("one\ntwo\n", "utf-8")
    tried = shell.asks("session", "eval", "set.txt", "--provider", "rehearsal", "--panel", "panel:bench")
    assert tried["summary"]["sessions"] == 2
    assert json.loads(shell.type("session", "metrics", view["run"], "--v1")[1])["failures_per_agent"] == {}


def test_figures_of_several_sessions_say_what_they_are_figures_of(shell: Shell) -> None:
    project(shell.folder)
    (shell.folder / "set.txt").write_text("one\ntwo\n", "utf-8")
    asked = ("--provider", "rehearsal", "--panel", "panel:bench")
    told = shell.type("session", "eval", "set.txt", *asked)[1].splitlines()
    assert [" 1 round " in line for line in told[:2]] == [True, True]
    tokens = [int(line.split("round")[1].split()[0].replace(",", "")) for line in told[:2]]
    said = dict(line.split(maxsplit=1) for line in told[2:])
    assert (said["sessions"], said["rounds"]) == ("2", "1 a session")
    assert said["tokens"] == f"{sum(tokens) / 2:,.10g} a session"
    failed = shell.asks("deliberate", "Keep it?", "--cmd", "true", "--panel", "panel:bench")
    compared = shell.type("session", "compare", failed["run"], failed["run"])[1]
    assert "None" not in compared


NONE = '"resolved_disagreements": [], "unresolved_disagreements": []'
ASKING = f"""\
import sys
asked = sys.stdin.read()
if "integrated_answer" in asked:
    print('{{"integrated_answer": "Forty-two.", {NONE}}}')
elif "next_action" in asked:
    action, more = "finalize", ""
    if "CONTINUATION" not in asked:
        action, more = "request_user_input", '"user_input_request": {{"question": "how many?"}},'
    print('{{"next_action": "' + action + '",' + more + ' "rationale": "r", "confidence": 0.5, "focus": "f", "next_agents": [], {NONE}}}')
else:
    print('{{"text": "I think so."}}')
"""


def test_a_users_answer_on_the_command_line_goes_on_in_a_new_session(shell: Shell) -> None:
    project(shell.folder)
    (shell.folder / "asking.py").write_text(ASKING, "utf-8")
    code, said = shell.type("deliberate", "Keep it?", "--panel", "critic", "--cmd", f"python3 {shell.folder}/asking.py")
    assert code == 14, shell.err
    assert "--continue" in said
    assert shell.type("deliberate", "--answer", "x") == (2, "")
    assert "--continue" in shell.err
    (shell.folder / "answer.txt").write_text("forty", "utf-8")
    code, said = shell.type("deliberate", "--continue", "last", "--answer", "answer.txt")
    assert code == 0, shell.err
    assert said.startswith("Forty-two.")
    chain = shell.asks("session", "chain", "last")
    assert [each.get("termination_reason") for each in chain["sessions"]] == ["user_input_required", None]


def test_the_files_of_the_page_are_read_as_they_stand(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "panels.md").read_text("utf-8")
    blocks = dict(re.findall(r"^```toml\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    settings = project(tmp_path, panel=blocks["panels/bench.toml"], persona=blocks["personas/lawyer.toml"])
    plan = panel_of(settings, "bench")
    assert [seat.target for seat in plan.seats] == ["cloud", "cloud", "cloud:gpt-4.1"]
    assert plan.most_calls == 20


RESEARCH = ASKING.replace('"request_user_input"', '"request_external_research"').replace(
    '"user_input_request": {"question": "how many?"}', '"external_research_request": {"query": "what do others do?"}'
)
EXPERT = (
    '{"id": "historian", "reasoning_scope": "s", "reasoning_style": "t", "behavioral_constraints": ["b"], '
    '"failure_modes": ["f"], "output_requirements": [], "domain_scope": [], "delegates": []}'
)
MAKING = RESEARCH.replace(
    'if "integrated_answer"', f'if "Describe the expert" in asked:\n    print(\'{EXPERT}\')\nelif "integrated_answer"'
)


def test_an_adaptive_deliberation_on_the_command_line_goes_on_with_an_expert(shell: Shell) -> None:
    project(shell.folder)
    (shell.folder / "making.py").write_text(MAKING, "utf-8")
    command = f"python3 {shell.folder}/making.py"
    view = shell.asks("deliberate", "Keep it?", "--panel", "critic", "--cmd", command, "--adaptive")
    assert view["selected_agents"] == ["critic", "historian"]
    chain = shell.type("session", "chain", "last")[1]
    assert "asks what do others do?" in chain
    assert "1 expansion, " in chain
