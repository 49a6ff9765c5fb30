"""What a waiting client is told meanwhile: one progress notification for each thing that happens in his run."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hansard.surfaces.hearing import Event, Nobody, listener
from hansard.surfaces.mcp.tool import Call
from hansard.surfaces.narrate import first_line, line

PREVIEW = 280


class Teller(Nobody):
    """Hears what is recorded in this process and queues what there is to tell of one run. `aloud` also quotes what is said."""

    def __init__(self, run: str, aloud: bool) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._run, self._aloud = run, aloud

    def take(self, event: Event) -> None:
        if event.run != self._run:
            return
        told = self._of_debate(event) or line(event)
        if told is not None:
            self.queue.put_nowait(" ".join(told.split()))

    def _of_debate(self, event: Event) -> str | None:
        data = event.data
        match event.kind:
            case "panel.selected":
                return f"panel: {', '.join(data['agents'])}; coordinator: {data['coordinator']}"
            case "turn.taken":
                said = f": {_said(event)}" if self._aloud else ""
                return f"round {data['round']}: {data['speaker']}, {data['type'].replace('_', ' ')}{said}"
            case "tools.called":
                return f"{data['agent']} uses {', '.join(data['tools'])}"
            case "turn.failed":
                return f"{data['agent']} failed: {data['error']}"
        return None


def _said(event: Event) -> str:
    """The beginning of what a speaker said; it is a model's words, and data."""
    content: Any = json.loads(event.text("message") or "{}").get("content", "")
    if isinstance(content, dict):
        content = content.get("text") or content.get("integrated_answer") or content.get("rationale") or ""
    return first_line(str(content), PREVIEW)


@asynccontextmanager
async def telling(call: Call, run: str, *, aloud: bool = False) -> AsyncIterator[None]:
    """Tell the client of a call what happens in a run, as long as this lasts."""
    hansard, teller = call.desk.hansard, Teller(run, aloud)
    heard = listener(teller)
    stop = (hansard.runs.listen(heard), hansard.deliberations.listen(heard))
    reporter = asyncio.create_task(_report(call, teller))
    try:
        yield
        teller.queue.put_nowait(None)
        await reporter
    finally:
        for each in stop:
            each()
        reporter.cancel()


async def _report(call: Call, teller: Teller) -> None:
    while (told := await teller.queue.get()) is not None:
        await call.ctx.session.report_progress(next(call.steps), None, told)
