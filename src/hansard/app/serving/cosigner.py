"""Has a daemon's log cosigned now and then: in a thread of its own, so that neither a run nor a reader waits for a witness."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hansard.app.ledgers.cosigning import ACTOR, Asked, ask, newest
from hansard.domain.custody import AnchorRecorded
from hansard.errors import HansardError
from hansard.record.recorder import Recorder
from hansard.record.sealed import is_unsigned
from hansard.store.base import Query, StoredCheckpoint

EVERY_S = 60.0
Tell = Callable[..., None]


class Cosigner:
    """Asks each of some witnesses whenever the log was signed anew. `tell` hears what came of it."""

    def __init__(
        self, recorder: Recorder, witnesses: Mapping[str, Asked], tell: Tell, every_s: float = EVERY_S
    ) -> None:
        self._recorder, self._witnesses, self._tell, self._every_s = recorder, witnesses, tell, every_s
        self._over = threading.Event()
        self._seen: dict[str, int] = {}
        self._shown: StoredCheckpoint | None = None
        """What is shown in this round: the same to each of them, so that one receipt can carry all their words."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """At it as long as this lasts; belongs to the loop of the recorder. Nobody waits for an answer at the end."""
        if self._witnesses and is_unsigned(self._recorder.store.entry(0)):
            self._tell(
                "not cosigned", witness=", ".join(self._witnesses), detail="this log is unsigned: it has no keys"
            )
        elif self._witnesses:
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._work, args=[loop], name="hansard-cosigner", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._over.is_set():
            self._shown = None
            for name, witness in self._witnesses.items():
                try:
                    self._ask(name, witness, loop)
                except Exception as error:  # noqa: BLE001 - whatever a witness does must not end the others
                    if self._over.is_set():
                        return
                    said = str(error) if isinstance(error, HansardError) else f"{type(error).__name__}: {error}"
                    self._tell("not cosigned", witness=name, detail=said)
            self._over.wait(self._every_s)

    def _ask(self, name: str, witness: Asked, loop: asyncio.AbstractEventLoop) -> None:
        stored = self._shown = self._shown or newest(self._recorder.store)
        if stored is None or not self._is_news(self._seen.get(name, 0), stored.size):
            return
        found = ask(self._recorder.store, witness, stored)
        recording = self._recorder.record(found.fact(), actor=ACTOR)
        if self._over.is_set():
            recording.close()
            return
        asyncio.run_coroutine_threadsafe(recording, loop).result()
        self._seen[name] = found.size
        self._tell("cosigned", witness=name, size=found.size)

    def _is_news(self, seen: int, size: int) -> bool:
        """Whether anything else than the words of witnesses was recorded since."""
        entries = self._recorder.store.select(Query(after=seen - 1, before=size))
        return any(entry.kind != AnchorRecorded.KIND for entry in entries)
