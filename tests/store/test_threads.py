"""A server with a thread for each request reads in very many threads: none leaves anything open behind it, nor does the store."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hansard.errors import StoreError
from hansard.store.base import Query
from hansard.store.conformance.sample import fill, genesis
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore

each_form = pytest.mark.parametrize(
    ("make", "name"), [(SqliteStore.create, "log.db"), (JsonlStore.create, "log.jsonl")]
)


@each_form
def test_threads_that_have_ended_leave_no_file_open(make: Callable[..., Any], name: str, tmp_path: Path) -> None:
    with closing(make(tmp_path / name, genesis())) as store:
        fill(store, 3)
        found: list[int] = []

        def read() -> None:
            found.append(len(list(store.select(Query()))))

        for number in range(41):
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
            if not number:
                before = len(os.listdir("/proc/self/fd"))
        assert len(os.listdir("/proc/self/fd")) <= before + 2
        read()
        assert set(found) == {store.head().size}


@each_form
def test_a_thread_that_comes_when_the_store_is_closed_is_told_so(
    make: Callable[..., Any], name: str, tmp_path: Path
) -> None:
    store = make(tmp_path / name, genesis())
    store.close()
    told: list[str] = []

    def read() -> None:
        try:
            store.head()
        except StoreError as error:
            told.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert told == [f"{tmp_path / name} is closed"]


@each_form
def test_a_store_that_is_closed_leaves_no_file_open(make: Callable[..., Any], name: str, tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with closing(make(tmp_path / name, genesis())) as store:
        fill(store, 3)
        assert len(list(store.select(Query()))) == 3
        claim = store.claim("r1", 60.0)
        store.renew(claim, 60.0)
        store.release(claim)
    assert set(os.listdir("/proc/self/fd")) <= before
