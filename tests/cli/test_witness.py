"""A log, its witness and an auditor, each with a folder of their own: what each of them types, and what comes of it."""

import asyncio
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from command_line import started
from hansard.app.ledgers.custody import pin
from hansard.app.settings import Settings
from hansard.app.wiring import open_ledger
from shell import hansard
from small_run import record_run
from witnesses import Watching, watching


@pytest.fixture
def keeper(tmp_path: Path) -> Path:
    """The folder of somebody who keeps a log with a run in it."""
    folder = tmp_path / "keeper"
    folder.mkdir()
    _more(folder)
    return folder


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    """A witness that knows none of our logs."""
    with watching(tmp_path_factory.mktemp("witness")) as found:
        yield found


@pytest.fixture
def witness(stranger: Watching, keeper: Path) -> Watching:
    """The same once it knows the keeper's."""
    stranger.trust(_pin(keeper))
    return stranger


def _more(keeper: Path) -> None:
    asyncio.run(record_run(keeper / "l.db", keeper / "state"))


def _anchors(keeper: Path) -> list[Any]:
    """What the record says of witnesses."""
    done = hansard(keeper, "ledger", "show", "--kind", "anchor.recorded", "--ledger", "l.db", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _seen(witness: Watching, keeper: Path) -> int:
    """The size up to which the witness has cosigned the keeper's log."""
    listed = json.loads(hansard(witness.folder, "witness", "logs", "--json").stdout)
    [size] = [each["size"] for each in listed if _pin(keeper).startswith(f"{each['origin']}+")]
    return int(size)


def _pin(keeper: Path) -> str:
    with open_ledger(Settings(ledger=str(keeper / "l.db"), state=keeper / "state")) as opened:
        return str(pin(opened)["pin"])


def _ask(keeper: Path, witness: Watching, *words: object) -> tuple[int, str, str]:
    done = hansard(keeper, "ledger", "witness", witness.url, "--key", witness.key, "--ledger", "l.db", *words)
    return done.returncode, done.stdout, done.stderr


def _forget_what_was_signed(keeper: Path) -> None:
    """What a keeper does who puts an older copy in place and does not want to be told."""
    for kept in (keeper / "state").glob("logs/*/last-checkpoint"):
        kept.unlink()


def test_a_log_is_cosigned_and_an_auditor_sees_it(keeper: Path, witness: Watching) -> None:
    code, out, err = _ask(keeper, witness, "-o", "cosigned.checkpoint", "--json")
    assert code == 0, err
    [view] = json.loads(out)
    assert view["witness"] == "witness.example/w1"
    assert (keeper / "cosigned.checkpoint").read_text() == view["checkpoint"]
    [entry] = _anchors(keeper)
    assert (entry["seq"], entry["data"]["by"], entry["data"]["size"]) == (view["entry"], "witness", view["size"])
    verified = hansard(keeper, "verify", "l.db", "--deep", "--strict", "--pin", _pin(keeper), "--witness", witness.key)
    assert verified.returncode == 0, verified.stdout
    assert f"witness.example/w1 saw size {view['size']} at " in verified.stdout
    report = json.loads(hansard(keeper, "verify", "l.db", "--witness", witness.key, "--json").stdout)
    assert report["witnessed"] == [{"name": "witness.example/w1", "size": view["size"], "time_s": view["time_s"]}]


def test_a_receipt_carries_its_word(keeper: Path, witness: Watching) -> None:
    receipt = ("ledger", "receipt", 3, "--cosigned", "--ledger", "l.db", "-o", "3.tlog-proof")
    assert "no witness has seen entry 3" in hansard(keeper, *receipt).stderr
    assert _ask(keeper, witness)[0] == 0
    _more(keeper)
    assert hansard(keeper, *receipt).returncode == 0
    found = hansard(keeper, "verify", "3.tlog-proof", "--pin", _pin(keeper), "--witness", witness.key)
    assert found.returncode == 0, found.stdout
    assert "witness.example/w1 saw size 13 at " in found.stdout
    late = hansard(keeper, "ledger", "receipt", 14, "--cosigned", "--ledger", "l.db")
    assert (late.returncode, "no witness has seen entry 14" in late.stderr) == (2, True)


def test_a_receipt_carries_the_words_of_all_who_were_asked_together(
    keeper: Path, witness: Watching, tmp_path: Path
) -> None:
    with watching(tmp_path / "second", "witness.example/w2") as second:
        second.trust(_pin(keeper))
        tables = [
            f'[witnesses.{name}]\nurl = "{each.url}"\nkey = "{each.key}"\n'
            for name, each in (("one", witness), ("two", second))
        ]
        (keeper / "hansard.toml").write_text('ledger = "l.db"\n' + "".join(tables))
        asked = hansard(keeper, "ledger", "witness", "--json")
        assert asked.returncode == 0, asked.stderr
        assert len({each["size"] for each in json.loads(asked.stdout)}) == 1
        _more(keeper)
        # Newer, and the word of one alone.
        assert _ask(keeper, witness)[0] == 0
        made = hansard(keeper, "ledger", "receipt", 3, "--cosigned", "--ledger", "l.db", "-o", "3.tlog-proof")
        assert made.returncode == 0, made.stderr
        words = ("--witness", witness.key, "--witness", second.key)
        found = hansard(keeper, "verify", "3.tlog-proof", "--pin", _pin(keeper), *words)
        assert found.returncode == 0, found.stdout


def test_where_there_is_no_witness_yet_what_makes_one_names_its_folder(tmp_path: Path) -> None:
    refused = hansard(tmp_path, "witness", "key", "--folder", "a witness")
    assert refused.returncode == 2
    assert refused.stderr.endswith("give it a name: hansard witness --name NAME --folder 'a witness'\n")


def test_a_log_is_made_known_by_its_pin(keeper: Path, stranger: Watching) -> None:
    typed = hansard(keeper, "ledger", "pin", "--ledger", "l.db").stdout.strip()
    assert typed == _pin(keeper)
    wrong = hansard(stranger.folder, "witness", "trust", typed.partition("+")[0])
    assert (wrong.returncode, "neither a key or a pin" in wrong.stderr) == (2, True), wrong.stderr
    done = hansard(stranger.folder, "witness", "trust", typed)
    assert (done.returncode, "is known here" in done.stdout) == (0, True), done.stderr
    assert _ask(keeper, stranger)[0] == 0


def test_its_word_goes_on_from_size_to_size(keeper: Path, witness: Watching) -> None:
    sizes = []
    for _ in range(3):
        code, out, err = _ask(keeper, witness, "--json")
        assert code == 0, err
        sizes.append(json.loads(out)[0]["size"])
        _more(keeper)
    assert sizes == sorted(set(sizes))
    assert _seen(witness, keeper) == sizes[-1]


def test_an_older_copy_is_found_out(keeper: Path, witness: Watching) -> None:
    shutil.copy(keeper / "l.db", keeper / "old.db")
    _more(keeper)
    assert _ask(keeper, witness)[0] == 0
    shutil.copy(keeper / "old.db", keeper / "l.db")
    _forget_what_was_signed(keeper)
    code, _, err = _ask(keeper, witness)
    assert code == 11
    assert "rolled back or cut" in err
    origin = _pin(keeper).partition("+")[0]
    (keeper / "newest.checkpoint").write_text(witness.newest(origin))
    found = hansard(keeper, "verify", "l.db", "--against", "newest.checkpoint", "--witness", witness.key)
    assert found.returncode == 21, found.stdout


def test_an_older_copy_is_not_extended_however_many_witnesses_are_asked(keeper: Path, witness: Watching) -> None:
    shutil.copy(keeper / "l.db", keeper / "old.db")
    _more(keeper)
    shutil.copy(keeper / "old.db", keeper / "l.db")
    table = f'url = "{witness.url}"\nkey = "{witness.key}"\n'
    (keeper / "hansard.toml").write_text(f'ledger = "l.db"\n[witnesses.one]\n{table}[witnesses.two]\n{table}')
    done = hansard(keeper, "ledger", "witness")
    assert (done.returncode, done.stdout, "ROLLED BACK" in done.stderr) == (11, "", True), done.stderr
    assert _anchors(keeper) == []


def test_a_second_history_is_not_cosigned(keeper: Path, witness: Watching, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(keeper, other)
    _more(keeper)
    assert _ask(keeper, witness)[0] == 0
    _more(other)
    _more(other)
    code, _, err = _ask(other, witness)
    assert code == 11
    assert "another log" in err
    assert _anchors(other) == []


def test_a_witness_that_was_not_there_is_a_grade_that_is_not_reached(keeper: Path, witness: Watching) -> None:
    found = hansard(keeper, "verify", "l.db", "--witness", witness.key)
    assert found.returncode == 23, found.stdout
    assert "nothing that was shown is cosigned by 'witness.example/w1'" in found.stdout
    (keeper / "key").write_text(witness.key + "\n")
    assert hansard(keeper, "verify", "l.db", "--witness", "key").returncode == 23
    assert hansard(keeper, "verify", "l.db", "--witness", "nothing").returncode == 2
    assert hansard(keeper, "verify", "l.db", "--witness", _pin(keeper).partition("@")[0]).returncode == 2


def test_a_cosignature_that_was_changed_counts_for_nothing(keeper: Path, witness: Watching) -> None:
    assert _ask(keeper, witness, "-o", "good.checkpoint")[0] == 0
    text = (keeper / "good.checkpoint").read_text()
    lines = text.splitlines(keepends=True)
    (keeper / "bare.checkpoint").write_text("".join(lines[:-1]))
    last = lines[-1].rstrip("\n")
    flipped = last[:-6] + ("A" if last[-6] != "A" else "B") + last[-5:]
    (keeper / "bad.checkpoint").write_text("".join([*lines[:-1], flipped + "\n"]))
    hansard(keeper, "ledger", "export", "out", "--without-bodies", "--ledger", "l.db")
    codes = {
        name: hansard(keeper, "verify", "out", "--against", f"{name}.checkpoint", "--witness", witness.key).returncode
        for name in ("good", "bare", "bad")
    }
    assert codes == {"good": 0, "bare": 23, "bad": 23}


def test_witnesses_of_hansard_toml(keeper: Path, witness: Watching) -> None:
    assert "no witness is configured" in hansard(keeper, "ledger", "witness", "--ledger", "l.db").stderr
    table = f'[witnesses.one]\nurl = "{witness.url}"\nkey = "{witness.key}"\n'
    (keeper / "hansard.toml").write_text(f'ledger = "l.db"\n{table}')
    done = hansard(keeper, "ledger", "witness")
    assert done.returncode == 0, done.stderr
    assert "witness.example/w1 saw size" in done.stdout
    (keeper / "hansard.toml").write_text(
        f'ledger = "l.db"\n{table}[witnesses.two]\nurl = "http://127.0.0.1:9"\nkey = "{witness.key}"\n'
    )
    done = hansard(keeper, "ledger", "witness")
    assert done.returncode == 11
    assert "saw size" in done.stdout
    assert done.stderr.endswith("does not answer at http://127.0.0.1:9: Connection refused\n")
    hidden = f'{table}[witnesses.two]\nurl = "http://127.0.0.1:9"\nkey = "{witness.key}"\n'
    shutil.copytree(keeper, keeper.parent / "older")
    _more(keeper)
    assert _ask(keeper, witness)[0] == 0
    (keeper.parent / "older" / "hansard.toml").write_text(f'ledger = "l.db"\n{hidden}')
    done = hansard(keeper.parent / "older", "ledger", "witness")
    assert done.returncode == 11
    assert ("rolled back or cut" in done.stderr, "does not answer" in done.stderr) == (True, True), "each is told"
    (keeper / "hansard.toml").write_text(f'ledger = "l.db"\n{table}kee = "x"\n')
    assert "did you mean key?" in hansard(keeper, "ledger", "witness").stderr


def test_who_asks_wrongly_is_told_what_to_write(keeper: Path, stranger: Watching) -> None:
    def said(*words: object) -> str:
        done = hansard(keeper, "ledger", "witness", *words, "--ledger", "l.db")
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert "URL --key KEY" in said(stranger.url)
    assert "URL --key KEY" in said("--key", stranger.key)
    assert "write http://" in said("example.org", "--key", stranger.key)
    assert "signs logs and cosigns nothing" in said(stranger.url, "--key", _pin(keeper).partition("@")[0])
    assert "hansard witness trust PIN" in said(stranger.url, "--key", stranger.key)


def test_a_witness_under_another_key_is_not_believed(keeper: Path, witness: Watching, tmp_path: Path) -> None:
    with watching(tmp_path / "second") as other:
        done = hansard(keeper, "ledger", "witness", witness.url, "--key", other.key, "--ledger", "l.db")
    assert done.returncode == 11
    assert "no cosignature of this checkpoint" in done.stderr
    assert _anchors(keeper) == []


def test_what_it_answers_to_whatever_is_no_request(witness: Watching) -> None:
    assert witness.ask("GET", "/") == (200, "text/plain; charset=utf-8", f"{witness.key}\n")
    assert witness.ask("GET", "/logs/../../witness.key/checkpoint")[0] == 404
    assert witness.ask("GET", f"/logs/{'0' * 64}/checkpoint")[0] == 404
    assert witness.ask("POST", "/", b"x")[0] == 404
    assert witness.ask("POST", "/add-checkpoint", b"x")[0] == 400
    assert witness.ask("POST", "/add-checkpoint", b"", **{"content-length": "1048577"})[0] == 413
    assert witness.ask("POST", "/add-checkpoint", b"", **{"content-length": "-1"})[0] == 411
    assert witness.ask("PUT", "/add-checkpoint", b"x")[0] == 501
    address = urlsplit(witness.url)
    for odd in (
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /add-checkpoint HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
    ):
        with socket.create_connection((address.hostname, address.port), timeout=30) as plug:
            plug.sendall(odd)
            plug.shutdown(socket.SHUT_WR)
            while plug.recv(65536):
                pass
    assert witness.ask("GET", "/")[0] == 200
    assert "Traceback" not in witness.log.read_text()


def test_a_size_is_told_as_the_protocol_has_it(keeper: Path, witness: Watching) -> None:
    assert _ask(keeper, witness)[0] == 0
    body = hansard(keeper, "ledger", "consistency", 0, "--ledger", "l.db").stdout
    status, media, text = witness.ask("POST", "/add-checkpoint", body.encode())
    assert (status, media) == (409, "text/x.tlog.size")
    assert text == f"{_seen(witness, keeper)}\n"


def test_a_witness_that_was_killed_goes_on_where_it_was(keeper: Path, tmp_path: Path) -> None:
    with watching(tmp_path / "w") as first:
        first.trust(_pin(keeper))
        assert _ask(keeper, first)[0] == 0
        first.process.kill()
        first.process.wait()
    with watching(tmp_path / "w") as second:
        assert second.key == first.key
        _more(keeper)
        assert _ask(keeper, second)[0] == 0


def test_a_file_that_is_there_is_told_before_anything_is_recorded(keeper: Path, witness: Watching) -> None:
    (keeper / "there").touch()
    code, _, err = _ask(keeper, witness, "-o", "there")
    assert (code, "there is there already" in err) == (2, True)
    assert _anchors(keeper) == []


def test_the_verifier_that_is_carried_away_asks_for_its_word(keeper: Path, witness: Watching) -> None:
    assert _ask(keeper, witness)[0] == 0
    assert hansard(keeper, "ledger", "export", "out", "--ledger", "l.db").returncode == 0
    alone = [sys.executable, "-I", "-S", "verify.pyz", ".", "--witness"]
    for key, code in ((witness.key, 0), ("nothing", 2)):
        done = subprocess.run([*alone, key], cwd=keeper / "out", capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr


def test_the_folder_may_be_named_before_the_verb_or_behind_it(tmp_path: Path) -> None:
    first = hansard(tmp_path, "witness", "--name", "witness.example/w1", "key").stdout
    second = hansard(tmp_path, "witness", "--folder", "other", "--name", "witness.example/w2", "key").stdout
    assert second.startswith("witness.example/w2+")
    assert hansard(tmp_path, "witness", "key", "--folder", "other").stdout == second
    assert hansard(tmp_path, "witness", "--folder", "other", "logs", "--json").stdout == "[]\n"
    assert hansard(tmp_path, "witness", "key").stdout == first


@pytest.mark.parametrize(
    "words", [("--port", 70_000), ("--host", ""), ("--host", "192.0.2.1"), ("--host", "a..b"), ("--port", -1)]
)
def test_where_it_cannot_listen_is_a_mistake_in_the_flags(tmp_path: Path, words: tuple[object, ...]) -> None:
    done = hansard(tmp_path, "witness", "--name", "witness.example/w1", *words)
    assert done.returncode == 2, done.stderr
    assert "--port" in done.stderr or "--host" in done.stderr


def test_a_pin_in_a_file_whose_name_has_a_plus(keeper: Path, stranger: Watching) -> None:
    (stranger.folder / "the+pin").write_text(_pin(keeper))
    assert hansard(stranger.folder, "witness", "trust", "the+pin").returncode == 0


def _said(witness: Watching, data: bytes) -> bytes:
    """All that comes back for these bytes, until the witness hangs up."""
    address, found = urlsplit(witness.url), b""
    with socket.create_connection((address.hostname, address.port), timeout=60) as plug, suppress(ConnectionError):
        plug.sendall(data)
        while more := plug.recv(65536):
            found += more
    return found


def test_where_a_request_ends_nobody_can_be_of_two_minds(witness: Watching) -> None:
    """A proxy and we must not see two requests where the other sees one."""
    second = b"GET /second HTTP/1.1\r\n\r\n"
    for head in (
        b"GET / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(second),
        b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /add-checkpoint HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /add-checkpoint HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /add-checkpoint HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"OPTIONS / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(second),
        b"HEAD / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(second),
    ):
        assert _said(witness, head + second).count(b"HTTP/1.1 ") == 1, head
    assert b"/second" not in witness.log.read_bytes()


def test_several_requests_on_one_connection(witness: Watching) -> None:
    asked = b"GET / HTTP/1.1\r\n\r\nPOST /add-checkpoint HTTP/1.1\r\ncontent-length: 1\r\n\r\nx"
    found = _said(witness, asked * 3 + b"GET / HTTP/1.0\r\n\r\n")
    assert (found.count(b" 200 OK"), found.count(b" 400 Bad Request")) == (4, 3)


def test_a_head_without_end_is_refused_before_it_fills_the_memory(witness: Watching) -> None:
    lines = b"".join(b"x%d: %s\r\n" % (number, b"y" * 60_000) for number in range(99))
    assert _said(witness, b"GET / HTTP/1.1\r\n" + lines).startswith(b"HTTP/1.1 431 ") or _refused_early(witness)
    assert witness.ask("GET", "/")[0] == 200


def _refused_early(witness: Watching) -> bool:
    """Whoever still sends when it is refused may hear nothing but that the connection is gone."""
    return "431" in witness.log.read_text()


def test_what_it_cannot_read_of_its_own_is_told_as_its_own_trouble(keeper: Path, tmp_path: Path) -> None:
    with watching(tmp_path / "w") as witness:
        witness.trust(_pin(keeper))
        assert _ask(keeper, witness)[0] == 0
        [kept] = (witness.folder / "state").glob("witness/logs/*/checkpoint")
        kept.write_bytes(b"")
        assert witness.ask("GET", f"/logs/{kept.parent.name}/checkpoint")[0] == 500
        code, _, err = _ask(keeper, witness)
        assert (code, "HTTP 500" in err) == (11, True)
        assert "does not hold what was cosigned last" in witness.log.read_text()
        assert "bring back a good copy" in hansard(witness.folder, "witness", "logs").stderr


def test_it_answers_when_nobody_reads_its_log(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = started(tmp_path, "witness", "--name", "witness.example/w1", "--port", 0, "--json", stderr=writing)
    os.close(writing)
    os.close(reading)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        witness = Watching(folder=tmp_path, process=process, url=said["listening"], key=said["key"], log=tmp_path)
        assert [witness.ask("GET", "/")[0] for _ in range(3)] == [200] * 3
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _crowd(witness: Watching, count: int) -> Iterator[None]:
    """So many callers who ask again and again, and hang up only when they are hung up on; then they come anew."""
    address, over, there = urlsplit(witness.url), threading.Event(), threading.Semaphore(0)

    def one() -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection((address.hostname, address.port), timeout=60) as plug:
                there.release()
                while not over.is_set():
                    plug.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    if not plug.recv(65536):
                        break
                    over.wait(0.2)
            over.wait(0.01)

    with ExitStack() as stack:
        stack.callback(over.set)
        for _ in range(count):
            threading.Thread(target=one, daemon=True).start()
        for _ in range(count):
            assert there.acquire(timeout=60)
        yield


def test_a_crowd_that_stays_keeps_nobody_out_and_does_not_hold_up_its_end(tmp_path: Path) -> None:
    with watching(tmp_path / "w") as witness:
        with _crowd(witness, 80):
            assert [witness.ask("GET", "/")[0] for _ in range(3)] == [200] * 3
            witness.process.terminate()
            assert witness.process.wait(timeout=60) == 0
        assert "Fatal" not in witness.log.read_text()


def test_callers_for_whom_there_was_no_thread_do_not_use_up_its_places(tmp_path: Path) -> None:
    with watching(tmp_path / "w") as witness:
        status = Path(f"/proc/{witness.process.pid}/status").read_text()
        [used] = [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSize:")]
        before = resource.prlimit(witness.process.pid, resource.RLIMIT_AS)
        # A megabyte more is room for this and that, and for the stack of no thread.
        resource.prlimit(witness.process.pid, resource.RLIMIT_AS, (used + (1 << 20), before[1]))
        for _ in range(70):
            assert _said(witness, b"GET / HTTP/1.0\r\n\r\n") == b""
        resource.prlimit(witness.process.pid, resource.RLIMIT_AS, before)
        assert witness.ask("GET", "/")[0] == 200
