"""The page of a session: everything is on it, and nothing that anybody said is more than text."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from deliberating import Heard, Room, config, fails, says, synthesis, turn, verdict
from hansard.app.driving.chaining import problem_with
from hansard.app.telling.deliberationviews import rounds_of
from hansard.app.telling.markdown import as_markdown
from hansard.app.telling.sessionpage import disagreements, session_page
from hansard.deliberation.afterwards.evaluation import evaluation_of, postmortem_of
from hansard.deliberation.documents import Artifact, Config
from hansard.domain.value import replace
from hansard.errors import UsageError

HOSTILE = '</p></div></style><script>alert(1)</script><img src=x onerror="alert(2)">&lt;b&gt; \u202e'
OPEN = {"topic": f"when {HOSTILE}", "positions": [{"agent": "ada", "claim": HOSTILE}, {"agent": "ben", "claim": "no"}]}
PANEL_TURNS = ("problem_statement", "primary_turn", "branch_turn")
SETTLED = {"topic": "where", "resolution": f"here {HOSTILE}"}


class Reader(HTMLParser):
    """What a browser would make of the page: its elements with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "line", "polygon", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def empty_headings(page: str) -> list[str]:
    """What a screen reader announces as a heading, and says nothing of."""
    return re.findall(r"<(?:th|h[1-6])\b[^>]*>\s*</(?:th|h[1-6])>", page)


def hostile_config() -> Config:
    return Config.parse({**config().as_data(), "problem_statement": HOSTILE, "originator": HOSTILE})


ANSWERS: list[Heard] = [
    turn("ben", "cyd", "nobody", text=HOSTILE),
    turn(),
    turn("ada"),
    turn(),
    turn(),
    verdict(unresolved=[OPEN], resolved=[]),
    turn(),
    turn(),
    turn(),
    turn(),
    verdict("finalize", unresolved=[OPEN], resolved=[SETTLED]),
    says({"integrated_answer": HOSTILE, "resolved_disagreements": [], "unresolved_disagreements": [OPEN]}),
]


async def artifact() -> dict[str, Any]:
    return (await Room().hold(hostile_config(), ANSWERS)).artifact


async def test_nothing_that_anybody_said_becomes_an_element_or_an_attribute() -> None:
    reader = read(session_page(await artifact()))
    assert reader.open == []
    names = {tag for tag, _ in reader.tags}
    assert names.isdisjoint({"script", "img", "iframe", "object", "link", "a", "form"})
    for _, attributes in reader.tags:
        assert not any(name.startswith("on") or name in ("src", "href", "srcdoc") for name in attributes)
        assert not any("alert" in (value or "") for value in attributes.values())
    text = "".join(reader.text)
    assert text.count(HOSTILE.replace("\u202e", "\\u202e")) >= 4
    assert "\u202e" not in text


async def test_every_heading_of_the_page_says_something() -> None:
    assert empty_headings(session_page(await artifact(), [])) == []


async def test_the_page_asks_nobody_for_anything() -> None:
    page = session_page(await artifact())
    [policy] = [each["content"] for tag, each in read(page).tags if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert not re.search(r"https?://|url\(|@import", page)


async def test_the_page_shows_rounds_branches_verdicts_disagreements_the_graph_and_the_spend() -> None:
    reader = read(session_page(await artifact(), []))
    text = "".join(reader.text)
    for word in ("Round 1", "Round 2", "branch turn", "coordination turn", "Who asked whom", "Disagreements", "Spend"):
        assert word in text
    shapes = [tag for tag, _ in reader.tags]
    assert shapes.count("polygon") == 4
    assert "svg" in shapes
    classes = [each.get("class") for tag, each in reader.tags if tag == "div"]
    assert classes.count("turn branch") == 3
    assert classes.count("turn verdict") == 2


@pytest.mark.parametrize("last", ["request_user_input", "request_external_research"])
async def test_a_session_that_ended_without_an_answer_says_what_it_asks(last: str) -> None:
    made = (await Room().hold(config(), [turn(), turn(), turn(), verdict(last)])).artifact
    assert "It asks: wh" in "".join(read(session_page(made)).text)


async def test_a_session_that_failed_at_once_has_a_page_too() -> None:
    made = (await Room().hold(config(), [fails("auth_failure")])).artifact
    assert "auth_failure" in session_page(made)


async def test_a_round_in_which_nobody_spoke_counts() -> None:
    made = (
        await Room().hold(config(), [turn(), turn(), turn(), verdict(), *[fails("auth_failure") for _ in range(3)]])
    ).artifact
    assert made["outcome"]["termination_artifact"]["final_round"] == rounds_of(made) == 2
    assert "· 2 rounds ·" in session_page(made)


async def test_an_object_that_somebody_asks_with_is_shown_as_json() -> None:
    asks = {"target": "ben", "type": "question", "content": {"sure": True, "why": None}}
    made = (await Room().hold(config(), [says({"text": "So?", "direct_requests": [asks]})])).artifact
    assert '{"sure": true, "why": null}' in "".join(read(session_page(made)).text)
    assert '> {"sure": true, "why": null}' in as_markdown(made)


async def test_a_topic_that_a_verdict_calls_settled_and_open_is_open_wherever_it_is_shown() -> None:
    both = verdict(unresolved=[{**OPEN, "topic": "where"}], resolved=[{"topic": "where", "resolution": "here"}])
    made = (await Room().hold(config(budget={"max_rounds": 1}), [turn(), turn(), turn(), both])).artifact
    assert [each["topic"] for each in made["cumulative_unresolved"]] == ["where"]
    rows = re.findall(r"<tr><th scope=row>where</th>.*?</tr>", session_page(made))
    assert ["open</span>" in each for each in rows] == [True]
    [shown] = disagreements(made["canonical_transcript"])
    assert (shown["rounds"], shown["settled"]) == ([1], None)


def settling(round: int, unresolved: list[str], resolved: list[str]) -> dict[str, Any]:
    content = {
        "unresolved_disagreements": [
            {"topic": topic, "positions": [{"agent": "ada", "claim": f"{topic} in {round}"}]} for topic in unresolved
        ],
        "resolved_disagreements": [{"topic": topic, "resolution": f"settled in {round}"} for topic in resolved],
    }
    return {"type": "coordination_turn", "round": round, "content": content}


def test_a_disagreement_is_open_until_it_is_settled_and_may_open_again() -> None:
    told = [
        settling(1, ["cost", "risk"], []),
        settling(2, ["risk"], ["cost"]),
        settling(3, ["cost"], ["risk", "scope"]),
    ]
    cost, risk, scope = disagreements([{"type": "primary_turn"}, *told])
    assert (cost["rounds"], cost["settled"], cost["positions"][0]["claim"]) == ([1, 3], None, "cost in 3")
    assert (risk["rounds"], risk["settled"]) == ([1, 2], "settled in 3")
    assert (scope["rounds"], scope["positions"]) == ([], [])


async def test_self_loops_and_strangers_are_drawn() -> None:
    made = (
        await Room().hold(config(), [turn("ada", "oracle"), turn(), turn(), verdict("finalize"), synthesis()])
    ).artifact
    assert "oracle" in session_page(made)


async def test_nothing_that_anybody_said_comes_to_life_in_the_markdown() -> None:
    text = as_markdown(await artifact())
    assert not re.search(r"(?<!\\)<", text)
    tracked = turn(text="![look](https://example.org/x.png) [here](javascript:alert(1))")
    made = (await Room().hold(config(), [tracked, turn(), turn(), verdict("finalize"), synthesis()])).artifact
    assert "](" not in as_markdown(made)
    made["canonical_transcript"][1]["content"]["text"] = "![seen][1]\n\n[1]: https://elsewhere.invalid/seen.png"
    assert "[1]:" not in as_markdown(made)
    made["canonical_transcript"][1]["content"]["text"] = "https://elsewhere.invalid www.elsewhere.invalid @somebody"
    assert not re.search(r"https://|www\.|@", as_markdown(made))


async def test_a_topic_and_a_claim_come_to_no_more_life_in_the_markdown_than_a_turn_does() -> None:
    words = "see https://elsewhere.invalid www.elsewhere.invalid @somebody <b>"
    left = {"topic": words, "positions": [{"agent": "ada", "claim": words}]}
    ending = says({"integrated_answer": "a", "resolved_disagreements": [], "unresolved_disagreements": [left]})
    made = (await Room().hold(config(), [turn(), turn(), turn(), verdict("finalize"), ending])).artifact
    said = as_markdown(made)
    assert "elsewhere.invalid &#64;somebody &lt;b" in said
    assert not re.search(r"https://|www\.|@|<", said)


async def test_the_markdown_has_what_was_settled_left_open_and_not_asked() -> None:
    said = as_markdown(await artifact())
    assert "- settled: where (here " in said
    assert said.count("- open: when ") == 2
    assert "nobody of that name could be: nobody" in said


ASKING: dict[str, dict[str, Any]] = {
    "request_user_input": {"user_input_request": {"question": "which one?", "context": "A is dear.\nB is slow."}},
    "request_external_research": {
        "external_research_request": {
            "query": "which one?",
            "rationale": "A is dear.\nB is slow.",
            "suggested_sources": ["the ledger"],
        }
    },
}


@pytest.mark.parametrize("last", list(ASKING))
async def test_what_a_session_asks_for_is_told_whole_wherever_it_is_read(last: str) -> None:
    wanted = ["which one?", "A is dear.", "B is slow."]
    wanted += ["Where to look: the ledger"] if last == "request_external_research" else []
    asking = verdict(last)
    asking = replace(asking, content={**asking.content, **ASKING[last]})
    made = (await Room().hold(config(), [turn(), turn(), turn(), asking])).artifact
    lines, page = as_markdown(made).splitlines(), "\n".join(read(session_page(made)).text)
    problem = problem_with(made, "A", 1).splitlines()
    for line in wanted:
        assert f"> {line}" in lines
        assert line in page
        assert f"> {line}" in problem


async def test_the_markdown_of_a_session_that_failed_says_with_what() -> None:
    made = (await Room().hold(config(), [fails("auth_failure")])).artifact
    assert "- failed: ada: auth_failure: " in as_markdown(made)


async def test_what_a_session_cost_is_not_shown_as_nothing() -> None:
    made = await artifact()
    for message in made["canonical_transcript"]:
        message["usage"]["cost_usd"] = 0.000000045 if message["speaker"] == "ben" else 0.0
    spoken = sum(message["speaker"] == "ben" for message in made["canonical_transcript"])
    made["cumulative_usage"]["cost_usd"] = 0.000000045 * spoken
    assert f"tokens, 0.{45 * spoken:09d} USD" in as_markdown(made)
    cells = re.findall(r"<td class=number>(0[0-9.]*)</td>", session_page(made))
    assert cells.count(f"0.{45 * spoken:09d}".rstrip("0")) == 2, "in the row of ben, and in that of all"


async def test_what_failed_calls_took_is_said_to_be_left_out() -> None:
    failed, taken = {"event": "turn.failed", "agent": "ada", "error": "network"}, {"event": "turn.taken"}
    made = await artifact()
    for tell in (as_markdown, session_page):
        assert "failed call" not in tell(made, [taken])
        assert "; what 1 failed call took is not in it" in tell(made, [failed])
        assert "; what 2 failed calls took is not in it" in tell(made, [failed, taken, failed])
        assert "; what failed calls took is not in it" in tell(made, None)


def second_problem(made: dict[str, Any]) -> None:
    made["canonical_transcript"].insert(1, {**made["canonical_transcript"][0], "id": "again"})


def no_synthesis(made: dict[str, Any]) -> None:
    made["canonical_transcript"][-1] = {**made["canonical_transcript"][-2], "id": "other"}


def a_stranger(made: dict[str, Any]) -> None:
    made["canonical_transcript"][1]["speaker"] = "nobody"


def no_verdict(made: dict[str, Any]) -> None:
    asked = {"pending_external_research_request": {"query": "what?"}, "most_recent_verdict": None}
    ending = {"schema_version": "1.0.0", "reason": "external_research_required", "final_round": 2, **asked}
    ending |= {"cumulative_usage": made["cumulative_usage"], "transcript_digest": made["transcript_digest"]}
    made["outcome"] = {"kind": "termination", "termination_artifact": {**ending, "unresolved_disagreements": []}}
    made["canonical_transcript"] = [m for m in made["canonical_transcript"] if m["type"] in PANEL_TURNS]


@pytest.mark.parametrize("change", [second_problem, no_synthesis, a_stranger, no_verdict])
async def test_an_artifact_that_contradicts_itself_is_refused_and_is_no_bug(
    change: Callable[[dict[str, Any]], None],
) -> None:
    made = json.loads(json.dumps(await artifact()))
    change(made)
    used = [message["usage"] for message in made["canonical_transcript"]]
    made["cumulative_usage"] |= {name: sum(each[name] for each in used) for name in used[0]}
    Artifact.parse(made)
    for look in (session_page, postmortem_of, evaluation_of):
        with pytest.raises(UsageError, match="contradicts itself"):
            look(made)


async def test_a_cost_beyond_all_numbers_is_shown_and_is_no_bug() -> None:
    made = await artifact()
    made["cumulative_usage"]["cost_usd"] = 1e308
    assert "USD" in as_markdown(made)
