"""A daemon whose log is cosigned: on its own, now and then, and without anybody waiting for it."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from command_line import hansard
from daemons import place, serving, wait_for
from hansard.app.ledgers.cosigning import Asked
from hansard.app.ledgers.custody import pin
from hansard.app.service import Hansard
from hansard.app.serving.cosigner import Cosigner
from hansard.app.settings import Settings
from hansard.app.wiring import open_ledger
from hansard.domain.fact import Body
from hansard.domain.work import RunRequested
from hansard.ledger.note import VerifierKey
from hansard.ledger.verify import Options, verify
from hansard.seal.signing import SigningKey
from signed_log import SignedLog
from small_run import record_run
from witnesses import watching


def test_a_daemon_has_its_log_cosigned(tmp_path: Path) -> None:
    with watching(tmp_path / "w") as witness:
        folder = tmp_path / "d"
        folder.mkdir()
        place(folder, more=f'[witnesses.one]\nurl = "{witness.url}"\nkey = "{witness.key}"\n')
        asyncio.run(record_run(folder / "l.db", folder / "state"))
        with serving(folder) as daemon:
            witness.trust(daemon.cli("ledger", "pin").stdout.strip())
            # The first word may have come before the witness knew this log.
            daemon.stop()
        with serving(folder) as daemon:
            found = wait_for(lambda: [each for each in daemon.logged() if each["event"] == "cosigned"])
            assert found[0]["witness"] == "one"
            (folder / "r").write_text(daemon.get("/v1/ledger/entries/3/receipt?cosigned=true").json()["receipt"])
            assert daemon.cli("verify", folder / "r", "--witness", witness.key).returncode == 0
            daemon.submit(wait=30)
        assert verify(folder / "l.db", Options(deep=True, strict=True, witnesses=(witness.key,))).ok


def test_every_new_checkpoint_is_shown_and_nothing_else(tmp_path: Path) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    news = threading.Event()

    def tell(event: str, **more: Any) -> None:
        told.append((event, more))
        news.set()

    async def sizes(witness: Asked) -> list[int]:
        settings = Settings(ledger=str(tmp_path / "l.db"), state=tmp_path / "state")
        async with Hansard.open(settings=settings) as hansard:
            with Cosigner(hansard.recorder, {"one": witness}, tell, every_s=0.05).working():
                assert await asyncio.to_thread(news.wait, 60)
                # Its own word is signed too, and that is nothing to be shown.
                hansard.recorder.seal_soon()
                await asyncio.sleep(0.5)
        return [more["size"] for event, more in told if event == "cosigned"]

    with watching(tmp_path / "w") as witness:
        asyncio.run(record_run(tmp_path / "l.db", tmp_path / "state"))
        asked = Asked.of(witness.url, witness.key, "here")
        assert asyncio.run(sizes(asked)) == []
        assert "does not know this log" in told[0][1]["detail"]
        told.clear()
        news.clear()
        witness.trust(_pin(tmp_path))
        [size] = asyncio.run(sizes(asked))
        assert size >= 13


@pytest.mark.long
def test_a_single_new_entry_is_shown_even_where_another_witness_is_away(tmp_path: Path) -> None:
    sizes: list[int] = []
    news = threading.Semaphore(0)

    def tell(event: str, **more: Any) -> None:
        if event == "cosigned":
            sizes.append(more["size"])
            news.release()

    async def twice(witnesses: dict[str, Asked]) -> None:
        settings = Settings(ledger=str(tmp_path / "l.db"), state=tmp_path / "state")
        async with Hansard.open(settings=settings) as hansard:
            with Cosigner(hansard.recorder, witnesses, tell, every_s=0.05).working():
                assert await asyncio.to_thread(news.acquire, timeout=60)
                fact = RunRequested(mode="request", surface="cli", request=Body.text("one thing more"))
                entry = await hansard.recorder.record(fact, actor="human:k7", run="r9")
                hansard.recorder.seal_soon()
                assert await asyncio.to_thread(news.acquire, timeout=60)
                assert sizes[-1] > entry.seq

    with watching(tmp_path / "w") as witness:
        asyncio.run(record_run(tmp_path / "l.db", tmp_path / "state"))
        witness.trust(_pin(tmp_path))
        away = Asked.of("http://127.0.0.1:9", witness.key, "here")
        asyncio.run(twice({"away": away, "one": Asked.of(witness.url, witness.key, "here")}))


def test_an_unsigned_log_is_told_once_and_nobody_is_asked(tmp_path: Path) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    log = SignedLog.create(tmp_path, signed=False)
    log.store.close()

    async def look(witness: Asked) -> None:
        settings = Settings(ledger=str(log.path), state=tmp_path / "state")
        async with Hansard.open(settings=settings) as hansard:
            tell = lambda event, **more: told.append((event, more))  # noqa: E731
            with Cosigner(hansard.recorder, {"one": witness}, tell, every_s=0.05).working():
                await asyncio.sleep(0.5)

    key = SigningKey.generate("witness.example/w1").verifier
    asyncio.run(look(Asked.of("http://127.0.0.1:9", VerifierKey.cosigner(key.name, key.public).text(), "here")))
    [(event, more)] = told
    assert (event, more["witness"]) == ("not cosigned", "one")
    assert "unsigned" in more["detail"]


def test_a_witness_that_never_answers_holds_up_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, watching(tmp_path / "w") as witness:
        folder = tmp_path / "d"
        folder.mkdir()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        place(folder, more=f'[witnesses.one]\nurl = "{url}"\nkey = "{witness.key}"\n')
        asyncio.run(record_run(folder / "l.db", folder / "state"))
        with serving(folder) as daemon:
            assert daemon.submit(wait=30)["state"] == "answered"
            assert daemon.stop(timeout_s=15) == 0


def test_a_mistake_in_a_witness_is_told_at_the_start(tmp_path: Path) -> None:
    place(tmp_path, more='[witnesses.one]\nurl = "example.org"\nkey = "x"\n')
    done = hansard(tmp_path, "serve", "--port", 0)
    assert done.returncode == 2
    assert "[witnesses.one]" in done.stderr
    assert not (tmp_path / "l.db").exists()


def _pin(folder: Path) -> str:
    with open_ledger(Settings(ledger=str(folder / "l.db"), state=folder / "state")) as opened:
        return str(pin(opened)["pin"])
