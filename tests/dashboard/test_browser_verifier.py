"""The verifier in the browser against the one in Python: on whatever a forger does, both conclude the same."""

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import spoiled
from daemons import Served
from hansard.ledger import ed25519
from hansard.ledger.canonical import Malformed, dump
from hansard.ledger.checkpoint import format_checkpoint
from hansard.ledger.entry import parse
from hansard.ledger.merkle import EMPTY_ROOT, root_of
from hansard.ledger.note import Signature, VerifierKey, cosignature_message, format_note, parse_note
from hansard.ledger.openings import check_receipt
from hansard.ledger.report import Report
from hansard.ledger.seals import Pin
from hansard.ledger.verify import Options, verify
from hansard.surfaces.cli.receipt_page import receipt_page
from specimens import FAST, Key, Log, honest
from vectors import load
from visitors import Browsing, chromium

pytest.importorskip("playwright", reason="this test needs playwright and chromium (apt install chromium)")
from playwright.sync_api import Page

FAILING = ("structure", "signature", "anchor")
LEDGERS = """async (cases) => {
  const { verifyLedger } = await import("/dashboard/static/ledger.js");
  const { parsePin } = await import("/dashboard/static/note.js");
  const { fromBase64 } = await import("/dashboard/static/bytes.js");
  const check = async ({ lines, notes, pin }) => verifyLedger({
    pages: (async function* () { yield lines.map((each) => fromBase64(each, "a line")); })(),
    notes, pin: pin ? await parsePin(pin) : null, progress: () => {},
  });
  const reports = [];
  for (const each of cases) reports.push(await check(each));
  return reports;
}"""
RECEIPTS = """async (cases) => {
  const { verifyReceipt } = await import("/dashboard/static/receipt.js");
  const { parsePin } = await import("/dashboard/static/note.js");
  const { fromBase64 } = await import("/dashboard/static/bytes.js");
  const check = async ({ data, pin }) => verifyReceipt(fromBase64(data, "it"), pin ? await parsePin(pin) : null);
  return Promise.all(cases.map(async (each) => (await check(each)).findings));
}"""
CONCLUSIONS = """async (cases) => {
  const { verifyReceipt } = await import("/dashboard/static/receipt.js");
  const { parsePin } = await import("/dashboard/static/note.js");
  const { fromBase64 } = await import("/dashboard/static/bytes.js");
  return Promise.all(cases.map(async ({ data, pin }) => {
    const found = await verifyReceipt(fromBase64(data, "it"), pin ? await parsePin(pin) : null);
    if (found.findings.length) return found.findings;
    const { entry, opened, closed, origin, size, signers, epoch, pinned } = found;
    return { seq: entry.seq, opened: Object.keys(opened).sort(), closed: closed.sort(), origin, size, signers, epoch, pinned };
  }));
}"""
WITNESSED = """async (cases) => {
  const { verifyReceipt } = await import("/dashboard/static/receipt.js");
  const { parseWitnesses } = await import("/dashboard/static/note.js");
  const { fromBase64 } = await import("/dashboard/static/bytes.js");
  const check = async ({ data, keys }) => (await verifyReceipt(fromBase64(data, "it"), null, await parseWitnesses(keys))).witnesses;
  return Promise.all(cases.map(async (each) => (await check(each)).map(({ time }) => time === null ? null : String(time))));
}"""
ENTRIES = """async (lines) => {
  const { parseEntry } = await import("/dashboard/static/entry.js");
  const { fromBase64 } = await import("/dashboard/static/bytes.js");
  return lines.map((each) => { try { parseEntry(fromBase64(each, "a line")); return null; } catch (error) { return error.message; } });
}"""
SIGNATURES = """async (cases) => {
  const { isSigned } = await import("/dashboard/static/note.js");
  const { unhex } = await import("/dashboard/static/bytes.js");
  return Promise.all(cases.map(([key, message, signature]) => isSigned(unhex(key), unhex(message), unhex(signature))));
}"""


@pytest.fixture(scope="module")
def page(daemon: Served) -> Iterator[Page]:
    with chromium() as browser:
        browsing = Browsing(browser=browser)
        yield browsing.visit(daemon)
        browsing.close()


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def edit(seq: int, *, chained: bool) -> Callable[[Log], object]:
    def act(log: Log) -> None:
        log.edit(seq, lambda entry: entry["data"].update(task="another"))
        if chained:
            log.rechain(seq)

    return act


def spoiled_by_a_new_key(log: Log) -> None:
    """The seal of a rotation, with a signature of the key that it introduces, which does not hold."""
    log.rotate(seal=False)
    log.checkpoints.append(log.note(keys=[signer(log), log.epochs[-2]]) + log.epochs[-1].sign("another text").line())


def spoiled_by_a_later_key(log: Log) -> None:
    """The same signature where its key is not known yet."""
    log.rotate(seal=False)
    log.checkpoints[-1] += log.epochs[-1].sign("another text").line()


def signer(log: Log) -> Key:
    assert log.identity
    return log.identity


def signed_anew(log: Log) -> None:
    """Rebuilt behind entry 20 by somebody who has today's keys only."""
    edit(20, chained=True)(log)
    log.checkpoints[-1] = log.note()


def spelled_otherwise(log: Log) -> None:
    """A log whose genesis is not of its form, and which is whole otherwise."""
    log.edit(0, lambda entry: entry["data"].update(nonce=entry["data"]["nonce"].upper()))
    log.rechain(0)
    log.checkpoints.clear()


def with_notes(change: Callable[[str], str]) -> Callable[[Log], object]:
    def act(log: Log) -> None:
        log.checkpoints[-1] = change(log.checkpoints[-1])

    return act


def drop(log: Log) -> None:
    del log.lines[20]
    log.rechain(20)


def roll_back(log: Log) -> None:
    log.cut(31)
    log.checkpoints.pop()


def set_the_clock_back(log: Log) -> None:
    log.edit(30, lambda entry: entry.update(ts=1))
    log.rechain(30)


def unsealed_rotation(log: Log) -> None:
    log.grow(2)
    log.rotate(seal=False)
    log.grow(2)
    log.checkpoint()


TOMBSTONE = {"seq": 20, "part": "prompt", "commitment": "0" * 64, "reason": "other"}
ANCHOR = {"by": "copy", "size": 5, "root": "0" * 64, "time_us": 7}
ATTACKS: dict[str, Callable[[Log], object]] = {
    "nothing": lambda log: None,
    "an unsealed tail": lambda log: log.grow(5),
    "an edit": edit(20, chained=False),
    "an edit, chained anew": edit(20, chained=True),
    "an edit of the last": edit(39, chained=False),
    "an edit of the genesis": edit(0, chained=False),
    "a nonce that is none": spelled_otherwise,
    "an edit, signed anew": signed_anew,
    "a line dropped": lambda log: log.lines.pop(20),
    "a line dropped, chained anew": drop,
    "two lines swapped": lambda log: log.lines.insert(20, log.lines.pop(21)),
    "a line twice": lambda log: log.lines.insert(20, log.lines[20]),
    "the tail cut": lambda log: log.cut(35),
    "the tail cut with its checkpoints": roll_back,
    "everything cut": lambda log: log.cut(0),
    "no checkpoints": lambda log: log.checkpoints.clear(),
    "the clock set back": set_the_clock_back,
    "an unsealed rotation": unsealed_rotation,
    "the seal of a rotation lost": lambda log: log.checkpoints.pop(1),
    "another root": with_notes(lambda note: note.replace(note.split("\n")[2], base64(bytes(32)))),
    "a size that not every reader has": with_notes(lambda note: note.replace("\n40\n", f"\n{2**53}\n")),
    "another origin": with_notes(lambda note: note.replace("log.example", "log.other")),
    "no signature of ours": with_notes(lambda note: note.replace("— log.example", "— log.other")),
    "one signature only": with_notes(lambda note: "\n".join(note.split("\n")[:5]) + "\n"),
    "a spoiled signature of the next key": spoiled_by_a_new_key,
    "a spoiled signature of a later key": spoiled_by_a_later_key,
    "a spoiled signature": with_notes(lambda note: note[:-12] + ("A" if note[-12] != "A" else "B") + note[-11:]),
    "checkpoints in another order": lambda log: log.checkpoints.insert(0, log.checkpoints.pop(1)),
    "a checkpoint of a stranger": lambda log: log.checkpoints.append(log.note(keys=[Key.of("stranger", "x")])),
    "no note at all": lambda log: log.checkpoints.append("nonsense"),
    "a checkpoint of no entries": lambda log: log.checkpoints.insert(0, of_nothing(log)),
    "a wrong checkpoint of no entries": lambda log: log.checkpoints.insert(0, of_nothing(log, bytes(32))),
    "a checkpoint of no entries by a stranger": lambda log: log.checkpoints.insert(0, log.note(0, keys=[Key.of("stranger", "x")])),
    "a checkpoint of no entries of another log": lambda log: log.checkpoints.insert(0, log.note(0).replace("log.example", "log.other", 1)),
    "an extension line": lambda log: log.checkpoints.append(extended(log)),
    "a tombstone": lambda log: log.redact(20, "prompt"),
    "a tombstone of nothing": lambda log: log.append("body.redacted", run=""),
    "a tombstone of no number": lambda log: log.append("body.redacted", data=TOMBSTONE | {"seq": "20"}, run=""),
    "a tombstone of what comes later": lambda log: log.append("body.redacted", data=TOMBSTONE | {"seq": 41}, run=""),
    "an anchor": lambda log: log.append("anchor.recorded", data=ANCHOR | {"root": root_of(log.leaves[:5]).hex()}, run=""),
    "an anchor of nothing": lambda log: log.append("anchor.recorded", run=""),
    "an anchor of what comes later": lambda log: log.append("anchor.recorded", data=ANCHOR | {"size": 50}, run=""),
    "a signature by a name with a space of Unicode": with_notes(lambda note: f"{note}\N{EM DASH} a\x85b AAAAAAAA\n"),
    "a signature by a name with a mark": with_notes(lambda note: f"{note}\N{EM DASH} a\ufeffb AAAAAAAA\n"),
    "a note without end": with_notes(lambda note: f"{note}\N{EM DASH} a {base64(bytes(1 << 20))}\n"),
}  # fmt: skip


def of_nothing(log: Log, root: bytes = EMPTY_ROOT) -> str:
    text = format_checkpoint(log.origin, 0, root)
    assert log.identity
    return format_note(text, [log.identity.sign(text), log.epochs[0].sign(text)])


def extended(log: Log) -> str:
    text = log.note().split("\n\n")[0] + "\nextension\n"
    assert log.identity
    return format_note(text, [log.identity.sign(text), log.epochs[-1].sign(text)])


def flips(log: Log) -> Iterator[Log]:
    """One bit of a line or of a note, here and there."""
    for seq in (0, 7, 15, 39):
        for at in range(3, len(log.lines[seq]), 17):
            other = log.copy()
            line = bytearray(other.lines[seq])
            line[at] ^= 1
            other.lines[seq] = bytes(line)
            yield other
    for number, note in enumerate(log.checkpoints):
        for at in range(0, len(note), 13):
            other = log.copy()
            other.checkpoints[number] = note[:at] + chr(ord(note[at]) ^ 1) + note[at + 1 :]
            yield other


def in_python(log: Log, path: Path, pin: str | None) -> Report:
    return verify(log.write_jsonl(path), Options(pin=pin), FAST)


def case(log: Log, pin: str | None) -> dict[str, Any]:
    return {"lines": [base64(line) for line in log.lines], "notes": log.checkpoints, "pin": pin}


def assert_agree(js: dict[str, Any], report: Report) -> None:
    failing = [finding for finding in report.findings if finding.grade in FAILING]
    assert bool(js["findings"]) == bool(failing), (js["findings"], failing)
    assert (js["size"], js["root"], js["sealedTo"]) == (report.size, report.root, report.signed.sealed_to), (
        report.findings
    )
    named = [finding.seq for finding in failing if finding.seq is not None and finding.code not in ("root", "tail_cut")]
    assert js["first"] == min(named, default=None), (js["findings"], failing)
    assert js["unsealedRotations"] == list(report.signed.unsealed_rotations)
    assert js["pinned"] == (report.signed.keys == "pinned")


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
def test_both_conclude_the_same_of_an_attack(page: Page, tmp_path: Path, attack: str, pinned: bool) -> None:
    log = honest()
    pin = log.pin if pinned else None
    ATTACKS[attack](log)
    [js] = page.evaluate(LEDGERS, [case(log, pin)])
    assert_agree(js, in_python(log, tmp_path / "x.jsonl", pin))


def test_a_rebuilt_log_passes_without_a_pin_and_not_with_one(page: Page) -> None:
    forged = Log.begun(seed="forged")
    forged.grow(20)
    forged.checkpoint()
    without, held = page.evaluate(LEDGERS, [case(forged, None), case(forged, honest().pin)])
    assert (without["findings"], without["sealedTo"], without["pinned"]) == ([], 21, False)
    assert held["findings"][0]["seq"] == 0
    assert not held["pinned"]


def test_an_unsigned_log_is_never_called_sealed(page: Page, tmp_path: Path) -> None:
    log = Log.begun(signed=False)
    log.grow(5)
    [js] = page.evaluate(LEDGERS, [case(log, None)])
    assert_agree(js, in_python(log, tmp_path / "x.jsonl", None))
    assert (js["identity"], js["sealedTo"], js["epochs"]) == (None, 0, 0)


def test_both_see_every_flipped_bit(page: Page, tmp_path: Path) -> None:
    log = honest()
    flipped = list(flips(log))
    for js, each in zip(page.evaluate(LEDGERS, [case(each, log.pin) for each in flipped]), flipped, strict=True):
        assert_agree(js, in_python(each, tmp_path / "x.jsonl", log.pin))


def test_the_first_broken_entry_is_named_behind_any_number_of_other_findings(page: Page) -> None:
    log = honest()
    log.checkpoints += ["nonsense"] * 150
    edit(20, chained=False)(log)
    [js] = page.evaluate(LEDGERS, [case(log, log.pin)])
    assert (js["first"], len(js["findings"]), js["more"]) == (20, 100, 52)


def odd_lines() -> Iterator[bytes]:
    """Lines that are almost entries: other spellings of the same, and values just outside of the model."""
    line = honest().lines[20]
    entry = json.loads(line)

    def spelled(**changes: Any) -> bytes:
        return json.dumps(entry | changes, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )

    yield from (
        line,
        line + b" ",
        b" " + line,
        line[:-1],
        b"\xef\xbb\xbf" + line,
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b"\xff",
    )
    yield from (
        line.replace(b'"ok":true', each)
        for each in (b'"ok":1.0', b'"ok":1e3', b'"ok":-0', b'"ok":NaN', b'"ok":true,"ok":true')
    )
    yield from (
        spelled(**{name: value})
        for name in entry
        for value in (None, True, -1, 2**53, 0.5, "", "x", "é", [], {}, [1, 1], {"x": "y"})
    )
    for text in ("\x7f", "\u2028", "\U0001f600", "\ud800", "/", '\x00\x1f\b\f\n\r\t"\\', "</script>", "\ufeff"):
        yield spelled(data={"text": text})
    yield from (
        line.replace(b'"task":"t2"', b'"task":' + each)
        for each in (rb'"\u0041"', rb'"\ud83d\ude00"', rb'"\ud800"', rb'"\/"', rb'"\u001F"', rb'"\u001f"')
    )
    yield from (spelled(data={key: 1}) for key in ("é", "", "__proto__", "constructor", "toString", "10", "9"))
    yield spelled(data={"9": 1, "10": 2, "a": {"b": [], "a": {}}})
    for depth in (29, 30, 31, 32, 33, 40):
        nested: Any = 1
        for _ in range(depth):
            nested = {"a": nested}
        yield spelled(data=nested)
    yield from (
        spelled(causes=causes) for causes in ([0, 1], [1, 0], [1, 1], [19], [20], [-1], [0.5], ["1"], list(range(1001)))
    )
    yield from (spelled(body={part: "a" * 64}) for part in ("prompt", "Prompt", "9", "a" * 32, "a" * 33, ""))
    yield from (spelled(data={"long": "x" * size}) for size in (65_000, 65_600))
    yield from (spelled(kind=kind) for kind in ("a.b", "a", "a.b\n", "a..b", "a.b_c", "a." + "b" * 62, "a." + "b" * 63))
    yield from (spelled(run=run) for run in ("", "a" * 64, "a" * 65, "a\n", "a b"))


def test_both_read_the_same_lines_as_entries(page: Page) -> None:
    lines = list(odd_lines())
    for line, refused in zip(lines, page.evaluate(ENTRIES, [base64(line) for line in lines]), strict=True):
        assert (refused is None) == is_entry(line), (line[:300], refused)


def is_entry(line: bytes) -> bool:
    try:
        parse(line)
    except Malformed:
        return False
    return True


def receipts() -> Iterator[bytes]:
    log = honest()
    good = log.receipt(20, disclose=["prompt"], rotation=30)
    yield good
    yield log.receipt(20, rotation=30)
    yield log.receipt(20)
    yield log.receipt(20, rotation=15)
    yield log.receipt(0, rotation=30)
    yield log.receipt(20, rotation=30, note=log.note(keys=[Key.of("stranger", "x")]))
    yield log.receipt(20, rotation=30, note=log.note() + log.epochs[0].sign("another text").line())
    yield log.receipt(20, rotation=30, note=honest(41).checkpoints[-1])
    log.rotate(seal=False)
    yield log.receipt(20, rotation=40)
    yield from odd_receipts(good)
    yield from (good[:at] for at in range(0, len(good), 97))
    for at in range(0, len(good), 29):
        yield good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]


def odd_receipts(good: bytes) -> Iterator[bytes]:
    """Receipts that say a little more than they should, or say it otherwise."""
    header, extra, rest = good.split(b"\n", 2)
    value = json.loads(b64decode(extra.removeprefix(b"extra ")))
    placed, opening = value["epoch"], value["open"]["prompt"]
    changes: list[dict[str, Any]] = [
        {"more": 1},
        {"epoch": None},
        {"epoch": []},
        {"epoch": placed | {"index": str(placed["index"])}},
        {"epoch": placed | {"index": 29}},
        {"epoch": placed | {"more": 1}},
        {"genesis": value["genesis"] | {"index": 0}},
        {"genesis": value["genesis"] | {"line": value["line"]}},
        {"genesis": value["genesis"] | {"path": [[each] for each in value["genesis"]["path"]]}},
        {"genesis": value["genesis"] | {"path": None}},
        {"open": []},
        {"open": {"prompt": opening | {"more": ""}}},
        {"open": {"prompt": opening | {"media": "a\tb"}}},
        *({"open": {"prompt": opening, part: opening}} for part in ("constructor", "__proto__", "other")),
    ]
    for change in changes:
        yield b"\n".join([header, b"extra " + b64encode(dump(value | change)), rest])
    page = receipt_page(good.decode(), "a receipt").encode()
    shown = b'<script type="text/plain" id="receipt">'
    yield page
    yield page + b"\xff"
    yield page[1:]
    yield page.replace(shown, shown + b"A")
    yield page.replace(shown, shown.replace(b"receipt", b"another"))
    yield page + page
    yield page + shown + b"</script>"
    yield good + "\N{EM DASH} a\x85b AAAAAAAA\n".encode()
    yield good + "\N{EM DASH} a\ufeffb AAAAAAAA\n".encode()
    yield good + f"\N{EM DASH} a {base64(bytes(1 << 20))}\n".encode()


@pytest.mark.parametrize("pinned", [False, True])
def test_both_conclude_the_same_of_a_receipt(page: Page, pinned: bool) -> None:
    pin = honest().pin if pinned else None
    given = list(receipts())
    found = page.evaluate(RECEIPTS, [{"data": base64(each), "pin": pin} for each in given])
    assert found[0] == []
    for data, findings in zip(given, found, strict=True):
        report = check_receipt(data, pin=Pin.parse(pin) if pin else None, tools=FAST)
        failing = [each for each in report.findings if each.grade in FAILING]
        assert bool(findings) == bool(failing), (findings, failing)


@pytest.mark.parametrize("numbers", [range(200), pytest.param(range(200, 6_000), marks=pytest.mark.long)])
def test_both_conclude_the_same_of_a_receipt_that_chance_spoiled(page: Page, numbers: range) -> None:
    accepted = 0
    for start in range(numbers.start, numbers.stop, 200):
        made = [spoiled.receipt(random.Random(number)) for number in numbers[start - numbers.start :][:200]]
        pins = [log.pin if number % 2 else None for number, (log, _) in enumerate(made)]
        given = [{"data": base64(data), "pin": pin} for (_, data), pin in zip(made, pins, strict=True)]
        found = page.evaluate(CONCLUSIONS, given)
        for number, (_, data), pin, js in zip(numbers[start - numbers.start :], made, pins, found, strict=False):
            report = check_receipt(data, pin=Pin.parse(pin) if pin else None, tools=FAST)
            failing = [each for each in report.findings if each.grade in FAILING]
            assert isinstance(js, list) == bool(failing), (number, js, failing)
            if not failing:
                assert js == concluded(report), number
                accepted += 1
    assert len(numbers) / 10 < accepted < len(numbers) / 2


def concluded(report: Report) -> dict[str, Any]:
    """What a receipt that holds shows, as the browser says it."""
    shown, signed = report.receipt, report.signed
    assert shown
    return {
        "seq": shown.index,
        "opened": list(shown.opened),
        "closed": list(shown.closed),
        "origin": report.origin,
        "size": report.size,
        "signers": list(shown.signed_by),
        "epoch": signed.epochs - 1,
        "pinned": signed.keys == "pinned",
    }


def cosignature(key: VerifierKey, private: Key, text: str, time_s: int, *, said: int | None = None) -> str:
    """The word of a witness on a checkpoint, which may say another time than it was signed for."""
    blob = private.private.sign(cosignature_message(text, time_s))
    at = (time_s if said is None else said).to_bytes(8, "big")
    return Signature(name=key.name, key_id=key.key_id, blob=at + blob).line()


def test_both_hear_the_same_witnesses_of_a_receipt(page: Page) -> None:
    log, privates = honest(), [Key.of("witness.example/w1"), Key.of("witness.example/w2")]
    keys = [VerifierKey.cosigner(each.name, each.private.public_key().public_bytes_raw()) for each in privates]
    [one, other], note = zip(keys, privates, strict=True), log.checkpoints[-1]
    text, now = parse_note(note).text, 1_800_000_000
    lines = [
        [],
        [cosignature(*one, text, now)],
        [cosignature(*one, text, now), cosignature(*other, text, now + 5)],
        [cosignature(*one, text, now), cosignature(*one, text, now + 5)],
        [cosignature(*one, text, now, said=now + 1)],
        [cosignature(*one, text, now), cosignature(*one, text, now, said=now + 1)],
        [cosignature(*one, "another text\n", now)],
        [cosignature(one[0], other[1], text, now)],
        [cosignature(*one, text, 2**63 - 1)],
        [cosignature(*one, text, 2**63)],
        [Signature(name=one[0].name, key_id=one[0].key_id, blob=bytes(8)).line()],
        [Signature(name=one[0].name, key_id=one[0].key_id, blob=one[1].private.sign(text.encode())).line()],
    ]
    given = [log.receipt(20, rotation=30, note=note + "".join(each)) for each in lines]
    told = page.evaluate(
        WITNESSED, [{"data": base64(each), "keys": " ".join(each.text() for each in keys)} for each in given]
    )
    for data, times in zip(given, told, strict=True):
        report = check_receipt(data, witnesses=keys, tools=FAST)
        assert not [each for each in report.findings if each.grade in FAILING]
        seen = {each.name: str(each.time_s) for each in report.witnessed}
        assert times == [seen.get(key.name) for key in keys]
    assert told[2] == [str(now), str(now + 5)]


def test_both_judge_the_odd_signatures_alike(page: Page) -> None:
    cases = [
        (each["key"], each["msg"].encode().hex(), each["sig"])
        for each in load("cctv-ed25519/ed25519/ed25519vectors.json")
    ]
    ours = [ed25519.verify(*map(bytes.fromhex, each)) for each in cases]
    assert page.evaluate(SIGNATURES, cases) == ours
