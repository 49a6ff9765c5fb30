"""The daemon's log: one JSON object a line on standard error. It holds names, numbers and ids; never a body, a header or a secret."""

import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TextIO

import structlog

from hansard.app.service import Hansard
from hansard.app.views import encoded

MOST_QUEUED = 10_000
TOGETHER_S = 0.05
SAME_S = 10.0
"""A trouble that comes again within this time is counted, and not told again."""


class Writer:
    """A file that is written by a thread: a full pipe must not hold up the event loop. What does not fit is counted and left out."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._queue: deque[str] = deque()
        self._lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hansard-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        if len(self._queue) < MOST_QUEUED:
            self._queue.append(text)
        else:
            self._lost += 1
        return len(text)

    def flush(self) -> None:
        """The thread flushes."""

    def close(self) -> None:
        self._closing.set()
        self._thread.join(1.0)

    def _work(self) -> None:
        ended = False
        while not ended:
            # Not line by line: every turn of this thread is one that the event loop does not have.
            ended = self._closing.wait(TOGETHER_S)
            texts = [self._queue.popleft() for _ in range(len(self._queue))]
            lost, self._lost = self._lost, 0
            if lost:
                texts.append(f'{{"event": "log lines lost", "count": {lost}}}\n')
            if not texts:
                continue
            try:
                self._file.write("".join(texts))
                self._file.flush()
            except (OSError, ValueError):
                # Nobody reads the log any more; the work goes on.
                continue


_encode = json.JSONEncoder(ensure_ascii=True, default=repr).encode


class Log:
    """Takes an event and its fields. Secrets that providers use are removed from every text."""

    def __init__(self, hansard: Hansard, file: TextIO | None = None) -> None:
        self._writer = Writer(file or sys.stderr)
        self._scrub = hansard.pool.secrets.scrub
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(file=self._writer),  # type: ignore[arg-type]
            processors=[
                _stamped,
                structlog.processors.format_exc_info,
                self._rendered,
            ],
            wrapper_class=structlog.BoundLogger,
        ).bind()

    def __call__(self, event: str, **fields: Any) -> None:
        if "exc_info" in fields:
            self._logger.msg(event, **fields)
            return
        # Nearly every line: what a logger would do with it, without the way through one.
        fields["event"] = event
        self._writer.write(f"{self._rendered(None, '', _stamped(None, '', fields))}\n")

    def close(self) -> None:
        self._writer.close()

    def _rendered(self, _: Any, __: str, event: structlog.typing.EventDict) -> str:
        return str(self._scrub(_line(event)))


class Troubles(logging.Handler):
    """What libraries say of their troubles, put into our log. What is less than an error is left out: it may quote a header."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.ERROR)
        self._log = log
        self._said: tuple[str, ...] = ()
        self._until = 0.0
        self._repeated = 0

    def emit(self, record: logging.LogRecord) -> None:
        more: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
        said, now = (record.name, record.getMessage(), repr(record.exc_info and record.exc_info[1])), time.monotonic()
        if said == self._said and now < self._until:
            # Where no file can be opened any more, asyncio says so some thousand times a second.
            self._repeated += 1
            return
        if self._repeated:
            more["before_repeated"] = self._repeated
        self._said, self._until, self._repeated = said, now + SAME_S, 0
        self._log("trouble", logger=record.name, detail=record.getMessage(), **more)


@contextmanager
def troubles(log: Log) -> Iterator[None]:
    """As long as this lasts, libraries write to our log and nowhere else."""
    handler = Troubles(log)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _line(event: structlog.typing.EventDict) -> str:
    """ASCII only: whatever a caller put into a path, it cannot steer a terminal."""
    try:
        line = encoded(event)
    except (TypeError, ValueError, RecursionError):
        return _encode(event)
    return line.decode() if line.isascii() else _encode(event)


def _stamped(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    now = time.time()
    event["timestamp"] = f"{_second(int(now))}.{int(now % 1 * 1e6):06d}Z"
    return event


@lru_cache(maxsize=4)
def _second(now: int) -> str:
    """The same for all lines of a second, and slow to write."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
