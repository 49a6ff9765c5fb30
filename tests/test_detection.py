"""The detection table of the design, attacker by verifier, cell by cell: K caught, w warned of, - not caught.

The cells that say "-" are claims like the others: what a verifier cannot see must not be promised to anyone.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import forging
from forging import Members, chain, cut, database, drop_checkpoints, falsify, read, sign, sql, write
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.report import Report
from hansard.ledger.tools import Tools
from hansard.ledger.verify import Options, verify
from hansard.record.sealer import Sealer
from hansard.seal.keys import KeyRing
from hansard.seal.signing import SigningKey
from hansard.seal.signing import verify as fast_check
from hansard.store.sqlite import SqliteStore
from ledgers import Clock
from sealing import ORIGIN, Log, say

TOOLS = Tools(ed25519=fast_check)
VERIFIERS = ("V0", "V1", "V2", "V3")


@dataclass(slots=True)
class World:
    """An honest ledger of three epochs, what was kept elsewhere, and what an attacker may have got hold of."""

    folder: Path
    log: Log
    backups: dict[str, Path] = field(default_factory=dict)
    kept: dict[str, Path] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    keys: list[SigningKey] = field(default_factory=list)
    attacked: dict[str, Path] = field(default_factory=dict)

    @property
    def identity(self) -> SigningKey:
        return self.log.ring.identity

    @property
    def today(self) -> tuple[SigningKey, SigningKey]:
        return self.identity, self.keys[-1]

    @property
    def pin(self) -> str:
        genesis = chain(read(self.log.path)[:1])[0]
        return f"{self.identity.verifier.text()}@{leaf_hash(genesis).hex()}"

    def verify(self, path: Path, verifier: str, **options: Any) -> Report:
        """What this verifier concludes: V0 has the files, V1 the pin too, V2 an older checkpoint, V3 the newest."""
        against = (str(self.kept["older"]),) * (verifier >= "V2") + (str(self.kept["newest"]),) * (verifier >= "V3")
        pin = self.pin if verifier >= "V1" else None
        return verify(path, Options(deep=True, pin=pin, against=against, **options), TOOLS)

    def attack(self, name: str, act: "Act") -> Path:
        """The ledger after the attack, which is made once for all verifiers."""
        if name not in self.attacked:
            path = self.folder / f"attacked-{len(self.attacked)}" / "log.db"
            path.parent.mkdir()
            shutil.copy(self.log.path, path)
            act(self, path)
            self.attacked[name] = path
        return self.attacked[name]


Act = Callable[[World, Path], None]


def build(folder: Path) -> World:
    log = Log.found(folder / "honest", Clock())
    world = World(folder, log)
    store = log.open()
    sealer = log.take(store)

    def mark(name: str) -> None:
        """Remember this point: a backup of the file, and the checkpoint that ends it."""
        nonlocal store, sealer
        sealer.close()
        store.close()
        world.backups[name] = folder / f"{name}.db"
        shutil.copy(log.path, world.backups[name])
        store = log.open()
        sealer = log.take(store)
        newest = sealer.checkpoint()
        world.size[name] = newest.size
        world.kept[name] = folder / f"{name}.checkpoint"
        world.kept[name].write_text(newest.note)

    for epoch in range(3):
        key = log.ring.epoch(epoch)
        assert key is not None
        world.keys.append(key)
        say(store, 125, sealer=sealer, text=f"epoch {epoch}")
        mark(f"early-{epoch}")
        log.clock.now += 60
        say(store, 10, sealer=sealer, text=f"later in epoch {epoch}")
        mark(f"late-{epoch}")
        if epoch < 2:
            sealer.rotate()
    world.kept |= {"older": world.kept["late-1"], "newest": world.kept["late-2"]}
    world.size |= {"older": world.size["late-1"], "newest": world.size["late-2"]}
    sealer.close()
    store.close()
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("detection"))


def edit_an_entry(world: World, path: Path) -> None:
    with database(path) as into:
        into.execute("UPDATE entries SET line = replace(line, 'human:test', 'human:tost') WHERE seq = 50")


def edit_an_entry_and_chain_anew(world: World, path: Path) -> None:
    entries = read(path)
    entries[50]["actor"] = "human:forged"
    write(path, chain(entries))


def edit_the_entry_before_the_last(world: World, path: Path) -> None:
    # The checkpoints that cover it are taken away: only the entry behind it is left to tell.
    with database(path) as into:
        into.execute(
            "UPDATE entries SET line = replace(line, 'human:test', 'human:tost') WHERE seq = ?", (len(read(path)) - 2,)
        )
    drop_checkpoints(path, world.size["early-2"])


def drop_an_entry(world: World, path: Path) -> None:
    with database(path) as into:
        into.execute("DELETE FROM entries WHERE seq = 50")


def drop_an_entry_and_close_the_gap(world: World, path: Path) -> None:
    entries = read(path)
    del entries[50]
    with database(path) as into:
        into.execute("DELETE FROM bodies WHERE id >> 8 = 50")
        into.execute("UPDATE bodies SET id = id - 256 WHERE id >> 8 > 50")
    write(path, chain(entries))


def reorder_two_entries(world: World, path: Path) -> None:
    entries = read(path)
    lines = chain(entries)
    lines[50], lines[51] = lines[51], lines[50]
    write(path, lines)


def insert_an_entry(world: World, path: Path) -> None:
    entries = read(path)
    entries.insert(50, entries[50] | {"body": {}, "actor": "human:forged"})
    with database(path) as into:
        into.execute("UPDATE bodies SET id = -id - 256 WHERE id >> 8 >= 50")
        into.execute("UPDATE bodies SET id = -id WHERE id < 0")
    write(path, chain(entries))


def swap_two_bodies(world: World, path: Path) -> None:
    with database(path) as into:
        bodies = dict(into.execute("SELECT id, body FROM bodies WHERE id IN (50 << 8, 51 << 8)").fetchall())
        into.executemany(
            "UPDATE bodies SET body = ? WHERE id = ?", [(bodies[51 << 8], 50 << 8), (bodies[50 << 8], 51 << 8)]
        )


def clock_backwards(world: World, path: Path) -> None:
    """Done by the operator himself, with every key, so that nothing but the order of time is wrong."""
    entries = read(path)
    entries[50]["ts"] = entries[49]["ts"] - 1
    write(path, chain(entries))
    sign_anew(world, path, world.keys)


def hide_an_entry_from_an_index(world: World, path: Path) -> None:
    """The index is filled under another definition, which is then put back: text and definition look right."""
    with database(path) as into:
        into.execute("PRAGMA writable_schema = ON")
        [honest] = into.execute("SELECT sql FROM sqlite_schema WHERE name = 'entries_by_kind'").fetchone()
        update = "UPDATE sqlite_schema SET sql = ? WHERE name = 'entries_by_kind'"
        into.execute(update, (f"{honest} WHERE seq <> 50",))
    with database(path) as into:
        into.execute("REINDEX entries_by_kind")
        into.execute("PRAGMA writable_schema = ON")
        into.execute(update, (honest,))


def plain(act: Callable[[Path], None]) -> Act:
    return lambda _, path: act(path)


def cut_the_tail(world: World, path: Path) -> None:
    cut(path, world.size["newest"] - 5)


def cut_to(name: str) -> Act:
    """Cut tail and checkpoints, down to a checkpoint: with the unsealed rest left, a pinned verifier would be warned."""

    def act(world: World, path: Path) -> None:
        cut(path, world.size[name])
        drop_checkpoints(path, world.size[name])

    return act


def restore(name: str) -> Act:
    def act(world: World, path: Path) -> None:
        shutil.copy(world.backups[name], path)

    return act


def sign_anew(world: World, path: Path, epochs: list[SigningKey], identity: SigningKey | None = None) -> None:
    """Sign every end of an epoch, and the end, with the keys that are in force there."""
    drop_checkpoints(path)
    entries = read(path)
    ends = [entry["seq"] + 1 for entry in entries if entry["kind"] == "key.rotated"]
    signer = identity or world.identity
    for end, key in zip([*ends, len(entries)], epochs, strict=True):
        sign(path, ORIGIN, end, signer, key)


def named_anew(genesis: Members, identity: SigningKey | None, epoch: SigningKey | None) -> Members:
    keys = {"identity": identity and identity.verifier.text(), "epoch_key": epoch and epoch.verifier.text()}
    data = genesis["data"] | keys | {"custody": "file" if identity else "none"}
    return genesis | {"data": {name: value for name, value in data.items() if value is not None}}


def rebuild_unsigned(world: World, path: Path) -> None:
    genesis, *rest = falsify(read(path))
    write(path, chain([named_anew(genesis, None, None), *(each for each in rest if each["kind"] != "key.rotated")]))
    realign_bodies(world, path)
    drop_checkpoints(path)


def realign_bodies(world: World, path: Path) -> None:
    """Bodies go with their entries; the rotations are gone from between them."""
    rotations = [entry["seq"] for entry in read(world.log.path) if entry["kind"] == "key.rotated"]
    with database(world.log.path) as honest:
        bodies = honest.execute("SELECT * FROM bodies ORDER BY id").fetchall()
    with database(path) as into:
        into.execute("DELETE FROM bodies")
        moved = [(each[0] - (sum(at < each[0] >> 8 for at in rotations) << 8), *each[1:]) for each in bodies]
        into.executemany("INSERT INTO bodies VALUES (?, ?, ?, ?, ?)", moved)


def rebuild_behind_the_genesis_without_keys(world: World, path: Path) -> None:
    write(path, chain([each for each in falsify(read(path)) if each["kind"] != "key.rotated"]))
    realign_bodies(world, path)
    drop_checkpoints(path)


def rebuild_from_a_new_genesis_with_todays_keys(world: World, path: Path) -> None:
    identity, current = world.today
    first = SigningKey.from_pem(f"{ORIGIN}/epoch/0", current.pem())
    genesis, *rest = falsify(read(path))
    write(
        path, chain([named_anew(genesis, identity, first), *(each for each in rest if each["kind"] != "key.rotated")])
    )
    realign_bodies(world, path)
    sign_anew(world, path, [first])


def rebuild_behind_the_genesis_with_todays_keys(world: World, path: Path) -> None:
    """The older epochs cannot be signed for; what can be signed is."""
    write(path, chain(falsify(read(path))))
    drop_checkpoints(path)
    entries = read(path)
    for entry in entries:
        if entry["kind"] == "key.rotated":
            sign(path, ORIGIN, entry["seq"] + 1, world.identity)
    sign(path, ORIGIN, len(entries), *world.today)


def rebuild_with_every_key(world: World, path: Path) -> None:
    write(path, chain(falsify(read(path))))
    sign_anew(world, path, world.keys)


def rebuild_under_new_keys(world: World, path: Path) -> None:
    identity, *epochs = (SigningKey.generate(name) for name in (ORIGIN, *(f"{ORIGIN}/epoch/{n}" for n in range(3))))
    entries = falsify(read(path))
    entries[0] = named_anew(entries[0], identity, epochs[0])
    for entry in entries:
        if entry["kind"] == "key.rotated":
            entry["data"] = entry["data"] | {"key": epochs[entry["data"]["epoch"]].verifier.text()}
    write(path, chain(entries))
    sign_anew(world, path, epochs, identity)


def start_of_newest_epoch(path: Path) -> int:
    return max(int(entry["seq"]) for entry in read(path) if entry["kind"] == "key.rotated") + 1


def rebuild_newest_epoch_without_keys(world: World, path: Path) -> None:
    start = start_of_newest_epoch(path)
    write(path, chain(falsify(read(path), start)))
    drop_checkpoints(path, start)


def rebuild_newest_epoch_with_todays_keys(world: World, path: Path) -> None:
    rebuild_newest_epoch_without_keys(world, path)
    sign(path, ORIGIN, len(read(path)), *world.today)


def go_on_from_an_old_checkpoint_without_keys(world: World, path: Path) -> None:
    start = world.size["early-0"]
    write(path, chain([each for each in falsify(read(path), start) if each["kind"] != "key.rotated"]))
    realign_bodies(world, path)
    drop_checkpoints(path, start)


def go_on_from_an_old_checkpoint_with_todays_keys(world: World, path: Path) -> None:
    """The key of that epoch is gone: the attacker has to say that it was lost."""
    start = world.size["early-1"]
    entries = falsify(read(path), start)
    write(path, chain(entries))
    drop_checkpoints(path, start)
    sign(path, ORIGIN, start_of_newest_epoch(path), world.identity)
    sign(path, ORIGIN, len(entries), *world.today)


def two_sealers(world: World, path: Path) -> None:
    """A second sealer, with copies of the keys and an older copy of the log, goes on in its own way."""
    shutil.copy(world.backups["early-2"], path)
    state = path.parent / "state"
    shutil.copytree(world.log.keys, state)
    (state / "last-checkpoint").unlink()
    store = SqliteStore.open(path, clock=world.log.clock)
    sealer = Sealer.take(store, KeyRing.open(state, ORIGIN), state, clock=world.log.clock)
    say(store, 30, sealer=sealer, text="another history")
    sealer.close()
    store.close()


def lose_a_retiring_key(world: World, path: Path) -> None:
    """No attack: the operator lost the key of epoch 2 and goes on, as [C7] has it."""
    state = path.parent / "state"
    shutil.copytree(world.log.keys, state)
    KeyRing.open(state, ORIGIN).destroy_epoch(2)
    store = SqliteStore.open(path, clock=world.log.clock)
    sealer = Sealer.take(store, KeyRing.open(state, ORIGIN), state, clock=world.log.clock, lost_key_rotates=True)
    say(store, 5, sealer=sealer)
    sealer.close()
    store.close()


def nothing(world: World, path: Path) -> None:
    """What was never recorded, and a true record of false content, look like this."""


TABLE: tuple[tuple[str, Act, str], ...] = (
    ("edit an entry", edit_an_entry, "K K K K"),
    ("edit an entry behind a checkpoint, chain anew", edit_an_entry_and_chain_anew, "K K K K"),
    ("edit the entry before the last, under no checkpoint", edit_the_entry_before_the_last, "K K K K"),
    ("drop an entry", drop_an_entry, "K K K K"),
    ("drop an entry and close the gap", drop_an_entry_and_close_the_gap, "K K K K"),
    ("reorder two entries", reorder_two_entries, "K K K K"),
    ("insert an entry", insert_an_entry, "K K K K"),
    ("swap two bodies", swap_two_bodies, "K K K K"),
    ("change a body", plain(sql("UPDATE bodies SET body = 'no' WHERE id = 50 << 8")), "K K K K"),
    ("delete a body silently", plain(sql("DELETE FROM bodies WHERE id = 50 << 8")), "K K K K"),
    ("clock backwards, signed by the operator", clock_backwards, "K K K K"),
    ("edit a query column", plain(sql("UPDATE sqlite_schema SET sql = replace(sql, '$.actor', '$.run')")), "K K K K"),
    ("hide an entry from an index", hide_an_entry_from_an_index, "K K K K"),
    ("add a cause", plain(sql("INSERT INTO causes VALUES (50, 49)")), "K K K K"),
    ("edit a tile", plain(sql("UPDATE nodes SET hash = zeroblob(32) WHERE idx = 0")), "K K K K"),
    ("delete a tile", plain(sql("DELETE FROM nodes WHERE idx = 0")), "K K K K"),
    ("edit the head", plain(sql("UPDATE head SET leaf = zeroblob(32)")), "K K K K"),
    ("cut the tail, checkpoints left in place", cut_the_tail, "K K K K"),
    ("cut tail and checkpoints below the kept one", cut_to("early-1"), "- - K K"),
    ("an old backup from below the kept checkpoint", restore("early-1"), "- - K K"),
    ("an old backup from before a rotation", restore("late-0"), "- - K K"),
    ("cut tail and checkpoints at the kept one", cut_to("late-1"), "- - - K"),
    ("cut tail and checkpoints above the kept one", cut_to("early-2"), "- - - K"),
    ("an old backup from above the kept checkpoint", restore("early-2"), "- - - K"),
    ("rebuild the whole log, no key: unsigned", rebuild_unsigned, "- K K K"),
    ("rebuild the whole log, no key: genesis kept", rebuild_behind_the_genesis_without_keys, "- K K K"),
    ("rebuild the whole log, today's keys: new genesis", rebuild_from_a_new_genesis_with_todays_keys, "- K K K"),
    ("rebuild the whole log, today's keys: genesis kept", rebuild_behind_the_genesis_with_todays_keys, "w K K K"),
    ("rebuild the whole log, every epoch key kept", rebuild_with_every_key, "- - K K"),
    ("rebuild the newest epoch, no key", rebuild_newest_epoch_without_keys, "- w w K"),
    ("rebuild the newest epoch, today's keys", rebuild_newest_epoch_with_todays_keys, "- - - K"),
    ("go on from an old checkpoint, no key", go_on_from_an_old_checkpoint_without_keys, "- w K K"),
    ("go on from an old checkpoint, today's keys", go_on_from_an_old_checkpoint_with_todays_keys, "w K K K"),
    ("two sealers with the same keys", two_sealers, "- - - K"),
    ("rebuild under new keys", rebuild_under_new_keys, "- K K K"),
    ("a retiring key was lost", lose_a_retiring_key, "w K K K"),
    ("never recorded; true record of false content", nothing, "- - - -"),
)


def cell(report: Report) -> str:
    if not report.ok:
        return "K"
    return "w" if any(each.grade == "warning" for each in report.findings) else "-"


@pytest.mark.parametrize("column", range(4), ids=VERIFIERS)
@pytest.mark.parametrize(("attack", "act", "cells"), TABLE, ids=[row[0] for row in TABLE])
def test_the_cell_is_true(world: World, attack: str, act: Act, cells: str, column: int) -> None:
    report = world.verify(world.attack(attack, act), VERIFIERS[column])
    said = [(each.grade, each.seq, each.message) for each in report.findings]
    assert cell(report) == cells.split()[column], said


@pytest.mark.parametrize(("attack", "act", "cells"), TABLE, ids=[row[0] for row in TABLE])
def test_the_standard_library_alone_concludes_the_same(world: World, attack: str, act: Act, cells: str) -> None:
    path = world.attack(attack, act)
    fast = world.verify(path, "V1")
    alone = verify(path, Options(deep=True, pin=world.pin, jobs=1))
    assert alone.findings == fast.findings
    assert cell(alone) == cells.split()[1]


def test_the_honest_ledger_is_sealed_to_its_end_over_three_epochs(world: World) -> None:
    report = world.verify(world.log.path, "V3", all_signatures=True, strict=True)
    assert (report.exit_code, report.findings) == (0, ())
    assert report.signed.sealed_to == report.size == world.size["newest"] > 400
    assert (report.signed.epochs, report.signed.unsealed_rotations, report.signed.keys) == (3, (), "pinned")
    assert all(anchor.ok for anchor in report.anchors)
    assert report.bodies.opened == report.bodies.parts == 405


def test_an_edit_beside_a_line_that_names_keys_is_seen_behind_a_checkpoint_already_verified(world: World) -> None:
    path = world.attack("edit an entry", edit_an_entry)
    since = world.verify(path, "V1", since=str(world.kept["older"]))
    assert (since.ok, since.unread_prefix) == (False, 0)
    honest = world.verify(world.log.path, "V1", since=str(world.kept["older"]))
    assert (honest.ok, honest.unread_prefix) == (True, world.size["older"])
    assert any(f"{world.size['older']} entries before --since" in each for each in honest.not_proven)


def test_attacks_that_only_an_anchor_sees_are_called_contradictions(world: World) -> None:
    for name, act in (
        ("an old backup from below the kept checkpoint", restore("early-1")),
        ("two sealers with the same keys", two_sealers),
    ):
        assert world.verify(world.attack(name, act), "V3").exit_code == 21


def test_forging_without_an_attack_changes_nothing(world: World, tmp_path: Path) -> None:
    """The forger's tools write what our own store wrote: what is caught above is the attack and not a clumsy hand."""
    copy = tmp_path / "log.db"
    shutil.copy(world.log.path, copy)
    entries = forging.read(copy)
    write(copy, chain(entries))
    assert json.loads(chain(entries)[-1]) == entries[-1]
    sign_anew(world, copy, world.keys)
    report = world.verify(copy, "V3", strict=True)
    assert (report.exit_code, report.findings) == (0, ())
