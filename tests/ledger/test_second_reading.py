"""Our verifier against one that was written from the document alone, on logs that chance made and chance spoiled."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansard.ledger.merkle import root_of
from hansard.ledger.verify import Options, verify
from second_reading import read_log
from specimens import FAST, Body, Key, Log
from spoiled import respelled, signed_oddly

ODD: tuple[Any, ...] = (None, True, 0, -1, 7, 2**53, 1.5, "", "x", "é", [], {}, [0, 0], {"a": "b"}, "0" * 64)
CONTENTS = (b"", b"x", b"\xff\xfe", "größe\u2028".encode(), b"a\x00b\n")


def made(chance: random.Random) -> Log:
    """A log that holds, with whatever may stand in one."""
    log = Log.begun(signed=chance.random() < 0.9, seed=str(chance.random()))
    for _ in range(chance.randrange(12)):
        match chance.randrange(6):
            case 0 if log.identity:
                log.rotate(seal=chance.random() < 0.9)
            case 1 if log.identity:
                other = chance.choice(([], [log.epochs[0]], [Key.of("witness.example")]))
                log.checkpoint([log.identity, log.epochs[-1], *other])
            case 2 if log.bodies:
                log.redact(*chance.choice(sorted(log.bodies)), erase=chance.random() < 0.8)
            case 3:
                size = chance.randrange(log.size + 1)
                seen = {"by": "copy", "size": size, "root": root_of(log.leaves[:size]).hex(), "time_us": 5}
                log.append("anchor.recorded", data=seen, run="")
            case _:
                parts = {name: chance.choice(CONTENTS) for name in ("a", "b", "z_9") if chance.random() < 0.5}
                causes = sorted(chance.sample(range(log.size), min(log.size, chance.randrange(3))))
                log.append(data={"t": "\U0001f600\x00", "n": [{}, -(2**53) + 1]}, bodies=parts, causes=causes)
    if log.identity and chance.random() < 0.6:
        log.checkpoint()
    return log


def another_member(log: Log, chance: random.Random) -> None:
    seq = chance.randrange(log.size)

    def change(entry: dict[str, Any]) -> None:
        inside = entry["data"] if entry["data"] and chance.random() < 0.6 else entry
        inside[chance.choice(sorted(inside))] = chance.choice(ODD)

    log.edit(seq, change)
    if chance.random() < 0.5:
        _follow_on(log, seq)


def another_spelling(log: Log, chance: random.Random) -> None:
    seq = chance.randrange(log.size)
    line = log.lines[seq]
    spelled = (
        line + b" ",
        line.replace(b'"v":1', b'"v":1e0'),
        line.replace(b'"seq"', b'"se\\u0071"'),
        line[:-1] + b',"v":1}',
        b"",
    )
    log.lines[seq] = chance.choice(spelled)


def another_order(log: Log, chance: random.Random) -> None:
    of: list[Any] = chance.choice((log.lines, log.checkpoints))
    match chance.randrange(4):
        case 0:
            chance.shuffle(of)
        case 1 if of:
            of.insert(chance.randrange(len(of)), chance.choice(of))
        case 2 if of:
            of.pop(chance.randrange(len(of)))
        case _:
            log.checkpoints.insert(0, Log.begun().note(0, [Key.of(chance.choice((log.origin, "x")))]))


def another_body(log: Log, chance: random.Random) -> None:
    odd = Body(b"\x01" * 32, "text/plain", b"x")
    if log.bodies and chance.random() < 0.7:
        place = chance.choice(sorted(log.bodies))
        here = log.bodies.pop(place)
        others = (None, odd, replace(here, body=here.body + b"x"), replace(here, media="é"), replace(here, media=""))
        if other := chance.choice(others):
            log.bodies[place] = other
    else:
        log.bodies[chance.choice(((0, "a"), (log.size - 1, "zz"), (log.size, "a")))] = odd


def another_note(log: Log, chance: random.Random) -> None:
    if not log.checkpoints:
        return
    at = chance.randrange(len(log.checkpoints))
    note = log.checkpoints[at]
    first, *rest = note.split("\n\n")[-1].splitlines(keepends=True)
    notes = (
        note.replace(log.origin, "other.example", 1),
        note.replace(first, ""),
        note.replace("".join(rest), "") if rest else note,
        note.replace("\n\n", "\nan extension\n\n", 1),
        note.replace("\n\n", "\n\n\n", 1),
        note + first[:-8] + "AAAAAA=\n",
        note + Key.of(log.origin, "another").sign("text").line(),
        note + Key.of(f"{log.origin}/epoch/0", log.seed).sign("another text").line(),
        note + "".join(f"\N{EM DASH} k{number} AAAAAAAA\n" for number in range(100)),
        note.replace("\n\n", f"\n{'x' * (1 << 20)}\n\n", 1),
        note[:-1],
    )
    log.checkpoints[at] = chance.choice(notes)


SPOILING: tuple[Callable[[Log, random.Random], None], ...] = (
    another_member,
    another_spelling,
    another_order,
    another_body,
    another_note,
)


def _follow_on(log: Log, seq: int) -> None:
    """Chained anew as it is: what is odd stays so."""
    before = log.lines[:]
    try:
        log.rechain(seq + 1)
    except TypeError:
        log.lines = before


@pytest.mark.parametrize("spoil", [None, *SPOILING], ids=lambda given: given.__name__ if given else "nothing")
def test_both_conclude_the_same(tmp_path: Path, spoil: Callable[[Log, random.Random], None] | None) -> None:
    codes = set()
    for number in range(40):
        chance = random.Random(f"{spoil and spoil.__name__} {number}")
        log = made(chance)
        if spoil:
            spoil(log, chance)
        codes.add(code_of_both(log.write_jsonl(tmp_path / "x.jsonl"), number))
    assert codes >= ({20} if spoil else {0})


@pytest.mark.parametrize("numbers", [range(120), pytest.param(range(120, 6_000), marks=pytest.mark.long)])
def test_both_conclude_the_same_of_files_that_chance_spoiled(tmp_path: Path, numbers: range) -> None:
    """Line by line, in any of the three files, and with checkpoints that the keys of the log signed oddly."""
    for number in numbers:
        chance = random.Random(number)
        log = made(chance)
        if log.checkpoints and chance.random() < 0.4:
            log.checkpoints[-1] = signed_oddly(log, log.checkpoints[-1], chance)
        path = log.write_jsonl(tmp_path / "x.jsonl")
        for _ in range(chance.choice((0, 1, 1, 2))):
            file = path.with_suffix(chance.choice((".jsonl", ".bodies.jsonl", ".checkpoints.jsonl")))
            *lines, torn = file.read_bytes().split(b"\n")
            if lines:
                at = chance.randrange(len(lines))
                lines[at : at + chance.randrange(2)] = [respelled(lines[at], chance)]
                file.write_bytes(b"\n".join((*lines, torn)))
        code_of_both(path, number)


def code_of_both(path: Path, number: int) -> int:
    report, second = verify(path, Options(deep=True, all_signatures=True), FAST), read_log(path)
    told = [(each.code, each.seq, each.message) for each in report.findings]
    assert report.exit_code == second.exit_code, (number, told, second.odd)
    assert (report.size, report.root) == (second.size, second.root), number
    if not second.odd:
        bodies, signed = report.bodies, report.signed
        ours = (bodies.opened, bodies.redacted, bodies.pending, bodies.missing)
        assert ours == (second.opened, second.redacted, second.pending, second.missing), (number, told)
        sealed = (signed.sealed_to, len(signed.unsealed_rotations))
        assert sealed == (second.sealed, second.unsealed_rotations), (number, told)
    return report.exit_code
