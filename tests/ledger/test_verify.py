"""What is asked for is reached or not, and the report says which: keys, pins, anchors, bodies, prefixes, processes."""

import json
import os
import sqlite3
import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import orjson
import pytest

from hansard.ledger import parallel
from hansard.ledger.canonical import dump
from hansard.ledger.merkle import consistency_proof
from hansard.ledger.report import Report, lines
from hansard.ledger.tools import Tools
from hansard.ledger.verify import CannotRead, Options, verify
from specimens import FAST, ORIGIN, START_US, Body, Key, Leaves, Log, honest


def codes(report: Report) -> list[str]:
    return [each.code for each in report.findings]


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Report]:
    """Verify a log in every form, and give the one report that they agree on."""

    def verified(log: Log, options: Options = Options()) -> Report:  # noqa: B008
        number = len(list(tmp_path.iterdir()))
        reports = [
            verify(path, options, FAST)
            for path in (log.write_sqlite(tmp_path / f"{number}.db"), log.write_jsonl(tmp_path / f"{number}.jsonl"))
        ]
        same = {
            (each.exit_code, each.size, each.root, each.signed, each.bodies, each.brackets, tuple(sorted(codes(each))))
            for each in (
                replace(each, findings=tuple(f for f in each.findings if f.code != "head")) for each in reports
            )
        }
        assert len(same) == 1, [codes(each) for each in reports]
        return reports[1]

    return verified


Check = Callable[..., Report]


class TestSignatures:
    def test_an_honest_log_is_sealed_to_its_end_by_keys_of_its_own(self, check: Check) -> None:
        log = honest()
        report = check(log)
        signed = report.signed
        assert report.findings == ()
        assert (signed.sealed_to, signed.newest, signed.checkpoints, signed.epochs) == (40, 40, 5, 3)
        assert (signed.keys, signed.identity) == (
            "self-asserted",
            log.identity.verifier.text() if log.identity else None,
        )
        assert signed.checked == 6
        assert any("no pin" in each for each in report.not_proven)

    def test_all_signatures_are_checked_when_asked_for(self, check: Check) -> None:
        assert check(honest(), Options(all_signatures=True)).signed.checked == 10

    def test_an_unsigned_log_is_not_called_sealed(self, check: Check) -> None:
        log = Log.begun(signed=False)
        log.grow(5)
        report = check(log)
        assert report.ok
        assert (report.custody, report.signed.sealed_to, report.signed.keys) == ("none", 0, "none")
        assert check(log, Options(strict=True)).exit_code == 23

    def test_checkpoints_of_an_unsigned_log_are_a_finding(self, check: Check) -> None:
        log = Log.begun(signed=False)
        log.checkpoints.append(honest().note(1))
        assert "checkpoint_of_unsigned" in codes(check(log))

    def test_the_tail_after_the_last_checkpoint_is_a_fact_and_not_a_fault(self, check: Check) -> None:
        log = honest()
        log.grow(3)
        report = check(log)
        assert (report.findings, report.unsealed_tail, report.signed.sealed_to) == ((), 3, 40)
        assert any("3 entries past size 40" in each for each in report.not_proven)

    @pytest.mark.parametrize("which", [0, 1, 2, 4])
    def test_a_checkpoint_with_another_root_is_caught(self, check: Check, which: int) -> None:
        log = honest()
        other = log.copy()
        other.edit(2, lambda entry: entry["data"].update(task="t9"))
        other.rechain(3)
        size = int(log.checkpoints[which].split("\n")[1])
        log.checkpoints[which] = other.note(size, keys=[other.identity, other.epochs[0]] if other.identity else [])
        report = check(log)
        assert "root" in codes(report)
        assert report.exit_code == 20

    def test_a_checkpoint_beyond_the_log_shows_that_the_tail_was_cut(self, check: Check) -> None:
        log = honest()
        log.cut(35)
        report = check(log)
        assert ("tail_cut", 35) in [(each.code, each.seq) for each in report.findings]
        assert report.exit_code == 20

    @pytest.mark.parametrize("which", [1, 3, 4])
    def test_a_bad_signature_that_seals_is_always_caught(self, check: Check, which: int) -> None:
        log = honest()
        log.checkpoints[which] = broken_signature(log.checkpoints[which])
        report = check(log)
        assert "checkpoint_signature" in codes(report)
        assert report.exit_code == 20

    @pytest.mark.parametrize("which", [0, 2])
    def test_other_bad_signatures_are_caught_when_asked_for(self, check: Check, which: int) -> None:
        log = honest()
        log.checkpoints[which] = broken_signature(log.checkpoints[which])
        assert check(log).ok
        assert codes(check(log, Options(all_signatures=True))) == ["checkpoint_signature"]

    def test_a_checkpoint_that_no_key_of_the_log_signed_is_caught(self, check: Check) -> None:
        log = honest()
        log.checkpoints[2] = log.note(25, keys=[Key.of("stranger.example")])
        assert codes(check(log)) == ["checkpoint_unsigned"]

    def test_a_checkpoint_of_another_log_is_caught(self, check: Check) -> None:
        log = honest()
        text = log.note(25).replace(ORIGIN, "other.example.invalid", 1)
        log.checkpoints[2] = text
        assert "checkpoint_origin" in codes(check(log))

    def test_a_checkpoint_of_no_entries_is_looked_at_like_any_other(self, check: Check) -> None:
        stranger = honest().note(0, keys=[Key.of("stranger.example")])
        for note, found in (
            (honest().note(0, keys=[Key.of(ORIGIN), Key.of(f"{ORIGIN}/epoch/0")]), []),
            (stranger, ["checkpoint_unsigned"]),
            (stranger.replace(ORIGIN, "other.example.invalid", 1), ["checkpoint_origin"]),
        ):
            log = honest()
            log.checkpoints.insert(0, note)
            assert codes(check(log)) == found
        unsigned = Log.begun(signed=False)
        unsigned.checkpoints.append(stranger)
        assert codes(check(unsigned)) == ["checkpoint_of_unsigned"]

    def test_a_checkpoint_with_one_of_two_signatures_seals_nothing(self, check: Check) -> None:
        for key in (0, 1):
            log = honest()
            assert log.identity is not None
            log.checkpoints[4] = log.note(keys=[(log.identity, log.epochs[-1])[key]])
            report = check(log)
            assert [(each.code, each.grade) for each in report.findings] == [("half_signed", "warning")]
            assert (report.signed.sealed_to, report.signed.newest) == (31, 40)

    def test_the_newest_checkpoint_is_checked_where_it_seals_nothing(self, check: Check) -> None:
        log = honest()
        assert log.identity is not None
        log.checkpoints[4] = broken_signature(log.note(keys=[log.identity]))
        assert codes(check(log)) == ["checkpoint_signature", "half_signed"]

    def test_a_retired_key_seals_nothing_any_more(self, check: Check) -> None:
        log = honest()
        assert log.identity is not None
        log.checkpoints[4] = log.note(keys=[log.identity, log.epochs[1]])
        report = check(log)
        assert codes(report) == ["half_signed"]
        assert report.signed.sealed_to == 31

    def test_several_checkpoints_of_one_size_are_no_finding(self, check: Check) -> None:
        log = honest()
        log.checkpoints[1:2] = [log.checkpoints[1]] * 3
        log.checkpoints.append(log.checkpoints[-1])
        report = check(log, Options(all_signatures=True))
        assert (report.findings, report.signed.sealed_to) == ((), 40)

    def test_the_largest_sealed_size_is_found_behind_newer_checkpoints_that_do_not_seal(self, check: Check) -> None:
        log = honest()
        assert log.identity is not None
        for _ in range(5):
            log.grow(1)
            log.checkpoint([log.identity])
        assert check(log).signed.sealed_to == 40

    @pytest.mark.parametrize("all_signatures", [False, True])
    def test_a_key_is_known_from_the_entry_on_that_introduces_it(self, check: Check, all_signatures: bool) -> None:
        log = honest()
        log.rotate(seal=False)
        old, new = log.epochs[-2:]
        assert log.identity
        sealed = log.note(keys=[log.identity, old])
        bad = new.sign("another text").line()
        log.checkpoints.append(sealed + bad)
        report = check(log, Options(all_signatures=all_signatures))
        assert (report.exit_code, report.signed.unsealed_rotations) == (20, (40,))
        log.checkpoints[-2:] = [log.checkpoints[-2] + bad]
        report = check(log, Options(all_signatures=all_signatures))
        assert (report.exit_code, report.signed.sealed_to) == (0, 40)

    def test_a_log_of_rotations_only_is_followed(self, check: Check) -> None:
        log = Log.begun()
        for _ in range(5):
            log.rotate()
        report = check(log)
        assert (report.findings, report.signed.sealed_to, report.signed.epochs) == ((), 6, 6)

    def test_checkpoints_that_do_not_stand_in_the_order_of_writing_are_caught(self, tmp_path: Path) -> None:
        log = honest()
        log.checkpoints[1], log.checkpoints[2] = log.checkpoints[2], log.checkpoints[1]
        for path in (log.write_sqlite(tmp_path / "x.db"), log.write_jsonl(tmp_path / "x.jsonl")):
            report = verify(path, Options(), FAST)
            assert report.exit_code == 20
            assert any("size 16" in each.message and "behind" in each.message for each in report.findings)

    @pytest.mark.parametrize(
        "data",
        [
            {"epoch": 2, "key": Key.of(f"{ORIGIN}/epoch/2").verifier.text(), "reason": "day"},
            {"epoch": 1, "key": Key.of(f"{ORIGIN}/epoch/2").verifier.text(), "reason": "day"},
            {"epoch": 1, "key": "nonsense", "reason": "day"},
            {"epoch": 1, "reason": "day"},
        ],
    )
    def test_a_rotation_that_is_not_the_next_is_caught(self, check: Check, data: dict[str, object]) -> None:
        log = Log.begun()
        log.append("key.rotated", data=data)
        report = check(log)
        assert report.exit_code == 20
        assert report.first_bad is not None
        assert report.first_bad.seq == 1


class TestAnUnsealedRotation:
    def lost(self) -> Log:
        log = Log.begun()
        log.grow(9)
        log.checkpoint()
        log.grow(3)
        log.rotate(seal=False)
        log.grow(5)
        log.checkpoint()
        return log

    def test_is_a_warning_for_good_and_ends_what_counts_as_sealed(self, check: Check) -> None:
        report = check(self.lost())
        assert [(each.code, each.grade, each.seq) for each in report.findings] == [("unsealed_rotation", "warning", 13)]
        assert (report.signed.sealed_to, report.signed.newest, report.signed.unsealed_rotations) == (10, 19, (13,))

    def test_is_not_a_grade_that_a_pin_or_strictness_reaches(self, check: Check) -> None:
        log = self.lost()
        assert check(log, Options(pin=log.pin)).exit_code == 23
        assert check(log, Options(strict=True)).exit_code == 23

    def test_is_not_healed_by_the_new_key_signing_in_its_place(self, check: Check) -> None:
        log = self.lost()
        assert log.identity is not None
        log.checkpoints.insert(1, log.note(14, keys=[log.identity, log.epochs[1]]))
        report = check(log)
        assert report.signed.unsealed_rotations == (13,)
        assert report.signed.sealed_to == 10

    def test_later_signatures_are_still_checked(self, check: Check) -> None:
        log = self.lost()
        log.checkpoints[-1] = broken_signature(log.checkpoints[-1])
        assert "checkpoint_signature" in codes(check(log))


class TestThePin:
    def test_an_honest_log_agrees_with_its_pin(self, check: Check, tmp_path: Path) -> None:
        log = honest()
        (tmp_path / "pin.txt").write_text(log.pin + "\n")
        for pin in (log.pin, str(tmp_path / "pin.txt")):
            report = check(log, Options(pin=pin))
            assert (report.findings, report.signed.keys) == ((), "pinned")
            assert not any("no pin" in each for each in report.not_proven)

    @pytest.mark.parametrize(
        "other",
        [Log.begun(seed="new keys"), Log.begun(epoch_seed="new genesis"), Log.begun(signed=False)],
        ids=["new keys", "new genesis under the same key", "unsigned"],
    )
    def test_another_log_contradicts_it(self, check: Check, other: Log) -> None:
        report = check(other, Options(pin=honest().pin))
        assert report.exit_code == 21
        assert report.signed.keys != "pinned"

    def test_an_unsealed_tail_is_a_warning_under_it_and_a_failure_when_strict(self, check: Check) -> None:
        log = honest()
        log.grow(2)
        report = check(log, Options(pin=log.pin))
        assert (codes(report), report.exit_code) == (["unsealed_tail"], 0)
        assert check(log, Options(pin=log.pin, strict=True)).exit_code == 23

    def test_a_log_with_nothing_sealed_does_not_reach_it(self, check: Check) -> None:
        log = Log.begun()
        log.grow(3)
        report = check(log, Options(pin=log.pin))
        assert (codes(report), report.exit_code) == (["not_sealed"], 23)

    def test_of_a_log_without_keys_no_pin_holds(self, check: Check) -> None:
        log = Log.begun(signed=False)
        report = check(log, Options(pin=f"{Key.of(ORIGIN).verifier.text()}@{log.leaves[0].hex()}"))
        assert (codes(report), report.exit_code, report.signed.keys) == (
            ["pin_identity", "unsealed_tail"],
            21,
            "none",
        )

    @pytest.mark.parametrize("pin", ["", "nonsense", "a+b+c@d", f"{honest().pin}0", honest().pin.upper()])
    def test_a_bad_pin_is_the_callers_mistake(self, tmp_path: Path, pin: str) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        with pytest.raises(CannotRead):
            verify(path, Options(pin=pin))


class TestAgainst:
    def kept(self, folder: Path, data: str | bytes) -> str:
        path = folder / f"kept-{len(list(folder.iterdir()))}"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    def test_a_log_extends_checkpoints_receipts_and_consistency_files_of_its_past(
        self, check: Check, tmp_path: Path
    ) -> None:
        log = honest()
        older = log.copy()
        older.cut(20)
        anchors = (
            self.kept(tmp_path, log.note(7)),
            self.kept(tmp_path, older.receipt(4, note=log.note(20))),
            self.kept(tmp_path, consistency(log, 10, 33)),
            self.kept(tmp_path, log.note(40)),
        )
        report = check(log, Options(against=anchors))
        assert report.findings == ()
        assert [(each.size, each.ok) for each in report.anchors] == [(7, True), (20, True), (33, True), (40, True)]
        assert not any("newest state" in each for each in report.not_proven)

    def test_a_rolled_back_log_contradicts_it(self, check: Check, tmp_path: Path) -> None:
        log = honest()
        kept = self.kept(tmp_path, log.note())
        log.cut(31)
        del log.checkpoints[-1]
        report = check(log, Options(against=(kept,)))
        assert (codes(report), report.exit_code) == (["rollback"], 21)

    def test_a_forked_log_contradicts_it(self, check: Check, tmp_path: Path) -> None:
        log = honest()
        kept = self.kept(tmp_path, log.note())
        forked = log.copy()
        forked.cut(31)
        forked.grow(12)
        forked.edit(33, lambda entry: entry["data"].update(task="t9"))
        forked.rechain(34)
        forked.checkpoints[-1] = forked.note()
        assert check(forked).ok
        report = check(forked, Options(against=(kept,)))
        assert (codes(report), report.exit_code) == (["fork"], 21)

    def test_a_checkpoint_of_another_log_contradicts_it(self, check: Check, tmp_path: Path) -> None:
        other = Log.begun(origin="other.example.invalid", seed="other")
        report = check(honest(), Options(against=(self.kept(tmp_path, other.note()),)))
        assert (codes(report), report.exit_code) == (["anchor_origin"], 21)

    def test_a_log_whose_genesis_cannot_be_read_is_held_against_it_all_the_same(
        self, check: Check, tmp_path: Path
    ) -> None:
        log = honest()
        kept = self.kept(tmp_path, log.note())
        log.edit(0, lambda entry: entry["data"].update(nonce="none"))
        assert {"genesis", "fork"} <= set(codes(check(log, Options(against=(kept,)))))

    def test_a_file_that_is_longer_than_any_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path, kept = honest().write_jsonl(tmp_path / "x.jsonl"), self.kept(tmp_path, honest().note())
        longest = len(honest().note().encode())
        monkeypatch.setattr("hansard.ledger.anchors.MAX_RECEIPT", longest)
        assert verify(path, Options(against=(kept,)), FAST).ok
        monkeypatch.setattr("hansard.ledger.anchors.MAX_RECEIPT", longest - 1)
        with pytest.raises(CannotRead, match="is larger than"):
            verify(path, Options(against=(kept,)))

    def test_a_consistency_proof_that_does_not_fit_contradicts_it(self, check: Check, tmp_path: Path) -> None:
        log = honest()
        other = log.copy()
        other.edit(2, lambda entry: entry["data"].update(task="t9"))
        mixed = consistency(other, 10, 33).split("\n\n")[0] + "\n\n" + log.note(33)
        assert codes(check(log, Options(against=(self.kept(tmp_path, mixed),)))) == ["consistency"]
        unproven = f"old 10\n\n{log.note(33)}"
        assert codes(check(log, Options(against=(self.kept(tmp_path, unproven),)))) == ["consistency"]
        of_nothing = consistency(log, 10, 33).replace("old 10", "old 0")
        assert codes(check(log, Options(against=(self.kept(tmp_path, of_nothing),)))) == ["consistency"]
        assert not check(log, Options(against=(self.kept(tmp_path, f"old 0\n\n{log.note(33)}"),))).findings

    def test_its_signatures_are_not_needed_and_a_bad_one_is_told(self, check: Check, tmp_path: Path) -> None:
        log = honest()
        stranger = self.kept(tmp_path, log.note(7, keys=[Key.of("stranger.example")]))
        assert check(log, Options(against=(stranger,))).findings == ()
        broken = self.kept(tmp_path, broken_signature(log.note(7, keys=[log.epochs[0]])))
        report = check(log, Options(against=(broken,)))
        assert [(each.code, each.grade) for each in report.findings] == [("anchor_signature", "warning")]

    @pytest.mark.parametrize(
        "data", [b"", b"nonsense", b"old 5\n", b"old x\n\nnote", b"c2sp.org/tlog-proof@v1\n", b"\xff" * 40]
    )
    def test_a_file_that_is_no_anchor_is_the_callers_mistake(self, tmp_path: Path, data: bytes) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        with pytest.raises(CannotRead):
            verify(path, Options(against=(self.kept(tmp_path, data),)))
        with pytest.raises(CannotRead):
            verify(path, Options(against=(str(tmp_path / "missing"),)))


class TestSince:
    @pytest.mark.parametrize("size", [10, 16, 17, 25, 31, 32, 40, 300, 512, 599])
    def test_reads_what_follows_and_names_the_prefix(self, check: Check, tmp_path: Path, size: int) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(size))
        report = check(log, Options(since=str(tmp_path / "kept"), deep=True))
        assert report.findings == ()
        assert (report.unread_prefix, report.size, report.signed.sealed_to) == (size, 600, 600)
        assert report.bodies.parts == sum(1 for seq, _ in log.bodies if seq >= size)
        assert any(f"{size} entries before --since" in each for each in report.not_proven)

    def test_the_indexes_are_not_read_and_the_report_says_so(self, tmp_path: Path) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        path = log.write_sqlite(tmp_path / "x.db")
        report = verify(path, Options(since=str(tmp_path / "kept")), FAST)
        assert any("indexes" in each for each in report.not_proven)
        assert not any("indexes" in each for each in verify(path, Options(), FAST).not_proven)

    def test_damage_behind_it_is_not_seen_and_damage_after_it_is(self, tmp_path: Path) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        asked = Options(since=str(tmp_path / "kept"))
        path = log.write_sqlite(tmp_path / "x.db")
        edit(path, 300)
        assert verify(path, replace(asked, since=None), FAST).exit_code == 20
        report = verify(path, asked, FAST)
        assert "integrity" not in codes(report)
        assert (report.ok, report.unread_prefix) == (True, 520)
        edit(path, 550)
        later = verify(path, asked, FAST)
        assert later.first_bad is not None
        assert later.first_bad.seq == 550

    def test_a_log_that_does_not_stand_there_is_read_whole(self, check: Check, tmp_path: Path) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        log.edit(100, lambda entry: entry["data"].update(task="t9"))
        log.rechain(101)
        log.checkpoints = []
        report = check(log, Options(since=str(tmp_path / "kept")))
        assert "fork" in codes(report)
        assert (report.exit_code, report.unread_prefix) == (21, 0)

    @pytest.mark.parametrize("left", [400, 515])
    def test_a_log_that_is_shorter_is_a_rollback(self, check: Check, tmp_path: Path, left: int) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        log.cut(left)
        log.checkpoints.pop()
        report = check(log, Options(since=str(tmp_path / "kept")))
        assert (codes(report), report.exit_code) == (["rollback"], 21)

    def test_what_sealed_the_log_before_it_still_does(self, check: Check, tmp_path: Path) -> None:
        log = honest(600)
        log.grow(5)
        (tmp_path / "kept").write_text(log.note())
        assert log.identity
        log.checkpoint([log.identity])
        log.grow(5)
        plain, since = Options(pin=log.pin), Options(pin=log.pin, since=str(tmp_path / "kept"))
        report = check(log, since)
        assert (report.exit_code, report.unread_prefix, report.signed.sealed_to) == (0, 605, 600)
        assert codes(report) == codes(check(log, plain)) == ["half_signed", "unsealed_tail"]
        export = log.write_export(tmp_path / "export", published=log.checkpoints[-2])
        assert (
            codes(verify(export, since, FAST)) == codes(verify(export, plain, FAST)) == ["half_signed", "unsealed_tail"]
        )

    @pytest.mark.parametrize("erase", [True, False])
    def test_what_was_to_be_erased_since_is_missed_in_the_prefix_too(
        self, check: Check, tmp_path: Path, erase: bool
    ) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note())
        named = [(seq, part) for seq, part in log.bodies if seq < 600][:3]
        for each in named if erase else named * 2:
            log.redact(*each, erase=erase)
        log.checkpoint()
        report = check(log, Options(since=str(tmp_path / "kept"), strict=True))
        assert (report.exit_code, report.bodies.pending) == ((0, 0) if erase else (23, 3))
        assert erase or any("3 pending" in each for each in lines(report))

    def test_a_checkpoint_before_it_is_of_this_log_too(self, check: Check, tmp_path: Path) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note())
        other = honest(600).note(598).replace("\n598\n", "\n599\n")
        log.checkpoints.insert(-1, other)
        assert check(log, Options(since=str(tmp_path / "kept"))).exit_code == 20

    @pytest.mark.parametrize("size", [520, 40])
    def test_whoever_names_keys_of_his_own_before_it_is_caught(self, tmp_path: Path, size: int) -> None:
        """The stored nodes are left as they were: they give the tree of that checkpoint, whatever the lines have become."""
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(size))
        forged = log.copy()
        forged.cut(size)
        forged.grow(50)
        forged.identity, *forged.epochs = (Key.of(key.name, "forger") for key in (log.identity, *log.epochs) if key)
        forged.checkpoints = [forged.note()]
        path = forged.write_sqlite(tmp_path / "x.db")
        named = {0: {"identity": forged.identity, "epoch_key": forged.epochs[0]}}
        named |= {seq: {"key": forged.epochs[epoch]} for epoch, seq in ((1, 15), (2, 30))}
        for seq, keys in named.items():
            edit_data(path, seq, {name: key.verifier.text() for name, key in keys.items()})
        report = verify(path, Options(since=str(tmp_path / "kept"), strict=True), FAST)
        assert (report.exit_code, report.unread_prefix) == (20, 0)
        assert [each.seq for each in report.findings if each.code == "chain"] == [0, 15, 30]

    def test_a_log_whose_genesis_was_taken_away_is_read_whole(self, tmp_path: Path) -> None:
        """Without it there would be no keys to hold against a pin, and the pin would hold of whatever stands there."""
        log = Log.begun()
        log.grow(549)
        (tmp_path / "kept").write_text(log.note(520))
        path = log.write_sqlite(tmp_path / "x.db")
        tampered(path, "DELETE FROM entries WHERE seq = 0")
        report = verify(path, Options(since=str(tmp_path / "kept"), pin=log.pin), FAST)
        assert (report.exit_code, report.unread_prefix) == (20, 0)

    @pytest.mark.parametrize("first", ["task.answered", "key.rotated"])
    def test_a_log_that_does_not_begin_with_a_genesis_is_read_whole(
        self, check: Check, tmp_path: Path, first: str
    ) -> None:
        log = honest()
        key = Key.of(f"{ORIGIN}/epoch/1").verifier.text()
        log.edit(0, lambda entry: entry.update(kind=first, data={"epoch": 1, "key": key, "reason": "day"}))
        log.rechain(1)
        (tmp_path / "kept").write_text(log.note(35))
        log.checkpoints = []
        report = check(log, Options(since=str(tmp_path / "kept")))
        assert [(each.code, each.seq) for each in report.findings] == [("genesis", 0)]

    def test_a_rotation_before_it_that_brings_no_key_is_a_finding(self, check: Check, tmp_path: Path) -> None:
        log = Log.begun()
        log.append("key.rotated", data={"epoch": 1, "reason": "day"})
        log.checkpoint()
        (tmp_path / "kept").write_text(log.note())
        report = check(log, Options(since=str(tmp_path / "kept")))
        assert (codes(report), report.exit_code, report.unread_prefix) == (["special"], 20, 2)

    def test_a_line_that_is_no_checkpoint_is_told_once(self, tmp_path: Path) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        path = log.write_jsonl(tmp_path / "x.jsonl")
        with (tmp_path / "x.checkpoints.jsonl").open("ab") as file:
            file.write(b"{}\n")
        assert codes(verify(path, Options(since=str(tmp_path / "kept")), FAST)) == ["checkpoint_form"]

    def test_a_log_that_was_never_sealed_behind_a_lost_key_is_no_broken_export(self, tmp_path: Path) -> None:
        log = honest(600)
        log.rotate(seal=False)
        log.grow(5)
        log.checkpoint()
        (tmp_path / "kept").write_text(log.checkpoints[-1])
        export = log.write_export(tmp_path / "export", published=log.checkpoints[-2])
        report = verify(export, Options(since=str(tmp_path / "kept")), FAST)
        assert [(each.code, each.grade) for each in report.findings] == [("published", "warning")]

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE nodes SET hash = zeroblob(32)",
            "UPDATE nodes SET hash = zeroblob(7)",
            "UPDATE nodes SET hash = 7",
            "DELETE FROM nodes",
        ],
    )
    def test_edited_nodes_do_not_make_a_fork_of_an_honest_log(self, tmp_path: Path, statement: str) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        path = log.write_sqlite(tmp_path / "x.db")
        tampered(path, "PRAGMA ignore_check_constraints = ON", statement)
        report = verify(path, Options(since=str(tmp_path / "kept")), FAST)
        assert (set(codes(report)), report.exit_code) == ({"node"}, 20)

    def test_older_anchors_are_compared_too(self, check: Check, tmp_path: Path) -> None:
        log = honest(600)
        (tmp_path / "kept").write_text(log.note(520))
        (tmp_path / "older").write_text(log.note(300))
        report = check(log, Options(since=str(tmp_path / "kept"), against=(str(tmp_path / "older"),)))
        assert [(each.size, each.ok) for each in report.anchors] == [(300, True), (520, True)]

    def test_an_older_anchor_is_held_against_what_was_kept_and_not_against_what_lies_there(
        self, tmp_path: Path
    ) -> None:
        """A fork behind an old checkpoint, with the old lines put back in the place that this checkpoint is told by."""
        old, fork = honest(600), honest(600)
        (tmp_path / "older").write_text(old.note(300))
        fork.edit(280, lambda entry: entry["data"].update(task="t9"))
        fork.rechain(281)
        fork.checkpoints[-1] = fork.note()
        (tmp_path / "kept").write_text(fork.note(520))
        path = fork.write_sqlite(tmp_path / "x.db")
        for seq in range(256, 300):
            tampered(path, f"UPDATE entries SET line = '{old.lines[seq].decode()}' WHERE seq = {seq}")
        report = verify(path, Options(since=str(tmp_path / "kept"), against=(str(tmp_path / "older"),)), FAST)
        assert [(each.size, each.ok) for each in report.anchors] == [(300, False), (520, True)]
        assert (codes(report), report.exit_code) == (["fork"], 21)

    def test_an_older_anchor_is_held_against_the_lines_where_a_node_was_changed(self, tmp_path: Path) -> None:
        """The tree of --since was told by a larger node, the older one by this; the log was called forked."""
        log = Log.begun()
        # What lies before --since is not read, only hashed.
        log.lines += [b'{"causes":[]}'] * (1 << 17)
        log.append()
        log.checkpoint()
        older = 301 << 8
        (tmp_path / "kept").write_text(log.checkpoints[0])
        (tmp_path / "older").write_text(log.note(older))
        path = log.write_sqlite(tmp_path / "x.db")
        asked = Options(since=str(tmp_path / "kept"), against=(str(tmp_path / "older"),))
        assert codes(verify(path, asked, FAST)) == []
        tampered(path, "UPDATE nodes SET hash = zeroblob(32) WHERE level = 8 AND idx = 300")
        report = verify(path, asked, FAST)
        assert [(each.size, each.ok) for each in report.anchors] == [(older, True), (log.size, True)]
        assert (codes(report), report.exit_code) == (["node"], 20)


class TestBodies:
    def test_are_not_read_unless_asked_for(self, check: Check) -> None:
        log = honest()
        log.bodies.clear()
        report = check(log)
        assert report.ok
        assert report.bodies.unread == report.bodies.parts == 37
        assert any("--deep" in each for each in report.not_proven)

    def test_the_four_states_are_told_apart(self, check: Check) -> None:
        log = honest()
        log.redact(5, "prompt")
        log.redact(6, "prompt", erase=False)
        del log.bodies[7, "prompt"]
        report = check(log, Options(deep=True))
        states = report.bodies
        assert (states.parts, states.opened, states.redacted, states.pending, states.missing) == (37, 34, 1, 1, 1)
        assert [(each.code, each.seq, each.part) for each in report.findings] == [("body_missing", 7, "prompt")]
        assert report.exit_code == 22

    def test_a_pending_redaction_fails_strictness_only(self, check: Check) -> None:
        log = honest()
        log.redact(6, "prompt", erase=False)
        log.checkpoint()
        assert check(log, Options(deep=True)).ok
        report = check(log, Options(strict=True))
        assert (codes(report), report.exit_code) == (["pending"], 23)

    @pytest.mark.parametrize(
        "swap",
        [
            lambda body: replace(body, body=b"other"),
            lambda body: replace(body, media="text/html"),
            lambda body: replace(body, salt=bytes(32)),
            lambda body: replace(body, body=body.body + b" "),
        ],
    )
    def test_a_swapped_body_is_named(self, check: Check, swap: Callable[[Body], Body]) -> None:
        log = honest()
        log.bodies[7, "prompt"] = swap(log.bodies[7, "prompt"])
        assert check(log).ok
        report = check(log, Options(deep=True))
        assert [(each.code, each.seq, each.part) for each in report.findings] == [("body_changed", 7, "prompt")]
        assert report.exit_code == 20

    def test_two_bodies_that_change_places_are_named(self, check: Check) -> None:
        log = honest()
        log.bodies[7, "prompt"], log.bodies[8, "prompt"] = log.bodies[8, "prompt"], log.bodies[7, "prompt"]
        assert [each.seq for each in check(log, Options(deep=True)).findings] == [7, 8]

    def test_many_parts_of_any_bytes_are_opened(self, check: Check) -> None:
        log = Log.begun(signed=False)
        log.append(
            bodies={"zeta": b"\xff\x00", "alpha": b"", "mid": "\u2028\x00\n".encode()}, media="application/octet-stream"
        )
        log.append(bodies={"big": b"x" * 40_000, "same": b"x" * 40_000})
        log.append(bodies={"big": b"x" * 40_000})
        report = check(log, Options(deep=True))
        assert (report.findings, report.bodies.opened) == ((), 6)

    @pytest.mark.parametrize(
        ("statement", "code"),
        [
            ("INSERT INTO bodies VALUES((3 << 8) | 1, zeroblob(32), 'text/plain', x'00', NULL)", "body_unreferenced"),
            ("INSERT INTO bodies VALUES(9000 << 8, zeroblob(32), 'text/plain', x'00', NULL)", "body_unreferenced"),
            ("INSERT INTO bodies VALUES(-5, zeroblob(32), 'text/plain', x'00', NULL)", "body_unreferenced"),
            ("INSERT INTO shared VALUES(77, zeroblob(32), x'00')", "body_unreferenced"),
            ("UPDATE shared SET body = x'00'", "body_changed"),
            ("UPDATE shared SET digest = zeroblob(32)", "body_changed"),
            ("UPDATE bodies SET shared = 99 WHERE shared IS NOT NULL", "body_changed"),
            ("UPDATE bodies SET body = x'00' WHERE shared IS NOT NULL", "body_changed"),
            ("UPDATE bodies SET body = NULL WHERE id = 3 << 8", "body_changed"),
            ("UPDATE bodies SET media = x'ff' WHERE id = 3 << 8", "body_changed"),
            ("UPDATE bodies SET salt = 7 WHERE id = 3 << 8", "body_changed"),
            ("UPDATE checkpoints SET id = 0 WHERE id = (SELECT min(id) FROM checkpoints)", "checkpoint_order"),
            (
                f"UPDATE checkpoints SET id = {2**63 - 1} WHERE size = (SELECT max(size) FROM checkpoints)",
                "checkpoint_order",
            ),
        ],
    )
    def test_rows_that_no_entry_accounts_for_are_caught(self, tmp_path: Path, statement: str, code: str) -> None:
        log = honest()
        log.append(bodies={"big": b"x" * 40_000})
        path = log.write_sqlite(tmp_path / "x.db")
        tampered(path, statement)
        report = verify(path, Options(deep=True), FAST)
        assert code in codes(report)
        assert report.exit_code == 20

    def test_a_body_line_that_no_entry_commits_to_is_caught(self, tmp_path: Path) -> None:
        log = honest()
        log.bodies[3, "zz"] = Body(bytes(32), "text/plain", b"x")
        path = log.write_jsonl(tmp_path / "x.jsonl")
        assert codes(verify(path, Options(deep=True), FAST)) == ["body_unreferenced"]

    @pytest.mark.parametrize(
        "data",
        [
            {"seq": 5, "part": "prompt", "commitment": "0" * 64},
            {"seq": 5, "part": "other", "commitment": "0" * 64},
            {"seq": 900, "part": "prompt", "commitment": "0" * 64},
            {"seq": 5, "part": "prompt"},
            {"part": "prompt", "commitment": "0" * 64},
        ],
    )
    def test_a_tombstone_that_names_nothing_is_caught_and_excuses_nothing(
        self, check: Check, data: dict[str, object]
    ) -> None:
        log = honest()
        log.append("body.redacted", data=data | {"reason": "other"})
        del log.bodies[5, "prompt"]
        shallow = check(log)
        assert shallow.exit_code == 20
        assert [each.seq for each in shallow.findings] == [40]
        assert check(log, Options(deep=True)).bodies.missing == 1

    def test_a_tombstone_before_its_entry_is_caught(self, check: Check) -> None:
        later = honest()
        committed = json.loads(later.lines[30 - 1])["body"]["prompt"]
        log = honest(38)
        log.append("body.redacted", data={"seq": 39, "part": "prompt", "commitment": committed, "reason": "other"})
        assert "tombstone" in codes(check(log))

    def test_many_redactions_are_reconciled(self, check: Check) -> None:
        log = Log.begun(signed=False)
        log.grow(300)
        for seq in range(300, 0, -1):
            log.redact(seq, "prompt")
        report = check(log, Options(deep=True))
        assert (report.findings, report.bodies.redacted, report.bodies.opened) == ((), 300, 0)


class TestRecordedAnchors:
    def test_give_a_bracket_of_time(self, check: Check) -> None:
        log = honest()
        data = {"by": "witness", "size": 25, "root": root(log, 25), "time_us": START_US + 7}
        log.append("anchor.recorded", data=data)
        report = check(log)
        assert report.findings == ()
        assert [(each.seq, each.by, each.size, each.time_us) for each in report.brackets] == [
            (40, "witness", 25, START_US + 7)
        ]
        assert any("tokens" in each for each in report.not_proven)

    @pytest.mark.parametrize(
        ("time_us", "told"),
        [
            (1_795_035_553_000_007, "younger than 2026-11-18 20:59:13.000007 UTC, if"),
            (1_795_035_553_000_000, "younger than 2026-11-18 20:59:13 UTC, if"),
            (2**53 - 1, "younger than 2255-06-05 23:47:34.740991 UTC, if"),
        ],
    )
    def test_are_told_in_a_time_that_people_read(self, check: Check, time_us: int, told: str) -> None:
        log = honest()
        log.append("anchor.recorded", data={"by": "w", "size": 25, "root": root(log, 25), "time_us": time_us})
        assert any(told in line for line in lines(check(log)))

    @pytest.mark.parametrize("size", [25, 41, 9000])
    def test_that_saw_another_log_are_caught(self, check: Check, size: int) -> None:
        log = honest()
        log.append("anchor.recorded", data={"by": "git", "size": size, "root": "0" * 64, "time_us": 1})
        report = check(log)
        assert [(each.code, each.seq) for each in report.findings] == [("anchored_root", 40)]


@cache
def large() -> Log:
    log = honest(1500)
    log.redact(700, "prompt")
    log.redact(900, "prompt", erase=False)
    log.append("anchor.recorded", data={"by": "git", "size": 1000, "root": root(log, 1000), "time_us": 5})
    log.rotate()
    log.grow(300)
    log.checkpoint()
    return log


class TestSeveralProcesses:
    @pytest.fixture(autouse=True)
    def _without_what_others_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Threads that tests before these have left behind do not count."""
        before = set(threading.enumerate())
        monkeypatch.setattr(threading, "active_count", lambda: 1 + len(set(threading.enumerate()) - before))

    @pytest.mark.parametrize("jobs", [2, 3, 7])
    def test_report_what_one_reports(self, tmp_path: Path, jobs: int) -> None:
        log = large()
        path = log.write_sqlite(tmp_path / "x.db")
        (tmp_path / "kept").write_text(log.note(1234))
        for options in (
            Options(),
            Options(deep=True, all_signatures=True, against=(str(tmp_path / "kept"),)),
            Options(since=str(tmp_path / "kept"), deep=True, pin=log.pin),
        ):
            alone = verify(path, replace(options, jobs=1), FAST)
            assert alone.ok
            assert verify(path, replace(options, jobs=jobs), FAST) == alone

    @pytest.mark.parametrize(
        "statement",
        [
            'UPDATE entries SET line = replace(line, \'"task":"t2"\', \'"task":"t9"\') WHERE seq = 1000',
            "DELETE FROM entries WHERE seq = 768",
            "UPDATE nodes SET hash = zeroblob(32) WHERE idx = 2",
            "DELETE FROM bodies WHERE id = 1100 << 8",
            "UPDATE bodies SET body = x'00' WHERE id = 1100 << 8",
            "UPDATE causes SET cause = 3 WHERE seq = 1200",
            "DELETE FROM checkpoints WHERE size = 1500",
            "DROP INDEX causes_by_cause",
        ],
    )
    def test_report_the_same_damage(self, tmp_path: Path, statement: str) -> None:
        path = large().write_sqlite(tmp_path / "x.db")
        tampered(path, statement)
        alone = verify(path, Options(deep=True, jobs=1), FAST)
        assert verify(path, Options(deep=True, jobs=2), FAST) == alone

    def test_really_share_the_work(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = large().write_sqlite(tmp_path / "x.db")
        asked: list[int] = []
        run = parallel.run

        def counted(tasks: list[Callable[[], object]], waiting: Callable[[], None]) -> object:
            asked.append(len(tasks))
            return run(tasks, waiting)

        monkeypatch.setattr(parallel, "run", counted)
        seen: list[tuple[int, int]] = []
        assert verify(path, Options(jobs=2), FAST, lambda done, total: seen.append((done, total))).ok
        assert asked == [3]
        assert seen

    def test_are_not_used_beside_other_threads(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = large().write_sqlite(tmp_path / "x.db")
        monkeypatch.setattr(parallel, "run", lambda *_: pytest.fail("forked beside a thread"))
        stop = threading.Event()
        other = threading.Thread(target=stop.wait)
        other.start()
        try:
            assert verify(path, Options(jobs=4), FAST).ok
        finally:
            stop.set()
            other.join()

    def test_that_die_are_replaced_by_the_one_that_started_them(self, tmp_path: Path) -> None:
        here = os.getpid()

        def deadly(value: object) -> bytes:
            if os.getpid() != here:
                os.kill(os.getpid(), 9)
            return dump(value)

        path = large().write_sqlite(tmp_path / "x.db")
        assert verify(path, Options(jobs=2), replace(FAST, dumps=deadly)) == verify(path, Options(jobs=1), FAST)

    def test_that_cannot_be_started_are_not_needed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = large().write_sqlite(tmp_path / "x.db")
        alone = verify(path, Options(jobs=1), FAST)
        fork, children = os.fork, list[int]()

        def scarce() -> int:
            if children:
                raise BlockingIOError("no more processes")
            child = fork()
            children.append(child)
            return child

        monkeypatch.setattr(os, "fork", scarce)
        assert verify(path, Options(jobs=2), FAST) == alone
        [child] = children
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)

    def test_without_a_place_for_temporary_files_are_not_needed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = large().write_sqlite(tmp_path / "x.db")
        alone = verify(path, Options(jobs=1), FAST)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        assert verify(path, Options(jobs=2), FAST) == alone

    def test_leave_no_child_behind_when_the_parent_is_interrupted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fork, children = os.fork, list[int]()

        def noted() -> int:
            child = fork()
            children.append(child)
            return child

        def interrupted(done: int, total: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fork", noted)
        path = large().write_sqlite(tmp_path / "x.db")
        with pytest.raises(KeyboardInterrupt):
            verify(path, Options(jobs=2), FAST, interrupted)
        assert children
        for child in children:
            with pytest.raises(ChildProcessError):
                os.waitpid(child, os.WNOHANG)

    def test_read_a_joined_write_ahead_log(self, tmp_path: Path) -> None:
        db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        log = large()
        log.fill(db)
        assert verify(tmp_path / "x.db", Options(jobs=2, deep=True), FAST).size == log.size
        db.close()


def test_lent_tools_change_nothing_in_the_report(tmp_path: Path) -> None:
    fast = Tools(
        loads=orjson.loads,
        dumps=lambda value: orjson.dumps(value, option=orjson.OPT_SORT_KEYS),
        ed25519=FAST.ed25519,
    )
    log = honest(300)
    log.append("future.kind", data={"nested": [{"a": [1, 2, {"b": None}]}], "t": "\u2028é"})
    path = log.write_jsonl(tmp_path / "x.jsonl")
    assert verify(path, Options(deep=True), fast) == verify(path, Options(deep=True), Tools())


def test_a_receipt_given_as_a_ledger_is_verified_as_one(tmp_path: Path) -> None:
    (tmp_path / "r.tlog-proof").write_bytes(honest().receipt(3, rotation=30))
    assert verify(tmp_path / "r.tlog-proof", Options(), FAST).form == "receipt"


def root(log: Log, size: int) -> str:
    return Leaves(log.leaves).root(size).hex()


def consistency(log: Log, old: int, new: int) -> str:
    proof = consistency_proof(old, new, Leaves(log.leaves))
    lines = [f"old {old}", *(b64encode(each).decode() for each in proof)]
    return "\n".join(lines) + "\n\n" + log.note(new)


def broken_signature(note: str) -> str:
    """The note with its last signature changed in one bit."""
    head, last = note.rstrip("\n").rsplit(" ", 1)
    flipped = "A" if last[40] != "A" else "B"
    return f"{head} {last[:40]}{flipped}{last[41:]}\n"


def edit(path: Path, seq: int) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":null') WHERE seq = ?", (seq,))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def edit_data(path: Path, seq: int, changes: dict[str, str]) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    [line] = db.execute("SELECT line FROM entries WHERE seq = ?", (seq,)).fetchone()
    entry = json.loads(line)
    entry["data"] |= changes
    db.execute("UPDATE entries SET line = ? WHERE seq = ?", (dump(entry).decode(), seq))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def tampered(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
