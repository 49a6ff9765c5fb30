"""Gathers what context sources give, once, and puts it on the record; a later driver reads it from there."""

import asyncio
from collections.abc import Sequence

from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.domain.work import ContextGiven
from hansard.orchestration.journal import Journal
from hansard.orchestration.progress import Progress
from hansard.orchestration.seams import Given, Source, actor_of, given_by
from hansard.record.reading import read_text
from hansard.record.recorder import Step
from hansard.store.base import Store


@value
class Gathered:
    """Texts by the names of their sources, and the entries that hold them."""

    texts: tuple[tuple[str, str], ...] = ()
    seqs: tuple[int, ...] = ()


class Contexts:
    """The context of one run."""

    def __init__(
        self,
        sources: Sequence[Source],
        request: str,
        journal: Journal,
        progress: Progress,
        store: Store,
        stuck: str | None,
    ) -> None:
        self._sources, self._request = sources, request
        # Where a result waits for its checks, drivers died at those.
        self._stuck = None if progress.unjudged else stuck
        self._journal, self._progress, self._store = journal, progress, store

    def any_for(self, task: str | None) -> bool:
        return bool(self._sources) and any(source.speaks(task) for source in self._sources)

    async def gather(self, task: str | None, causes: Sequence[int]) -> Gathered:
        """What every source has to say about a task, or about the request; sources are asked at the same time."""
        asked = [source for source in self._sources if source.speaks(task)]
        new = [source for source in asked if (source.name, task) not in self._progress.contexts]
        if self._stuck and task not in self._progress.tasks:
            found = [Given(None, 0, 0, self._stuck) for _ in new]
        else:
            found = await asyncio.gather(*(given_by(source, self._request, task) for source in new))
        if new:
            steps = [
                Step(_fact(source, task, given), actor_of(source.name), causes)
                for source, given in zip(new, found, strict=True)
            ]
            for source, recorded in zip(new, await self._journal.record_all(steps), strict=True):
                entry = await asyncio.to_thread(self._store.entry, recorded.seq)
                self._progress.contexts[source.name, task] = entry
            # What comes after that is something else.
            self._stuck = None
        return self._recorded([source.name for source in asked], task)

    def _recorded(self, names: Sequence[str], task: str | None) -> Gathered:
        texts, seqs = [], []
        for name in names:
            entry = self._progress.contexts[name, task]
            seqs.append(entry.seq)
            text = read_text(self._store, entry, "context")
            if entry.data["failed"] is not True and text:
                texts.append((name, text))
        return Gathered(texts=tuple(texts), seqs=tuple(seqs))


def _fact(source: Source, task: str | None, given: Given) -> ContextGiven:
    return ContextGiven(
        source=source.name,
        task=task,
        offered_tokens=given.offered_tokens,
        admitted_tokens=given.admitted_tokens,
        failed=given.text is None,
        context=Body.text(given.failure if given.text is None else given.text),
    )
