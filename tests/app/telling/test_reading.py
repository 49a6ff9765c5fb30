"""Figures, comparison, capsule and page of a run: counted by hand and compared with what the record gives."""

import asyncio
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from unicodedata import category

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, convening
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.compare import DIFF_LINES, _diff
from hansard.app.telling.escaping import escape
from hansard.app.views import summary_view
from hansard.domain.exchange import Exchange
from hansard.errors import Tampered, UsageError
from hansard.orchestration.gates import read_rules
from hansard.record.history import fold
from hansard.store.base import Query
from panels import PANELS, Voices, agreeing
from running import POOR, Answers, Desk, Said, completion, desk, fails, obliging, plan, task, who

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x00 ]]> &amp; \"'"


def counted(exchange: Exchange) -> Said:
    """Answers whose tokens and costs can be added up in the head."""
    role, about, attempt = who(exchange)
    if role == "worker" and about == "b" and attempt == 1:
        return fails("rate_limit", "slow down")
    if role == "worker":
        return completion("fine", tokens=(100, 10), cost_usd_nano=1_000)
    if role == "validator":
        said = POOR if (about, attempt) == ("a", 1) else {"ok": True, "score": 1.0, "reasons": "good"}
        return completion(tokens=(50, 5), cost_usd_nano=500, structured=said)
    return completion("the answer", tokens=(200, 20), cost_usd_nano=2_000)


async def hand_counted(at: Desk) -> str:
    """A run of two tasks: `a` rejected once and escalated, `b` failing once in passing; then the synthesizer.

    Calls: a worker 2, a validator 2, b worker 2 (one failed), b validator 1, synthesizer 1: 8 in all.
    Tokens: 3 x 110 + 3 x 55 + 220 = 715. Cost: 3 x 1,000 + 3 x 500 + 2,000 = 6,500.
    """
    ended = await at.run(plan=plan(task("a"), task("b")), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "answered"
    return ended.run


@pytest.mark.parametrize(("ladder", "roles"), [("told", {"worker": 2}), ("panel:bench", {"panel": 5})])
async def test_calls_that_died_with_their_driver_are_counted_by_role_and_by_model_and_have_failed(
    ladder: str, roles: dict[str, int]
) -> None:
    reached, free = asyncio.Event(), False

    async def first_stuck(exchange: Exchange) -> Said:
        if not free:
            reached.set()
            await asyncio.sleep(600)
        said: Said = agreeing(exchange) if ladder.startswith("panel:") else "done"
        return said

    here = desk(Answers(first_stuck), Voices(first_stuck), settings={"panels": PANELS, "run": {"ladder": [ladder]}})
    run = await here.submit(plan=plan(task("a")), wishes=Wishes(judge="checks", answer="join"))
    driving = asyncio.ensure_future(here.runs.drive(run))
    await reached.wait()
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert [view["spent"]["calls"] for view in (here.runs.show(run), *here.runs.listed())] == [1, 1]
    free = True
    assert (await here.runs.drive(run)).state == "answered"
    figures = here.runs.figures(run)
    assert (figures["calls_by_role"], figures["failed_calls"]) == (roles, 1)
    assert figures["calls"] == sum(figures["calls_by_model"].values()) == sum(roles.values())


@pytest.mark.parametrize(("seconds", "state"), [(None, "cancelled"), (1, "stopped")])
async def test_a_call_that_was_stopped_under_way_went_to_the_model_that_was_asked(
    seconds: float | None, state: str
) -> None:
    async def stuck(_: Exchange) -> Said:
        await asyncio.sleep(600)
        return "too late"

    told = Answers(stuck)
    here = desk(told)
    run = await here.submit(plan=plan(task("a")), wishes=Wishes(max_seconds=seconds, ladder=("told:better",)))
    driving = asyncio.ensure_future(here.runs.drive(run))
    await told.asked_times(1)
    if seconds is None:
        await here.runs.cancel(run)
    assert (await driving).state == state
    figures = here.runs.figures(run)
    assert (figures["calls_by_model"], figures["failed_calls"]) == ({"better": 1}, 1)


async def test_the_figures_of_a_run_are_those_counted_by_hand() -> None:
    at = desk(Answers(counted))
    figures = at.runs.figures(await hand_counted(at))
    expected = {
        "state": "answered",
        "calls": 8,
        "calls_by_role": {"synthesizer": 1, "validator": 3, "worker": 4},
        "failed_calls": 1,
        "input_tokens": 650,
        "output_tokens": 65,
        "cost_usd_nano": 6_500,
        "calls_without_price": 0,
        "tasks": 2,
        "attempts": 4,
        "passed": 2,
        "rejected": 1,
        "escalations": 1,
        "skipped": 0,
        "restarts": 0,
        "retries": 0,
        "breaches": 0,
        "output_bytes": sum(map(len, ["fine", "fine", "fine", "[rate_limit] slow down", "the answer"]))
        + sum(
            len(at.text(e, "output"))
            for e in at.entries(at.runs.find("last"), "role.answered")
            if e.data["role"] == "validator"
        ),
        "answer_bytes": len("the answer"),
    }
    assert {key: figures[key] for key in expected} == expected


async def test_the_figures_of_a_deliberation_tell_of_its_calls(tmp_path: Path) -> None:
    """What came of each call, and how long it took, as it stands in the session's own messages."""

    async def slowly(exchange: Exchange) -> object:
        await asyncio.sleep(0.02)
        return agreeing(exchange)

    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path / "state", panels=PANELS)
    async with Hansard.open(settings=settings) as hansard:
        hansard.pool.given["voices"] = Voices(slowly)
        made = convening(settings, hansard.pool, Call(problem="How many?", panel=["panel:bench"]))
        run = await hansard.deliberations.convene(made)
        await hansard.deliberations.hold(run)
        figures = hansard.runs.figures(run)
        taken = [each["seq"] for each in hansard.ledger.show(run=run, kind="turn.taken")][1:]
        said = [hansard.ledger.part(seq, "message") for seq in taken]
    assert (figures["calls"], figures["calls_by_role"]) == (4, {"panel": 4})
    assert figures["output_bytes"] == sum(map(len, said))
    assert figures["model_us"] > 3 * 20_000


async def test_the_summary_of_a_ledger_adds_up_its_runs() -> None:
    at = desk(Answers(counted))
    await hand_counted(at)
    await hand_counted(at)
    summary = summary_view(fold(at.store.select(Query())))
    assert (summary["runs"], summary["run_states"]) == (2, {"answered": 2})
    assert (summary["calls"], summary["tokens"], summary["cost_usd_nano"]) == (16, 1_430, 13_000)
    assert summary["verdicts"] == {"passed": 4, "rejected": 2}


async def test_a_comparison_says_what_changed_and_nothing_else() -> None:
    at = desk(Answers(counted))
    first = await hand_counted(at)
    same = at.runs.compare(first, await hand_counted(at))
    assert same["same_answer"] is True
    assert same["tasks_that_differ"] == {}
    assert {
        key: more for key, more in same["more_in_b"].items() if more and key not in ("elapsed_us", "model_us")
    } == {}

    def worse(exchange: Exchange) -> Said:
        if who(exchange)[0] == "synthesizer":
            return completion("another\nanswer", tokens=(200, 20), cost_usd_nano=2_000)
        return fails("auth_failure", "no key") if who(exchange)[:2] == ("worker", "b") else counted(exchange)

    other = desk(Answers(worse))
    second = await other.run(plan=plan(task("a"), task("b")), wishes=Wishes(ladder=("told", "told:better")))
    view = at.runs.compare(first, second.run, other.runs)
    assert view["tasks_that_differ"] == {"b": {"a": "passed", "b": "rejected"}}
    assert view["more_in_b"]["cost_usd_nano"] == -1_500
    assert view["same_answer"] is False
    assert "+another" in view["answer_diff"]


async def test_two_answers_that_are_not_there_are_not_the_same() -> None:
    at = desk(Answers(lambda _: fails("auth_failure", "no key")))
    first, second = [(await at.run(plan=plan(task("a")))).run for _ in range(2)]
    assert at.runs.compare(first, second)["same_answer"] is False


def test_long_answers_are_compared_at_once_however_they_are_made() -> None:
    one, other = ([str(each * step % 100) for each in range(20_000)] for step in (1, 7))
    found = _diff("\n".join(one), "\n".join(other))
    assert found[2:] == ["@@ -2 +2 @@ of 20,000 and 20,000 lines, too many to compare; they part here", "-1", "+7"]
    assert _diff("\n".join(one), "\n".join(one[:-1]))[3:] == ["-99"]
    assert _diff("\n".join(one), "\n".join(one)) == []


def test_a_comparison_that_is_cut_says_so() -> None:
    one, other = ("\n".join(f"{side} {line}" for line in range(300)) for side in "ab")
    found = _diff(one, other)
    assert found[-2:] == ["-a 196", "@@ 403 more lines of this comparison @@"]
    assert _diff(None, "\n".join(one.split("\n")[: DIFF_LINES - 3]))[-1] == f"+a {DIFF_LINES - 4}"


@pytest.mark.parametrize("other", ["one\r\ntwo", "one\ntwo\n", "one\x0btwo", "one\u2028two"])
def test_answers_that_differ_differ_in_a_line(other: str) -> None:
    assert any(line[0] == "+" for line in _diff("one\ntwo", other)[2:])
    assert _diff(other, other) == []


async def test_a_run_that_is_not_there_cannot_be_compared() -> None:
    at = desk(Answers())
    with pytest.raises(UsageError, match="no run"):
        at.runs.compare("last", "last")


async def test_a_capsule_is_small_and_says_where_the_record_is() -> None:
    said = {"worker": "x" * 5_000, "synthesizer": "y" * 9_000}
    at = desk(Answers(lambda e: said.get(who(e)[0]) or obliging(e)))
    ended = await at.run(plan=plan(*[task(f"t{number}") for number in range(20)]))
    capsule = at.runs.capsule(ended.run)
    assert capsule["schema"] == "hansard.capsule/1"
    assert len(capsule["results"]) == 8
    # Whoever builds on it is told that there is more.
    cut = "\n[cut here: {} more characters stand in the record]"
    assert {each["output"] for each in capsule["results"]} == {"x" * 400 + cut.format("4,600")}
    assert capsule["answer"] == "y" * 8_000 + cut.format("1,000")
    entries = at.entries(ended.run)
    assert capsule["entries"] == [entries[0].seq, entries[-1].seq]


async def test_a_capsule_holds_what_passed_and_nothing_that_was_rejected() -> None:
    at = desk(Answers(counted))
    run = await hand_counted(at)
    passed = [each for each in at.entries(run, "task.returned") if each.data["attempt"] == 2]
    assert [each["entry"] for each in at.runs.capsule(run)["results"]] == [each.seq for each in passed]


class Tags(HTMLParser):
    """What a browser would see: tags, attributes, text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_a_page_shows_hostile_text_and_obeys_none_of_it() -> None:
    at = desk(Answers(lambda e: HOSTILE if who(e)[0] in ("worker", "synthesizer") else obliging(e)))
    ended = await at.run(f"please {HOSTILE}", plan=plan(task("a", "b"), {**task("b"), "instruction": HOSTILE}))
    page = at.runs.page(ended.run)
    seen = Tags()
    seen.feed(page)
    assert not {"script", "img", "iframe", "object", "link", "form"} & set(seen.tags)
    assert not {name for name in seen.attributes if name.startswith("on") or name in ("src", "href", "srcdoc")}
    assert seen.text.count("<script>alert(1)</script>") > 3
    assert "default-src 'none'" in page


async def test_a_page_of_a_run_without_an_answer_says_so() -> None:
    at = desk(Answers(lambda e: fails("auth_failure", "no key")))
    ended = await at.run(plan=plan(task("a")))
    assert ended.state == "failed"
    assert "There is no answer" in at.runs.page(ended.run)


SHOWN = {
    "request": ("run.requested", "request", ("show", "capsule", "page")),
    "answer": ("run.answered", "answer", ("show", "capsule", "page", "answer", "figures")),
    "plan": ("plan.made", "plan", ("show", "page", "plan")),
    "output": ("task.returned", "output", ("capsule", "page", "figures")),
    "prompt": ("task.attempted", "prompt", ("page", "figures")),
    "reasons": ("task.judged", "reasons", ("show", "page")),
}


@pytest.mark.parametrize(("kind", "part", "verbs"), SHOWN.values(), ids=SHOWN.keys())
async def test_what_does_not_open_its_commitment_is_never_shown(kind: str, part: str, verbs: tuple[str, ...]) -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a"), task("b")))
    forged = at.forge(ended.run, kind, part, "{}")
    for verb in verbs:
        with pytest.raises(Tampered, match=f"the {part} of entry {forged.seq} .* hansard verify"):
            getattr(at.runs, verb)(ended.run)
    with pytest.raises(Tampered):
        at.runs.text(forged.seq, part)


async def test_in_a_list_a_forged_request_is_marked_and_hides_no_other_run() -> None:
    at = desk(Answers())
    first, second = [(await at.run(words, plan=plan(task("a")))).run for words in ("one thing", "another thing")]
    at.forge(second, "run.requested", "request", "no such thing")
    found = {view["run"]: view["request"] for view in at.runs.listed()}
    assert found == {first: "one thing", second: "(not what was recorded; run: hansard verify --deep)"}


async def test_in_a_list_a_forged_question_is_marked_and_hides_no_other_gate() -> None:
    at = desk(Answers())
    config = replace(at.config(), gates=read_rules([{"before": "plan"}], "test"))
    runs = [await at.runs.submit(words, config, plan=plan(task("a"))) for words in ("one", "other")]
    for run in runs:
        assert (await at.runs.drive(run)).state == "waiting"
    at.forge(runs[1], "gate.opened", "question", "May this plan run?")
    first, second = Gates(at.recorder, at.store).listed(questions=True)
    assert "do a" in first["question"]
    assert second["question"] == "(not what was recorded; run: hansard verify --deep)"


def test_what_is_shown_is_looked_at_once_for_each_character(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def noted(character: str) -> str:
        looked.append(character)
        return category(character)

    monkeypatch.setattr("hansard.app.telling.escaping.category", noted)
    assert escape("ab\n\u202e<\ud800\u2028" * 1_000) == "ab\n\\u202e&lt;\\ud800\\u2028" * 1_000
    assert len(looked) == len(set(looked))


def test_marks_that_pile_up_on_a_letter_are_spelled_out_and_those_of_every_script_stay() -> None:
    pile = "z" + "\u0301\u20dd\u0e47" * 100
    assert escape(pile) == pile[:11] + "".join(f"\\u{ord(each):04x}" for each in pile[11:])
    for word in (
        "\u0f67\u0f90\u0fb5\u0fa8\u0fb3\u0fba\u0fbc\u0fbb\u0f82",
        "\u05e9\u05bc\u05c1\u05b8\u0596",
        "1\ufe0f\u20e3" * 20,
    ):
        assert escape(word) == word
