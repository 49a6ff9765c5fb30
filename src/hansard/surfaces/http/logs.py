"""The daemon's log: one JSON object a line on standard error. It holds names, numbers and ids; never a body, a header or a secret."""

import queue
import sys
import threading
from typing import Any, TextIO

import structlog

from hansard.app.service import Hansard

MOST_QUEUED = 10_000
TOGETHER_S = 0.05


class Writer:
    """A file that is written by a thread: a full pipe must not hold up the event loop. What does not fit is counted and left out."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._queue: queue.Queue[str | None] = queue.Queue(MOST_QUEUED)
        self._lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hansard-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        try:
            self._queue.put_nowait(text)
        except queue.Full:
            self._lost += 1
        return len(text)

    def flush(self) -> None:
        """The thread flushes."""

    def close(self) -> None:
        self._closing.set()
        try:
            self._queue.put(None, timeout=1.0)
        except queue.Full:
            return
        self._thread.join(1.0)

    def _work(self) -> None:
        ended = False
        while not ended:
            texts = [self._queue.get()]
            # Not line by line: every turn of this thread is one that the event loop does not have.
            if texts[0] is not None:
                self._closing.wait(TOGETHER_S)
            while not self._queue.empty():
                texts.append(self._queue.get())
            ended = None in texts
            lost, self._lost = self._lost, 0
            if lost:
                texts.append(f'{{"event": "log lines lost", "count": {lost}}}\n')
            try:
                self._file.write("".join(text for text in texts if text is not None))
                self._file.flush()
            except (OSError, ValueError):
                # Nobody reads the log any more; the work goes on.
                continue


class Log:
    """Takes an event and its fields. Secrets that providers use are removed from every text."""

    def __init__(self, hansard: Hansard, file: TextIO | None = None) -> None:
        self._writer = Writer(file or sys.stderr)
        self._scrub = hansard.pool.secrets.scrub
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(file=self._writer),  # type: ignore[arg-type]
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(ensure_ascii=True),
                self._without_secrets,
            ],
            wrapper_class=structlog.BoundLogger,
        )

    def __call__(self, event: str, **fields: Any) -> None:
        self._logger.msg(event, **fields)

    def close(self) -> None:
        self._writer.close()

    def _without_secrets(self, _: Any, __: str, line: Any) -> str:
        return str(self._scrub(str(line)))
