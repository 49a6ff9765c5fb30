"""A ledger that somebody forged, with a chain that holds: whatever stands in its entries, reading ends in a view or in words."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from inspect import isawaitable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from forging import Members, chain, database, drop_checkpoints, read, write
from hansard.app.archived.evaluating import figures, find_held, questions_asked
from hansard.app.driving.chaining import chain_view
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, convening
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.directories import listings_of
from hansard.app.telling.spans import run_spans
from hansard.app.wiring import open_ledger
from hansard.errors import HansardError, Tampered
from hansard.ledger.body import commitment
from hansard.store.base import StoredBody
from shell import hansard

Read = Callable[[Hansard], object]
READS: tuple[Read, ...] = (
    lambda it: [it.runs.show(each["run"]) for each in it.runs.listed()],
    lambda it: [it.runs.page(each["run"]) for each in it.runs.listed()],
    lambda it: [it.runs.capsule(each["run"]) for each in it.runs.listed()],
    lambda it: [it.runs.compare(each["run"], "last") for each in it.runs.listed()],
    lambda it: it.gates.listed(closed=True, questions=True),
    lambda it: it.deliberations.listed(),
    lambda it: chain_view(it.store, it.runs.find("last")),
    lambda it: questions_asked("last", Path("none"), it.store),
    lambda it: figures(find_held("last", Path("none"), it.store)),
    lambda it: [str(listings_of(it.store, each["session_id"])) for each in it.deliberations.listed()],
    lambda it: (it.ledger.summary(), it.ledger.state_at(None)),
)
ODD = (None, "zz", -3, True, [1], {"a": 1})


async def recorded(settings: Settings) -> None:
    """A run that went past a gate, and behind it a deliberation."""
    async with Hansard.open(settings=settings) as it:
        wishes = Wishes(provider="rehearsal", gates=("plan",))
        run = await it.submit("compare three queues", wishes=wishes)
        assert (await run.ended()).state == "waiting"
        [gate] = it.gates.listed()
        await it.gates.decide(gate["gate"], "approve")
        assert (await it.runs.drive(run.id)).state == "answered"
        call = Call(
            problem="keep our own mail server?",
            ensemble=True,
            runs=settings.state.parent / "runs",
            wishes=Wishes(provider="rehearsal"),
        )
        made = convening(settings, it.pool, call)
        assert (await it.deliberations.hold(await it.deliberations.convene(made))).sitting.reason == "synthesis"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("forged")
    made = Settings(ledger=str(folder / "l.db"), state=folder / "state")
    asyncio.run(recorded(made))
    return made


def forged(settings: Settings, folder: Path, change: Callable[[list[Members]], None]) -> Settings:
    """Another ledger beside it, with these entries changed and everything else put right."""
    path = folder / "f.db"
    shutil.copy(settings.ledger, path)
    entries = read(path)
    change(entries)
    write(path, chain(entries))
    drop_checkpoints(path)
    return Settings(ledger=str(path), state=folder / "state")


def reads(settings: Settings) -> Iterator[str]:
    """What reading says where it shows nothing."""
    it = Hansard(open_ledger(settings), settings)
    try:
        for each in READS:
            try:
                json.dumps(each(it))
            except HansardError as error:
                yield str(error)
    finally:
        asyncio.run(it.__aexit__())


def places(settings: Settings) -> list[tuple[int, str]]:
    """One entry for each member of each kind's data."""
    found = {
        (entry["kind"], name): (entry["seq"], name) for entry in read(Path(settings.ledger)) for name in entry["data"]
    }
    return list(found.values())


def test_an_untouched_ledger_is_read_without_a_word(settings: Settings) -> None:
    assert list(reads(settings)) == []
    assert len(places(settings)) > 80


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("missing", [True, False], ids=["missing", "odd"])
def test_no_member_of_any_entry_can_break_reading(settings: Settings, tmp_path: Path, missing: bool, step: int) -> None:
    refused = 0
    for (seq, name), odd in zip(places(settings)[::step], cycle(ODD)):

        def change(entries: list[Members], seq: int = seq, name: str = name, odd: object = odd) -> None:
            data: dict[str, Any] = dict(entries[seq]["data"])
            data.pop(name)
            entries[seq] = entries[seq] | {"data": data if missing else data | {name: odd}}

        refused += bool(list(reads(forged(settings, tmp_path, change))))
    assert refused > 20 // step


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["missing", "odd", "more", "no causes", "other causes"])
def test_no_entry_can_break_whoever_goes_on_with_its_run(
    settings: Settings, tmp_path: Path, how: str, step: int
) -> None:
    """The run as if it had not ended, or its deliberation, driven and run again: to an end, or to words."""
    refused = 0
    for (seq, name), odd in zip(places(settings)[::step], cycle(ODD)):

        def change(entries: list[Members], seq: int = seq, name: str = name, odd: object = odd) -> None:
            entry = entries[seq]
            data: dict[str, Any] = dict(entry["data"])
            match how:
                case "missing":
                    data.pop(name)
                case "odd":
                    data[name] = odd
                case "more":
                    data["more"] = odd
                case _:
                    entry = entry | {"causes": [0] if how == "other causes" and seq else []}
            entries[seq] = entry | {"data": data}
            for entry in entries:
                if entry["kind"] in {"run.ended", "session.ended"}:
                    entry["kind"] = "somebody.else"

        refused += len(asyncio.run(_gone_on_with(forged(settings, tmp_path, change))))
    assert refused > 20 // step


async def _gone_on_with(settings: Settings) -> list[str]:
    said = []
    it = Hansard(open_ledger(settings), settings)
    try:
        for run in dict.fromkeys(entry["run"] for entry in read(Path(settings.ledger)) if entry["run"]):
            for act in (lambda run: run_spans(it.store, run), it.runs.rerun, it.runs.drive):
                try:
                    done = act(run)
                    await done if isawaitable(done) else None
                except HansardError as error:
                    said.append(str(error))
    finally:
        await it.__aexit__()
    return said


def test_a_list_of_runs_shows_what_can_be_shown_beside_a_forged_one(settings: Settings, tmp_path: Path) -> None:
    def change(entries: list[Members]) -> None:
        ended = next(entry for entry in entries if entry["kind"] == "run.ended")
        ended["data"] = {"state": ["answered"], "elapsed_us": "long"}

    made = forged(settings, tmp_path, change)
    it = Hansard(open_ledger(made), made)
    try:
        assert [each["state"] for each in it.runs.listed()] == ["answered", "['answered']"]
        with pytest.raises(
            Tampered, match=r"entry \d+ \(run\.ended\) in .*f\.db is not as Hansard writes it: state is not"
        ):
            it.runs.show(it.runs.listed()[1]["run"])
    finally:
        asyncio.run(it.__aexit__())


@pytest.mark.parametrize(
    ("kind", "part", "body"),
    [
        ("plan.made", "plan", b"[]"),
        ("plan.made", "plan", b'{"tasks":[{"id":"a"}]}'),
        ("plan.made", "plan", b"[" * 100_000),
        ("session.ended", "artifact", b'{"cumulative_unresolved":3}'),
        ("session.ended", "artifact", b"null"),
        ("session.convened", "config", b"{}"),
        ("session.archived", "manifest", b"5"),
        ("panel.selected", "selection", b"[]"),
        ("turn.taken", "message", b'{"usage":1}'),
        ("run.configured", "config", b'{"config":{},"message_shape":"golden"}'),
    ],
)
def test_a_body_that_opens_and_is_no_such_thing_is_named(
    settings: Settings, tmp_path: Path, kind: str, part: str, body: bytes
) -> None:
    place: list[int] = []

    def change(entries: list[Members]) -> None:
        entry = [entry for entry in entries if entry["kind"] == kind][-1]
        stored = _stored(settings, entry["seq"], part)
        entry["body"][part] = commitment(stored.salt, stored.media, body).hex()
        place.append(entry["seq"] << 8 | sorted(entry["body"]).index(part))

    made = forged(settings, tmp_path, change)
    with database(Path(made.ledger)) as into:
        into.execute("UPDATE bodies SET body = ?, shared = NULL WHERE id = ?", (body, place[0]))
    said = list(reads(made))
    assert any(f"the {part} of entry {place[0] >> 8} is not as this version writes it" in each for each in said), said


def test_a_word_about_an_attempt_that_nobody_made_is_named(settings: Settings, tmp_path: Path) -> None:
    def change(entries: list[Members]) -> None:
        next(entry for entry in entries if entry["kind"] == "task.returned")["data"]["attempt"] = 7

    said = list(reads(forged(settings, tmp_path, change)))
    assert any("(task.returned) is about attempt 7, which nobody has made" in each for each in said), said


def test_the_command_says_which_entry_and_where_to_look(settings: Settings, tmp_path: Path) -> None:
    def change(entries: list[Members]) -> None:
        del next(entry for entry in entries if entry["kind"] == "plan.made")["data"]["tasks"]

    made = forged(settings, tmp_path, change)
    run = next(entry["run"] for entry in read(Path(made.ledger)) if entry["kind"] == "plan.made")
    done = hansard(tmp_path, "runs", "show", run, "--ledger", made.ledger)
    assert (done.returncode, done.stdout) == (11, "")
    assert "(plan.made)" in done.stderr
    assert "tasks is missing; `hansard ledger get" in done.stderr


def test_a_record_that_contradicts_itself_is_not_run_again(settings: Settings, tmp_path: Path) -> None:
    def change(entries: list[Members]) -> None:
        next(entry for entry in entries if entry["kind"] == "task.returned")["data"]["error"] = "timeout"

    made = forged(settings, tmp_path, change)
    run = next(entry["run"] for entry in read(Path(made.ledger)) if entry["kind"] == "plan.made")
    done = hansard(tmp_path, "runs", "rerun", run, "--ledger", made.ledger)
    assert (done.returncode, done.stdout) == (11, "")
    assert "(task.returned) contradicts the entries before it: it says that all went well, and an error" in done.stderr
    assert f"run: hansard verify --deep {made.ledger}" in done.stderr


@pytest.mark.parametrize("nobody", [True, False], ids=["in no run", "not there"])
def test_an_id_that_nobody_requested_is_no_run(settings: Settings, tmp_path: Path, nobody: bool) -> None:
    def change(entries: list[Members]) -> None:
        entry = next(entry for entry in entries if entry["kind"] == "run.requested")
        entry |= {"run": ""} if nobody else {"kind": "somebody.else"}

    run = next(entry["run"] for entry in read(Path(settings.ledger)) if entry["kind"] == "run.requested")
    there = ("--ledger", forged(settings, tmp_path, change).ledger)
    for words in (("show", run), ("rerun", run), ("compare", run, "last"), ("page", run), ("capsule", run)):
        done = hansard(tmp_path, "runs", *words, *there)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert (
            f"'{run}' is no run: entries name it, and none of them requests it; `hansard ledger show --run"
            in done.stderr
        )
    assert "gate.opened" in hansard(tmp_path, "ledger", "show", "--run", run, *there).stdout
    listed = hansard(tmp_path, "runs", "list", "--json", *there)
    assert (listed.returncode, run in listed.stdout) == (0, False)


def _stored(settings: Settings, seq: int, part: str) -> StoredBody:
    with open_ledger(settings) as opened:
        found = opened.store.body(seq, part)
    assert found is not None
    return found
