from pathlib import Path

import pytest

from hansard.domain.fact import Body
from hansard.domain.work import RunRequested
from hansard.ledger.verify import Options, verify
from hansard.record.recorder import Recorder
from hansard.store.base import Store
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft

ODD = {
    "line separators": "a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1e",
    "a lone surrogate": "broken \ud800 pair \udfff",
    "NUL": "a\x00b",
    "nothing": "",
    "a byte order mark": "\ufeffx",
    "quotes and slashes": '"\\/\r\n\t',
    "10 MiB": "0123456789abcdé\n" * (10 * 1024 * 1024 // 17),
}


@pytest.fixture(params=["db", "jsonl"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"x.{request.param}"


def create(path: Path) -> Store:
    return (SqliteStore if path.suffix == ".db" else JsonlStore).create(path, genesis_draft())


def reopen(path: Path) -> Store:
    return (SqliteStore if path.suffix == ".db" else JsonlStore).open(path)


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_output_goes_in_and_comes_back_byte_for_byte(path: Path, name: str) -> None:
    store = create(path)
    recorder = Recorder(store)
    text = ODD[name]
    written = await recorder.record(
        RunRequested(mode="request", surface="python", request=Body.text(text)), actor="model:m", run="r1"
    )
    await recorder.record(
        RunRequested(mode="request", surface="python", request=Body.raw(b"\xff\xfe")), actor="model:m", run="r1"
    )
    await recorder.close()
    store.close()
    again = reopen(path)
    stored = again.body(written.seq, "request")
    assert stored is not None
    assert Body(stored.media, stored.body).as_text() == text
    assert again.head().size == 3
    again.close()
    report = verify(path, Options(deep=True))
    assert report.ok, report.findings
    assert report.bodies.opened == 2
