import fcntl
import io
import json
import os
import pty
import re
import struct
import termios
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from rich.console import Console

from command_line import started, workplace
from hansard.app.telling.escaping import spelled
from hansard.domain.exchange import Exchange, ToolCall
from hansard.ledger.entry import Entry
from hansard.record.history import LedgerState
from hansard.store.base import Query, Store
from hansard.surfaces import narrate
from hansard.surfaces.cli.board import Board
from hansard.surfaces.cli.live import picture
from hansard.surfaces.cli.show import as_json, tell
from hansard.surfaces.hearing import Event
from hansard.surfaces.narrate import reason
from hansard.surfaces.plain import plain, plain_json
from panels import PANELS, Voices, agreeing
from running import Answers, Desk, Ledger, desk, hard_to_please, plan, task

HOSTILE = "[bold red]x[/] \x1b[2J\x9b31m\u2028"
SPENT: dict[str, Any] = {"input_tokens": 30, "output_tokens": 10, "cost_usd_nano": 2_000_000_000}


def event(kind: str, ts: int = 0, texts: dict[str, str] | None = None, **data: Any) -> Event:
    return Event("01a1ddc5-6d11-7519", kind, data, (texts or {}).get, ts)


def test_every_word_stands_apart_from_what_it_is_about() -> None:
    told = narrate.line(event("task.returned", task="schema", ok=False, error="network"))
    assert told == "came to naught schema network"
    paused = event("task.returned", task="schema", ok=False, error="rate_limit", pause_us=61_000_000)
    assert narrate.line(paused) == "came to naught schema rate_limit (again in 1 min 01 s)"
    of: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("role.answered", {"role": "validator"}, "the validator"),
        ("turn.failed", {"agent": "ada"}, "ada"),
    )
    for kind, who, said in of:
        told = narrate.line(event(kind, ok=False, error="rate_limit", pause_us=2_500_000, **who))
        assert told == f"waits       2.5 s before {said} is asked again: rate_limit"
        assert narrate.line(event(kind, ok=False, error="rate_limit", **who)) is None


@pytest.mark.parametrize(
    ("unit", "spent", "limit", "said"),
    [
        ("cost_usd_nano", 45, 15_500_000, "money: $0.000000045 of $0.0155"),
        ("tokens", 990, 1_000, "tokens: 990 of 1,000"),
    ],
)
def test_a_limit_that_was_reached_is_told_in_dollars_where_it_is_one_of_money(
    unit: str, spent: int, limit: int, said: str
) -> None:
    told = narrate.line(event("budget.breached", unit=unit, spent=spent, limit=limit))
    assert (told or "").split(maxsplit=1) == ["budget", said]


def story(task: str = "schema", other: str = "limits") -> list[Event]:
    """A run in which one task climbs and another waits for it."""
    plan = {"tasks": [{"id": task, "lane": "backend"}, {"id": other, "lane": "sre-ops", "needs": [{"task": task}]}]}
    why = json.dumps([{"check": "validator", "ok": False, "detail": HOSTILE}])
    attempt: dict[str, Any] = {"task": task, "lane": "backend", "provider": "p", "model": "m"}
    return [
        event("run.requested", texts={"request": f"build {HOSTILE}\nmore"}),
        event("run.configured", max_calls=4, max_cost_usd_nano=10**10),
        event("run.claimed", because="new"),
        event("plan.made", texts={"plan": json.dumps(plan)}, tasks=2, waves=2, by="user"),
        event("task.attempted", 1_000_000, attempt=1, rung="cheap", **attempt),
        event("task.returned", 2_000_000, task=task, ok=True, **SPENT),
        event("role.asked", role="validator", task=task, provider="p", model="m"),
        event("role.answered", role="validator", **SPENT),
        event("task.judged", 3_000_000, texts={"reasons": why}, task=task, ok=False, score_ppm=100_000),
        event("task.escalated", 3_000_000, task=task, from_rung="cheap", to_rung="capable"),
    ]


def board(events: list[Event]) -> Board:
    made = Board()
    for each in events:
        made.take(each)
    return made


def drawn(shown: Board, *, room: int = 40, width: int = 140) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None, highlight=False)
    console.print(picture(shown, 4_000_000, room, width))
    return out.getvalue()


def test_a_board_folds_what_is_recorded() -> None:
    shown = board(story())
    row, other = shown.rows["schema"], shown.rows["limits"]
    assert (row.state, row.rung, row.climbed, row.took_us) == ("climbing", "capable", True, 2_000_000)
    assert (other.state, other.wave, other.needs) == ("waiting", 1, ("schema",))
    assert (shown.calls, shown.tokens, shown.cost_usd_nano) == (2, 80, 4_000_000_000)
    shown.take(event("task.skipped", task="limits", because="upstream", upstream="schema"))
    shown.take(event("run.ended", state="failed", reason="none passed"))
    assert (shown.state, other.state, other.why) == ("failed", "skipped", "schema")


async def test_a_board_counts_what_the_record_does() -> None:
    """At every entry: with a panel that uses tools, a driver that died in the midst of a call, and a task that is done again."""
    almanac = {"command": ["true"], "description": "What happened.", "input_schema": {"type": "object"}}
    armed = {"bench": {**PANELS["bench"], "tools": {"critic": ["almanac"]}}}
    given = {"panels": armed, "tools": {"almanac": almanac}, "run": {"ladder": ["told", "panel:bench"]}}
    ledger = Ledger()
    at = desk(Answers(hard_to_please), Voices(curious), store=ledger, settings=given)
    ended = await at.run(plan=plan(task("limits")))
    died = next(number for number in range(2, len(ledger.commits)) if "tools.returned" in kinds(ledger.until(number)))
    again = desk(Answers(hard_to_please), Voices(curious), store=ledger.until(died), settings=given)
    await again.runs.resume(ended.run)
    await again.runs.retry(ended.run, "limits")
    hold_against_the_record(again, ended.run)
    assert len(again.entries(ended.run, "run.claimed")) == 3


async def test_a_board_counts_a_call_once_that_died_with_its_driver_and_was_cancelled_behind_that() -> None:
    ledger = Ledger()
    ended = await desk(Answers(), store=ledger).run(plan=plan(task("one"), task("two")))
    died = next(number for number in range(2, len(ledger.commits)) if "task.attempted" in kinds(ledger.until(number)))
    again = desk(Answers(), store=ledger.until(died))
    await again.runs.cancel(ended.run)
    assert hold_against_the_record(again, ended.run).calls == len(again.entries(ended.run, "task.returned")) > 0


def test_a_board_of_an_interrupted_run_counts_the_calls_that_were_under_way() -> None:
    shown = board([*story()[:5], event("run.interrupted", by="signal")])
    assert (shown.state, shown.calls) == ("interrupted", 1)
    shown.take(event("run.claimed", because="resumed"))
    assert shown.calls == 1


@pytest.mark.parametrize("left", ["run.interrupted", "gate.opened"])
@pytest.mark.parametrize("said", ["run.resume_asked", "gate.decided", "run.cancel_asked"])
def test_a_board_counts_no_second_in_which_a_run_waited_for_people(left: str, said: str) -> None:
    shown, day = board([event("run.claimed", 1_000_000, because="new")]), 86_400 * 1_000_000
    shown.take(event(left, 3_000_000, by="signal", gate="g"))
    assert shown.elapsed_s(3_000_000) == 2
    shown.take(event(said, day, gate="g"))
    assert shown.elapsed_s(2 * day) == 2
    shown.take(event("run.claimed", 2 * day, because="resumed"))
    shown.take(event("plan.made", 2 * day + 1_000_000, by="user"))
    assert shown.elapsed_s(2 * day + 1_000_000) == 3


def hold_against_the_record(at: Desk, run: str) -> Board:
    """A board of a run, which has the figures of the record at every entry."""
    shown, state = Board(), LedgerState()
    for entry in at.store.select(Query(run=run)):
        state.take(entry)
        shown.take(Event(entry.run, entry.kind, entry.data, partial(text_of, at, entry), entry.ts))
        told = state.runs[run]
        assert (shown.calls, shown.tokens, shown.cost_usd_nano) == (told.calls, told.tokens, told.cost_usd_nano), entry
    return shown


def curious(exchange: Exchange) -> Any:
    if not exchange.tools or any(message.role == "tool" for message in exchange.messages):
        return agreeing(exchange)
    return {"calls": (ToolCall(id="c", name="almanac", arguments={}),)}


def kinds(store: Store) -> list[str]:
    return [entry.kind for entry in store.select(Query())]


def text_of(at: Desk, entry: Entry, part: str) -> str | None:
    return at.text(entry, part) if part in entry.body else None


def test_a_picture_shows_waves_states_rungs_and_the_budget() -> None:
    lines = drawn(board(story())).splitlines()
    assert lines[0].startswith("build ")
    assert [line.split()[0] for line in lines if "backend" in line or "sre-ops" in line] == ["1", "2"]
    assert any("↑ capable" in line and "climbs" in line for line in lines)
    assert "2 of 4 calls ━" in lines[-1]
    assert "$4.00 of $10.00 ━" in lines[-1]


def test_a_picture_says_who_waits_how_long_and_why() -> None:
    """Nothing else happens meanwhile, for a minute or more."""
    failed = {"ok": False, "error": "rate_limit", **SPENT}
    worker = [*story()[:5], event("task.returned", 2_000_000, task="schema", pause_us=60_000_000, **failed)]
    assert "failed in passing" in (said := drawn(board(worker), width=200))
    assert "rate_limit, again in 58.0 s" in said
    asked = event(
        "task.attempted", 62_000_000, task="schema", lane="backend", provider="p", model="m", attempt=2, rung="cheap"
    )
    assert "again in" not in drawn(board([*worker, asked]), width=200)
    judge = [*story()[:7], event("role.answered", role="validator", pause_us=61_000_000, **failed)]
    assert "1 min 01 s before the validator is asked again: rate_limit" in drawn(board(judge), width=200)
    assert "asked again" not in drawn(board([*judge, story()[6]]), width=200)
    turn = event(
        "turn.failed", agent="ada", error="rate_limit", prompt_tokens=1, completion_tokens=0, pause_us=5_000_000
    )
    assert "5.0 s before ada is asked again: rate_limit" in drawn(board([*story()[:5], turn]), width=200)


def test_a_picture_says_that_not_all_of_the_money_is_known() -> None:
    unknown = event("role.answered", role="validator", **SPENT, cost_basis="unknown")
    assert "$6.00, not all known of $10.00 ━" in drawn(board([*story(), unknown])).splitlines()[-1]


def test_a_narrow_terminal_cuts_no_figure() -> None:
    shown = board([*story(), event("run.ended", 4_000_000, state="answered", reason="answered")])
    shown.limits = {"max_calls": 4, "max_cost_usd_nano": 0}
    said = drawn(shown, width=40)
    assert all(figure in said for figure in ("answered ", "2 of 4 calls ━", "80 tokens", "$4.00 of $0 ━"))


@pytest.mark.parametrize("width", [140, 80, 60, 45, 40])
def test_words_of_a_task_give_way_to_its_figures_and_a_cut_is_shown(width: int) -> None:
    passed = event("task.judged", 5_500_000, task="schema", ok=True, score_ppm=880_000)
    lines = drawn(board([*story(), passed]), width=width).splitlines()
    (told,) = (line.rstrip() for line in lines if "✓" in line)
    assert told.endswith(" 4.5 s  score 0.88")
    assert told.startswith("1  ✓ schema ")
    assert ("backend" in told) == (width > 45)
    rejected = drawn(board(story(other="limits-of-all-callers")), width=width)
    assert ("[bold red]x[/]" in rejected) or "…" in next(line for line in rejected.splitlines() if "climbs" in line)
    assert max(len(line) for line in rejected.splitlines()) <= width


def test_beside_a_gate_the_picture_shows_who_works_and_who_waits_for_people() -> None:
    tasks = ("slow", "gated", "later")
    needs = {"gated": [{"task": "first"}], "later": [{"task": "slow"}]}
    plan = {"tasks": [{"id": id, "lane": "backend", "needs": needs.get(id, [])} for id in ("first", *tasks)]}
    attempt: dict[str, Any] = {"lane": "backend", "provider": "p", "model": "m", "attempt": 1, "rung": "cheap"}
    shown = board([
        event("plan.made", texts={"plan": json.dumps(plan)}),
        event("run.claimed", because="new"),
        event("task.judged", 1_000_000, task="first", ok=True),
        event("task.attempted", 2_000_000, task="slow", **attempt),
        event("gate.opened", 2_000_000, gate="g-1", before="task", task="gated"),
        event("gate.opened", 2_000_000, gate="g-2", before="task", task="later"),
    ])  # fmt: skip

    def told(task: str) -> str:
        return next(line for line in drawn(shown).splitlines() if f" {task} " in line)

    assert ("working" in told("slow"), "cut short" in told("slow")) == (True, False)
    assert told("gated").rstrip().endswith("waiting       for a decision")
    shown.take(event("gate.closed", 3_000_000, gate="g-2", outcome="approved"))
    assert told("later").rstrip().endswith("waiting       for slow")
    shown.take(event("task.judged", 3_000_000, task="slow", ok=True))
    assert (shown.state, shown.is_moving) == ("waiting", False)
    assert drawn(shown).splitlines()[-1].startswith("waiting ")
    assert told("later").rstrip().endswith("waiting")
    shown.take(event("gate.closed", 4_000_000, gate="g-1", outcome="approved"))
    assert (shown.state, shown.is_moving) == ("running", True)


def test_hostile_text_neither_drives_the_terminal_nor_speaks_markup() -> None:
    shown = drawn(board(story(task=HOSTILE)), width=400)
    assert "[bold red]x[/] \\x1b[2J\\x9b31m\\u2028" in shown
    assert "\x1b[2J" not in shown
    assert "\x9b" not in shown
    for each in story(task=HOSTILE):
        told = narrate.line(each) or ""
        assert told.isprintable(), told


def test_characters_that_hide_text_or_turn_it_round_are_spelled_out() -> None:
    assert plain("run \u202esay\u2066 \u200bhello\U000e0041") == r"run \u202esay\u2066 \u200bhello\U000e0041"
    hidden = [chr(code) for code in range(0x110000) if category(chr(code)) in {"Cc", "Cf"}]
    assert [each for each in hidden if plain(each) == each] == []
    assert plain("naïve 漢字 🎉 ❤\ufe0f") == "naïve 漢字 🎉 ❤\ufe0f"


def test_a_terminal_spells_out_whatever_the_pages_do() -> None:
    """A person who decides at a gate sees what a model would be given, wherever he looks."""
    pages = ["".join(map(chr, range(at, at + 256))) for at in range(0, 0x110000, 256)]
    hidden = [each for page in pages if spelled(page) != page for each in page if spelled(each) != each]
    assert [each for each in hidden if plain(each) == each] == []
    assert "\u202e" in hidden


def test_json_for_a_terminal_means_the_same_and_hides_nothing() -> None:
    said = {"a": ["\x9b31m\x7f\u202e", "\U000e0141 🎉 naïve"], "b": "\n"}
    shown = plain_json(json.dumps(said, ensure_ascii=False, indent=2))
    assert json.loads(shown) == said
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "🎉 naïve" in shown


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_long_line_ends_between_words_on_a_terminal_and_stays_whole_in_a_pipe(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = "asked      " + "a service of several words " * 6 + "\x1b[31m"
    tell(text, 11)
    assert capsys.readouterr().out == text.replace("\x1b", "\\x1b") + "\n"
    written = io.BytesIO()
    terminal = Terminal(written, "utf-8", write_through=True)
    tell(text, 11, terminal)
    lines = written.getvalue().decode().splitlines()
    assert max(map(len, lines)) <= width
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(text.replace("\x1b", "\\x1b").split())


def test_a_narrow_terminal_shows_what_its_run_is_called() -> None:
    shown = board([event("run.requested", texts={"request": "a service of several words " * 6})])
    assert "01a1ddc5-6d11" in drawn(shown, width=80)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_on_a_terminal_does_not_drive_it(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", Terminal(written, encoding, write_through=True))
    as_json({"said": "\x9b31m\x7f\u202e\U000e0141"})
    assert written.getvalue().decode().split("\n")[1].isprintable()
    assert json.loads(written.getvalue()) == {"said": "\x9b31m\x7f\u202e\U000e0141"}


def test_a_picture_of_many_tasks_keeps_to_the_screen_and_shows_what_moves() -> None:
    plan = {"tasks": [{"id": f"t{number:04}", "lane": "backend"} for number in range(3_000)]}
    shown = board([event("plan.made", texts={"plan": json.dumps(plan)}, tasks=3_000, waves=1, by="user")])
    attempt: dict[str, Any] = {"lane": "backend", "rung": "cheap", "attempt": 1, "provider": "p"}
    shown.take(event("task.attempted", 5, task="t2500", **attempt))
    lines = drawn(shown, room=10).splitlines()
    assert len(lines) < 18
    assert any("t2500" in line and "working" in line for line in lines)
    assert any("2,990 more" in line for line in lines)


@pytest.mark.parametrize(("findings", "said"), [(None, ""), ("[]", ""), ("no json", "no json"), ("[3]", "[3]")])
def test_reasons_that_are_not_findings_are_shown_as_they_are(findings: str | None, said: str) -> None:
    assert reason(findings) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61, "1 min 01 s"), (7_260, "2 h 01 min")]
)
def test_durations_read_like_speech(seconds: float, said: str) -> None:
    assert narrate.duration(seconds) == said


@pytest.mark.parametrize(
    ("nano", "said"),
    [
        (0, "$0"),
        (45, "$0.000000045"),
        (10_500, "$0.0000105"),
        (1_230_000, "$0.00123"),
        (15_500_000, "$0.0155"),
        (500_000_000, "$0.50"),
        (12_345_678_901, "$12.35"),
    ],
)
def test_small_money_is_not_rounded_away(nano: int, said: str) -> None:
    assert narrate.dollars(nano) == said


def on_a_terminal(place: Path, *words: str, blocking: bool = False, **more: str) -> tuple[str, str]:
    """What a command prints on standard output, a pipe, and on standard error, a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TERM": "xterm-256color", **more}.items():
            patch.setenv(name, value)
        process = started(place, *words, blocking=blocking, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 65_536)
        except OSError:
            break
    os.close(master)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, shown
    return out, shown.decode()


def bare(shown: str) -> str:
    """What stays of a terminal's output without the sequences that move and colour."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


SUBMIT = ("submit", "compare three queues", "--provider", "rehearsal", "--ledger", "l.db")


def test_a_terminal_gets_a_live_picture_and_the_pipe_the_answer_alone(tmp_path: Path) -> None:
    out, shown = on_a_terminal(workplace(tmp_path), *SUBMIT)
    assert out.splitlines() == ["[rehearsal] No model was asked. Here would stand the answer."]
    assert "✓ look" in bare(shown)
    assert "answered" in shown
    assert "`hansard runs show " in shown


def test_no_color_is_heeded(tmp_path: Path) -> None:
    _, shown = on_a_terminal(workplace(tmp_path), *SUBMIT, NO_COLOR="1")
    assert "✓ look" in bare(shown)
    assert "\x1b[32m" not in shown


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    _, shown = on_a_terminal(workplace(tmp_path), *SUBMIT, TERM="dumb")
    assert "passed      look" in shown
    assert "\x1b" not in shown


def test_a_terminal_without_rich_gets_plain_lines(tmp_path: Path) -> None:
    _, shown = on_a_terminal(workplace(tmp_path), *SUBMIT, blocking=True)
    assert "passed      look" in shown
    assert (tmp_path / "blocked" / "asked").exists()


def test_a_pipe_gets_nothing_and_does_not_even_load_rich(tmp_path: Path) -> None:
    process = started(workplace(tmp_path), *SUBMIT, blocking=True)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("[rehearsal]")
    assert not (tmp_path / "blocked" / "asked").exists()


def test_a_pipe_gets_plain_lines_when_it_asks(tmp_path: Path) -> None:
    process = started(workplace(tmp_path), *SUBMIT, "--progress", "plain")
    out, err = process.communicate(timeout=60)
    assert len(out.splitlines()) == 1
    assert "planned     2 tasks in 2 waves, by the coordinator" in err
