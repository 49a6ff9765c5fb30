"""A server with a thread for each request reads in very many threads: none leaves anything open behind it."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hansard.store.base import Query
from hansard.store.conformance.sample import fill, genesis
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore


@pytest.mark.parametrize(("make", "name"), [(SqliteStore.create, "log.db"), (JsonlStore.create, "log.jsonl")])
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
