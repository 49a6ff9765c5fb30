"""A witness, request by request: what it cosigns, what it refuses and with which word, and that it never goes back."""

import fcntl
import os
import re
import signal
import sys
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from hansard.errors import StoreError, UsageError
from hansard.ledger.merkle import block_root, consistency_proof, leaf_hash, root_of
from hansard.ledger.note import (
    MAX_NOTE,
    VerifierKey,
    format_note,
    open_note,
    parse_note,
    parse_signature,
    to_base64,
)
from hansard.ledger.witness import Refused
from hansard.record.receipts import make_consistency
from hansard.seal.signing import SigningKey, sign_checkpoint
from hansard.seal.witness import Witness, log_id
from hansard.store.base import StoredCheckpoint
from signed_log import ORIGIN, SignedLog
from store.disks import make_space, tmpfs

NAME, NOW = "witness.example/w1", 1_800_000_000
Asking = Callable[[int, StoredCheckpoint], bytes]


@pytest.fixture
def witness(tmp_path: Path, log: SignedLog) -> Witness:
    made = Witness.open(tmp_path / "witness", NAME)
    made.trust(VerifierKey.parse(log.identity))
    return made


@pytest.fixture
def asking(log: SignedLog) -> Asking:
    return lambda old, kept: make_consistency(log.store, old, kept).encode()


def at(time_s: int) -> Callable[[], int]:
    """A clock that shows this time."""
    return lambda: time_s


def grown(log: SignedLog, entries: int = 3) -> StoredCheckpoint:
    log.ask_many(entries)
    return log.checkpoint()


def refused(witness: Witness, data: bytes) -> tuple[int, int | None]:
    with pytest.raises(Refused) as error:
        witness.cosign(data, at(NOW))
    return error.value.status, error.value.size


def test_a_growing_log_is_cosigned_from_size_to_size(witness: Witness, log: SignedLog, asking: Asking) -> None:
    old = 0
    for step in range(6):
        kept = grown(log, 1 + step)
        line = witness.cosign(asking(old, kept), at(NOW + step))
        note = parse_note(kept.note)
        cosigned = format_note(note.text, (*note.signatures, parse_signature(line.removesuffix("\n"))))
        assert open_note(parse_note(cosigned), [witness.key]).cosigned == ((witness.key, NOW + step),)
        old = kept.size
    known = witness.watched(ORIGIN)
    assert known is not None
    assert known.checkpoint is not None
    assert known.checkpoint.size == old


def test_the_same_checkpoint_again_is_cosigned_again(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    assert witness.cosign(asking(kept.size, kept), at(NOW + 1)) != witness.cosign(asking(kept.size, kept), at(NOW + 2))


def test_a_log_is_found_by_its_id_alone_and_by_no_path_that_leads_there(tmp_path: Path, log: SignedLog) -> None:
    witness = Witness.open(tmp_path / "witness", NAME)
    assert witness.logs() == []
    known = witness.trust(VerifierKey.parse(log.identity))
    assert witness.logs() == [known]
    assert witness.log(known.id) == known
    for path in (f"../logs/{known.id}", f"{known.id}/", f"./{known.id}", str(witness.folder / "logs" / known.id)):
        assert witness.log(path) is None


def test_what_it_saw_last_outlives_it(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    again = Witness.open(witness.folder)
    assert again.key == witness.key
    assert refused(again, asking(0, kept)) == (409, kept.size)
    newest = again.watched(ORIGIN)
    assert newest is not None
    assert newest.newest is not None
    assert open_note(parse_note(newest.newest), [again.key]).cosigned == ((again.key, NOW),)


def test_a_log_that_is_not_known(witness: Witness, tmp_path: Path) -> None:
    stranger = SigningKey.generate("log.example/other")
    note = sign_checkpoint("log.example/other", 3, bytes(32), [stranger])
    assert refused(witness, f"old 0\n\n{note}".encode()) == (404, None)


def test_a_checkpoint_that_its_log_has_not_signed(witness: Witness, log: SignedLog) -> None:
    stranger, head = SigningKey.generate(ORIGIN), log.store.head()
    note = sign_checkpoint(ORIGIN, head.size, head.root, [stranger])
    assert refused(witness, f"old 0\n\n{note}".encode()) == (403, None)


def test_a_signature_of_the_log_that_does_not_hold(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    other = kept.note.replace(f"\n{kept.size}\n", f"\n{kept.size + 1}\n")
    assert refused(witness, f"old 0\n\n{other}".encode()) == (403, None)


def test_an_old_size_beyond_the_checkpoint(witness: Witness, log: SignedLog) -> None:
    kept = grown(log)
    assert refused(witness, f"old {kept.size + 1}\n\n{kept.note}".encode()) == (400, None)


def test_an_older_checkpoint_than_the_newest(witness: Witness, log: SignedLog, asking: Asking) -> None:
    first, second = grown(log), grown(log)
    witness.cosign(asking(0, second), at(NOW))
    assert refused(witness, asking(0, first)) == (409, second.size)
    assert refused(witness, asking(first.size, first)) == (409, second.size)


def test_another_root_at_the_same_size(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    assert log.ring
    fork = sign_checkpoint(ORIGIN, kept.size, bytes(32), [log.ring.identity])
    assert refused(witness, f"old {kept.size}\n\n{fork}".encode()) == (409, kept.size)


def test_a_fork_that_is_longer(witness: Witness, log: SignedLog, asking: Asking) -> None:
    first = grown(log)
    witness.cosign(asking(0, first), at(NOW))
    second = grown(log)
    assert log.ring
    fork = sign_checkpoint(ORIGIN, second.size, bytes(32), [log.ring.identity])
    body = asking(first.size, second).decode()
    assert refused(witness, body.replace(second.note, fork).encode()) == (422, None)
    witness.cosign(asking(first.size, second), at(NOW))


@pytest.mark.parametrize("hashes", [1, 2])
def test_a_proof_where_there_is_nothing_to_prove(witness: Witness, log: SignedLog, asking: Asking, hashes: int) -> None:
    kept = grown(log)
    line = b64encode(bytes(32)).decode() + "\n"
    assert refused(witness, f"old 0\n{line * hashes}\n{kept.note}".encode()) == (422, None)
    witness.cosign(asking(0, kept), at(NOW))
    assert refused(witness, f"old {kept.size}\n{line * hashes}\n{kept.note}".encode()) == (422, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"old 0\n",
        b"old 0\n\n",
        b"old 00\n\nx",
        b"old -1\n\nx",
        b"0\n\nx",
        b"new 0\n\nx",
        b"\xff\n\n",
        b"old 0\n%%%\n\nx",
    ],
)
def test_whatever_is_no_request(witness: Witness, log: SignedLog, data: bytes) -> None:
    assert refused(witness, data.replace(b"x", grown(log).note.encode())) == (400, None)


def test_a_proof_without_end(witness: Witness, log: SignedLog) -> None:
    line = b64encode(bytes(32)).decode() + "\n"
    note = grown(log).note
    assert refused(witness, f"old 0\n{line * 63}\n{note}".encode()) == (422, None)
    assert refused(witness, f"old 0\n{line * 64}\n{note}".encode()) == (400, None)


@pytest.mark.parametrize("count", [0, 31, 33])
def test_a_proof_of_something_else_than_hashes(witness: Witness, log: SignedLog, count: int) -> None:
    line = b64encode(bytes(count)).decode()
    assert refused(witness, f"old 1\n{line}\n\n{grown(log).note}".encode()) == (400, None)


def test_many_at_once_never_take_it_back(witness: Witness, log: SignedLog, asking: Asking) -> None:
    """Each of many asks from what it takes for the newest size; whoever comes late hears the true one."""
    kept = [grown(log, 1) for _ in range(12)]
    bodies = [asking(old.size if old else 0, new) for old, new in zip([None, *kept], kept, strict=False)]

    def one(body: bytes) -> int:
        with suppress(Refused):
            witness.cosign(body, at(NOW))
        known = witness.watched(ORIGIN)
        assert known is not None
        return known.checkpoint.size if known.checkpoint else 0

    for _ in range(len(kept)):
        with ThreadPoolExecutor(8) as pool:
            sizes = list(pool.map(one, bodies))
        assert sizes[-1] <= kept[-1].size
    assert max(sizes) == kept[-1].size
    assert refused(witness, bodies[0]) == (409, kept[-1].size)


def test_what_strangers_have_signed_beside_it_is_not_kept(witness: Witness, log: SignedLog) -> None:
    kept = grown(log)
    note = parse_note(kept.note)
    stranger = SigningKey.generate("stranger.example/x").sign(note.text)
    witness.cosign(f"old 0\n\n{format_note(note.text, (stranger, *note.signatures))}".encode(), at(NOW))
    known = witness.watched(ORIGIN)
    assert known is not None
    assert known.newest is not None
    assert re.findall("^— ([^ ]+)", known.newest, re.MULTILINE) == [ORIGIN, NAME]


def test_a_witness_needs_a_name_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--name"):
        Witness.open(tmp_path / "w")
    assert not (tmp_path / "w").exists()
    with pytest.raises(UsageError, match="cannot be called"):
        Witness.open(tmp_path / "w", "two words")
    assert not (tmp_path / "w").exists()
    made = Witness.open(tmp_path / "w", NAME)
    assert Witness.open(tmp_path / "w").key == made.key == Witness.open(tmp_path / "w", NAME).key
    with pytest.raises(UsageError, match=NAME):
        Witness.open(tmp_path / "w", "witness.example/w2")


def test_a_key_that_others_can_read_is_refused(witness: Witness) -> None:
    (witness.folder / "witness.key").chmod(0o644)
    with pytest.raises(StoreError, match="others can read"):
        Witness.open(witness.folder)


def test_a_key_that_is_gone_is_missed_and_not_made_anew(witness: Witness) -> None:
    key = witness.folder / "witness.key"
    pem = key.read_bytes()
    key.unlink()
    for name in (None, NAME):
        with pytest.raises(
            StoreError, match=r"the key of witness\.example/w1 is not at .*witness\.key; bring the file back"
        ):
            Witness.open(witness.folder, name)
    assert not key.exists()
    key.touch(0o600)
    key.write_bytes(pem)
    assert Witness.open(witness.folder).key == witness.key


@pytest.mark.parametrize("name", [None, NAME])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe"])
def test_a_name_of_its_own_that_is_none_is_told_in_words(witness: Witness, data: bytes, name: str | None) -> None:
    (witness.folder / "vkey").write_bytes(data)
    with pytest.raises(StoreError, match=r"vkey holds no verifier key: .*; bring back a good copy"):
        Witness.open(witness.folder, name)


def test_a_witness_whose_key_was_exchanged_signs_nothing(witness: Witness, tmp_path: Path) -> None:
    """Who checks its word knows it by the other half, which is in everybody's hands."""
    other = Witness.open(tmp_path / "other", NAME)
    (witness.folder / "witness.key").write_bytes((other.folder / "witness.key").read_bytes())
    with pytest.raises(StoreError, match="vkey does not belong to the key beside it"):
        Witness.open(witness.folder)


def test_another_key_under_a_known_name(witness: Witness, log: SignedLog) -> None:
    assert witness.trust(VerifierKey.parse(log.identity)).origin == ORIGIN
    with pytest.raises(UsageError, match="another key"):
        witness.trust(SigningKey.generate(ORIGIN).verifier)
    with pytest.raises(UsageError, match="witness's key"):
        witness.trust(witness.key)
    assert [each.origin for each in witness.logs()] == [ORIGIN]


@pytest.mark.parametrize("id", ["", "..", "../../witness.key", "A" * 64, log_id("log.example/other")])
def test_only_ids_of_known_logs_name_anything(witness: Witness, id: str) -> None:
    assert witness.log(id) is None


def test_a_signature_that_is_there_a_hundred_times_is_kept_once(witness: Witness, log: SignedLog) -> None:
    assert log.ring
    head = log.store.head()
    note = parse_note(sign_checkpoint(ORIGIN, head.size, head.root, [log.ring.identity]))
    witness.cosign(f"old 0\n\n{format_note(note.text, note.signatures * 100)}".encode(), at(NOW))
    known = witness.watched(ORIGIN)
    assert known is not None
    assert known.newest is not None
    assert re.findall("^— ([^ ]+)", known.newest, re.MULTILINE) == [ORIGIN, NAME]


def test_a_note_that_has_no_room_for_a_cosignature(witness: Witness, log: SignedLog) -> None:
    assert log.ring
    text = f"{ORIGIN}\n1\n{b64encode(log.store.head().root).decode()}\n"
    room = MAX_NOTE - len(format_note(text, [log.ring.identity.sign(text)]).encode())
    text += "x" * (room - 1) + "\n"
    note = format_note(text, [log.ring.identity.sign(text)])
    assert len(note.encode()) == MAX_NOTE
    assert refused(witness, f"old 0\n\n{note}".encode()) == (400, None)


@pytest.mark.parametrize("spoilt", [b"", b"garbage", b"\xff", b"another log"])
def test_what_it_saw_last_is_never_taken_for_nothing(
    witness: Witness, log: SignedLog, asking: Asking, spoilt: bytes
) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    other = SigningKey.generate("log.example/other")
    if spoilt == b"another log":
        spoilt = sign_checkpoint("log.example/other", kept.size, bytes(32), [other]).encode()
    (witness.folder / "logs" / log_id(ORIGIN) / "checkpoint").write_bytes(spoilt)
    with pytest.raises(StoreError, match="bring back a good copy"):
        witness.cosign(asking(0, kept), at(NOW))
    with pytest.raises(StoreError, match="bring back a good copy"):
        witness.logs()


def test_the_clock_is_asked_when_nobody_else_can_cosign(witness: Witness, log: SignedLog, asking: Asking) -> None:
    """Otherwise whoever waited longest would get the largest size with the oldest time."""

    def clock() -> int:
        with (witness.folder / "lock").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return NOW

    witness.cosign(asking(0, grown(log)), clock)


def _killed_at(step: int, do: Callable[[], None]) -> bool:
    """Do it in a process that is killed at one of its steps on the disk; whether it was."""
    child = os.fork()
    if child == 0:
        left = step

        def hook(event: str, _: Any) -> None:
            nonlocal left
            if event in ("open", "os.mkdir", "os.rename", "os.remove"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            do()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_killed_anywhere_it_goes_on_and_has_forgotten_nothing(tmp_path: Path, log: SignedLog, asking: Asking) -> None:
    first, second = grown(log), grown(log)
    key, bodies = VerifierKey.parse(log.identity), (asking(0, first), asking(first.size, second))
    step = 0
    while True:
        folder, told = tmp_path / f"w{step}", tmp_path / f"told{step}"

        def work(folder: Path = folder, told: Path = told) -> None:
            witness = Witness.open(folder, NAME)
            witness.trust(key)
            with told.open("w") as file:
                for body in bodies:
                    file.write(witness.cosign(body, at(NOW)))
                    file.flush()

        killed = _killed_at(step, work)
        witness = Witness.open(folder, NAME)
        witness.trust(key)
        [known] = witness.logs()
        heard = len(told.read_text().splitlines()) if told.exists() else 0
        kept = known.checkpoint.size if known.checkpoint else 0
        assert kept >= (0, first.size, second.size)[heard]
        assert kept in (0, first.size, second.size)
        witness.cosign(asking(kept, second), at(NOW))
        if not killed:
            break
        step += 1
    assert step > 20


class History:
    """A tree, and what its log asks for it; the log signs whatever it likes."""

    def __init__(self, name: str, key: SigningKey) -> None:
        # The first three leaves are those of every history.
        self._leaves = [leaf_hash(f"{name if each > 2 else 'the same'} {each}".encode()) for each in range(40)]
        self._key = key

    def node(self, level: int, index: int) -> bytes:
        return block_root(self._leaves[index << level : (index + 1) << level])

    def root(self, size: int) -> bytes:
        return root_of(self._leaves[:size])

    def request(self, old: int, new: int) -> bytes:
        proof = consistency_proof(old, new, self) if old else []
        note = sign_checkpoint(ORIGIN, new, self.root(new), [self._key])
        return "\n".join([f"old {old}", *map(to_base64, proof), "", note]).encode()


def _ask_for_all(folder: Path, histories: list[list[bytes]], meeting: Any, heard: Any) -> None:
    witness = Witness.open(folder)
    meeting.wait()
    for requests in zip(*histories, strict=True):
        for number, request in enumerate(requests):
            with suppress(Refused):
                witness.cosign(request, at(NOW))
                heard.put(number)
    heard.put(None)


def test_of_two_histories_only_one_is_cosigned_however_many_ask(witness: Witness, log: SignedLog) -> None:
    """Several processes on one folder, and each asks for both."""
    assert log.ring
    histories = [History(name, log.ring.identity) for name in ("one", "two")]
    witness.cosign(histories[0].request(0, 3), at(NOW))
    bodies = [[each.request(size, size + 1) for size in range(3, 39)] for each in histories]
    # A process that is made anew has none of our threads in the middle of something.
    processes = get_context("spawn")
    meeting, heard = processes.Barrier(4), processes.Queue()
    asking = [
        processes.Process(target=_ask_for_all, args=(witness.folder, bodies, meeting, heard), daemon=True)
        for _ in range(4)
    ]
    for each in asking:
        each.start()
    cosigned, left = [], len(asking)
    while left:
        number = heard.get(timeout=60)
        left -= number is None
        cosigned += [] if number is None else [number]
    for each in asking:
        each.join()
    assert len(cosigned) == 36
    assert len(set(cosigned)) == 1
    known = witness.watched(ORIGIN)
    assert known is not None
    assert known.checkpoint is not None
    assert known.checkpoint.root == histories[cosigned[0]].root(39)


@pytest.mark.needs_root
def test_on_a_full_disk_nothing_is_cosigned_and_nothing_forgotten(
    tmp_path: Path, log: SignedLog, asking: Asking
) -> None:
    first, second = grown(log), grown(log)
    with tmpfs(tmp_path / "disk", 64) as disk:
        witness = Witness.open(disk / "w", NAME)
        witness.trust(VerifierKey.parse(log.identity))
        witness.cosign(asking(0, first), at(NOW))
        with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        with pytest.raises(StoreError, match="No space left"):
            witness.cosign(asking(first.size, second), at(NOW))
        assert refused(witness, asking(0, second)) == (409, first.size)
        make_space(disk)
        witness.cosign(asking(first.size, second), at(NOW))
