"""Asking a witness that is not what it should be: it lies, mumbles, drips, or is asked by somebody else at the same time."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hansard.app.ledgers import cosigning
from hansard.app.ledgers.cosigning import Asked, ask
from hansard.app.posting import post
from hansard.errors import HansardError, ProviderError, StoreError, UsageError
from hansard.ledger.note import Signature, VerifierKey, cosignature_message, parse_note
from hansard.seal.signing import SigningKey
from hansard.store.base import StoredCheckpoint
from signed_log import SignedLog

NAME, NOW = "witness.example/w1", 1_700_000_000
Answer = bytes | Callable[[socket.socket], None]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SignedLog]:
    made = SignedLog.create(tmp_path / "log")
    made.ask_many(8)
    yield made
    made.store.close()


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.generate(NAME)


@contextmanager
def answering(*answers: Answer) -> Iterator[tuple[str, list[str]]]:
    """A witness that says what it is told to, whatever it is asked: its URL, and the first line of each request."""
    heard: list[str] = []

    def work(server: socket.socket) -> None:
        with suppress(OSError):
            for answer in answers:
                plug, _ = server.accept()
                with plug:
                    head, _, body = _request(plug).partition(b"\r\n\r\n")
                    assert b"POST /add-checkpoint" in head
                    heard.append(body.partition(b"\n")[0].decode())
                    if callable(answer):
                        answer(plug)
                    else:
                        plug.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=work, args=[server], daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)


def _request(plug: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += plug.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    [length] = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    while len(body) < length:
        body += plug.recv(65536)
    return head + b"\r\n\r\n" + body


def http(status: int, body: str | bytes, *more: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = (f"HTTP/1.1 {status} X", f"content-length: {len(data)}", *more, "", "")
    return "\r\n".join(lines).encode() + data


def line(key: SigningKey, note: str, time_s: int, *, over: str | None = None) -> str:
    """A cosignature; `over` is another text that it is made for."""
    public = VerifierKey.cosigner(key.verifier.name, key.verifier.public)
    signed = key.private.sign(cosignature_message(over or parse_note(note).text, time_s))
    return Signature(name=public.name, key_id=public.key_id, blob=time_s.to_bytes(8, "big") + signed).line()


def at(url: str, key: SigningKey) -> Asked:
    return Asked.of(url, VerifierKey.cosigner(key.verifier.name, key.verifier.public).text(), "here")


def failure(log: SignedLog, key: SigningKey, kept: StoredCheckpoint, *answers: Answer) -> HansardError:
    """What comes of these answers, which must be an error that can be printed."""
    with answering(*answers) as (url, _), pytest.raises(HansardError) as error:
        ask(log.store, at(url, key), kept)
    assert str(error.value).isprintable()
    return error.value


def test_a_good_word_is_taken_and_nothing_else_that_came_with_it(log: SignedLog, key: SigningKey) -> None:
    kept, stranger = log.checkpoint(), SigningKey.generate("stranger.example/x")
    lines = line(stranger, kept.note, NOW) + line(key, kept.note, NOW)
    with answering(http(200, lines)) as (url, heard):
        found = ask(log.store, at(url, key), kept)
    assert (found.size, found.time_s, heard) == (kept.size, NOW, ["old 0"])
    assert [each.name for each in parse_note(found.note).signatures][-1] == NAME
    assert "stranger" not in found.note


def test_a_word_that_does_not_hold_is_none(log: SignedLog, key: SigningKey) -> None:
    kept, other = log.checkpoint(), SigningKey.generate(NAME)
    for lines in (
        line(other, kept.note, NOW),
        line(key, kept.note, NOW, over=parse_note(kept.note).text.replace(f"\n{kept.size}\n", "\n99\n")),
        line(key, kept.note, 2**63),
        "",
        "\n",
        "— x\n",
        "\x1b[2J",
        b"\xff\xfe",
    ):
        assert isinstance(failure(log, key, kept, http(200, lines)), ProviderError), lines


@pytest.mark.parametrize("time_s", [2**63 - 1, 2**53 // 1_000_000 + 1])
def test_a_time_that_is_far_away_is_not_recorded(log: SignedLog, key: SigningKey, time_s: int) -> None:
    kept = log.checkpoint()
    error = failure(log, key, kept, http(200, line(key, kept.note, time_s)))
    assert isinstance(error, ProviderError)
    assert "not yet" in str(error)


def test_a_time_long_ago_is_recorded_as_it_was_said(log: SignedLog, key: SigningKey) -> None:
    kept = log.checkpoint()
    with answering(http(200, line(key, kept.note, 0))) as (url, _):
        assert ask(log.store, at(url, key), kept).fact().time_us == 0


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (301, "", ProviderError),
        (302, "", ProviderError),
        (500, "\x1b]0;owned\x07", ProviderError),
        (404, "", UsageError),
        (422, "\x1b[31m", StoreError),
        (409, "nonsense", ProviderError),
        (409, "", ProviderError),
        (409, "-1\n", ProviderError),
        (409, "9" * 40, ProviderError),
        (409, "0\n", StoreError),
        (409, f"{2**53 - 1}\n", StoreError),
        (403, "x" * 100_000, ProviderError),
    ],
)
def test_other_answers(log: SignedLog, key: SigningKey, status: int, body: str, kind: type[HansardError]) -> None:
    kept = log.checkpoint()
    answer = http(status, body, "location: http://127.0.0.1:1/add-checkpoint")
    assert type(failure(log, key, kept, answer)) is kind


def test_what_is_no_http_steers_no_terminal(log: SignedLog, key: SigningKey) -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for answer in (b"\x1b]0;owned\x07\r\n\r\n", b"", chunked + b"\x1bz\r\n", chunked + b"-5\r\nhello\r\n"):
        assert isinstance(failure(log, key, log.checkpoint(), answer), ProviderError)


def test_another_root_at_the_same_size_is_told_loudly_whatever_the_witness_writes_to_it(
    log: SignedLog, key: SigningKey
) -> None:
    kept = log.checkpoint()
    for body in (f"{kept.size}\n", "conflict\n", ""):
        error = failure(log, key, kept, http(409, f"{kept.size}\n"), http(409, body))
        assert isinstance(error, StoreError)
        assert "another log" in str(error)


def test_whoever_is_overtaken_asks_again_and_raises_no_alarm(log: SignedLog, key: SigningKey) -> None:
    """The daemon and a person at the command line may ask the same witness at the same moment."""
    kept = log.checkpoint()
    answers = (http(409, "2\n"), http(409, "5\n"), http(200, line(key, kept.note, NOW)))
    with answering(*answers) as (url, heard):
        assert ask(log.store, at(url, key), kept).size == kept.size
    assert heard == ["old 0", "old 2", "old 5"]


def test_whoever_is_overtaken_by_a_newer_checkpoint_has_that_one_cosigned(log: SignedLog, key: SigningKey) -> None:
    kept = log.checkpoint()
    log.ask_many(3)
    newer = log.checkpoint()
    answers = (http(409, f"{newer.size}\n"), http(200, line(key, newer.note, NOW)))
    with answering(*answers) as (url, heard):
        assert ask(log.store, at(url, key), kept).size == newer.size
    assert heard == ["old 0", f"old {newer.size}"]


def test_a_witness_that_changes_its_mind_for_ever_is_left(log: SignedLog, key: SigningKey) -> None:
    kept = log.checkpoint()
    error = failure(log, key, kept, *(http(409, f"{size}\n") for size in (8, 7, 6, 5, 4, 3, 2, 1)))
    assert isinstance(error, ProviderError)
    assert "another size each time" in str(error)


def _drip(plug: socket.socket) -> None:
    plug.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
    with suppress(OSError):
        while True:
            plug.sendall(b"x")
            threading.Event().wait(0.05)


def _flood(plug: socket.socket) -> None:
    plug.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    with suppress(OSError):
        while True:
            plug.sendall(b"x" * 65536)


@pytest.mark.parametrize("answer", [_drip, _flood])
def test_an_answer_without_end_has_one_here(
    log: SignedLog, key: SigningKey, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosigning, "TIMEOUT_S", 1.0)
    assert isinstance(failure(log, key, log.checkpoint(), answer), ProviderError)


def test_an_answer_without_end_has_one_even_if_the_connection_took_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two addresses the first takes no connection: the time is over before there is anything to hang up."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, answering(_drip) as (url, _):
        waiting = []
        for _ in range(4):
            plug = socket.socket()
            plug.setblocking(False)
            plug.connect_ex(full.getsockname())
            waiting.append(plug)
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
            for port in (full.getsockname()[1], int(url.rpartition(":")[2]))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        done = threading.Event()
        told: list[Any] = []

        def call() -> None:
            with suppress(OSError):
                told.append(post(f"{url}/add-checkpoint", b"old 0\n", {}, timeout_s=1.0, most_bytes=1 << 20))
            done.set()

        threading.Thread(target=call, daemon=True).start()
        assert done.wait(60)
        for plug in waiting:
            plug.close()


@pytest.mark.parametrize("url", ["http://a..b", f"http://{'a' * 64}.example", "http://x.example/?q", "https://x/#y"])
def test_a_url_that_cannot_be_asked_is_told_at_once(url: str, key: SigningKey) -> None:
    with pytest.raises(UsageError, match="here"):
        at(url, key)
