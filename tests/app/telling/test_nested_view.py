"""A session inside of a run, as its page shows it, in a record that nobody of ours has written."""

from hansard.app.service import Hansard
from hansard.app.telling.nested_view import nested_view
from hansard.domain.council import SessionConvened
from hansard.domain.fact import Body
from hansard.domain.work import RunRequested

ONE, OTHER = "01a1f282-5c68-799d-b895-fbf7df2fec7e", "01a1f282-5c68-799d-b895-fbf7df2fec7f"


async def test_a_session_whose_question_stands_in_another_run_is_shown_all_the_same() -> None:
    async with Hansard.open("memory:") as hansard:
        record, request = (
            hansard.recorder.record,
            RunRequested(mode="request", surface="python", request=Body.text("x")),
        )
        asked = await record(request, actor="human:a", run=ONE)
        await record(request, actor="human:a", run=OTHER)
        name = f"{OTHER}-{asked.seq}"
        convened = SessionConvened(session=name, agents=1, problem=Body.text("x"), config=Body.json(b"{}"))
        claim = hansard.claim(OTHER)
        convened_at = await record(convened, actor="chair", run=OTHER, causes=[asked], claim=claim)
        hansard.store.erase((convened_at.seq, "config"))
        view = nested_view(hansard.store, OTHER, name)
        assert (view["within"]["seq"], view["state"]) == (asked.seq, "running")
