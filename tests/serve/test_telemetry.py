import asyncio
import gzip
import json
import signal
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from daemons import place, serving, wait_for
from hansard.app.service import Hansard
from hansard.app.setup.wishes import Wishes
from hansard.app.telling import span_names as names
from hansard.app.telling.spans import Span, run_spans
from hansard.domain.exchange import Completion, Cost, Exchange, Usage
from hansard.errors import UsageError
from hansard.record.history import fold
from hansard.store.base import Query, Store
from hansard.store.sqlite import SqliteStore
from hansard.surfaces.http import telemetry as telemetry_module
from hansard.surfaces.http.telemetry import Telemetry, check_collector
from panels import PANELS, Voices, agreeing, synthesis
from running import FINE, Answers, Ledger, Said, completion, desk, hard_to_please, obliging, plan, task

proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
metrics_proto = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")


class Collector(ThreadingHTTPServer):
    """Takes what is exported."""

    def __init__(self, first_s: float = 0, status: int = 200) -> None:
        self.status = status
        self.got: list[tuple[str, bytes]] = []
        self.keys: set[str | None] = set()
        self.spans: list[Any] = []
        self.first_s = first_s
        super().__init__(("127.0.0.1", 0), Taking)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Taking(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        time.sleep(self.server.first_s if not self.server.got else 0)
        body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        self.server.keys.add(self.headers["x-key"])
        self.server.got.append((self.path, body))
        if self.path == "/v1/traces":
            resources = proto.ExportTraceServiceRequest.FromString(body).resource_spans
            self.server.spans += [span for each in resources for scope in each.scope_spans for span in scope.spans]
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


async def test_spans_are_the_run_as_the_record_tells_it() -> None:
    here = desk(Answers())
    ended = await here.run(plan=plan(task("one")))
    spans = run_spans(here.store, ended.run)
    assert (spans[0].name, spans[0].parent, spans[0].attributes[names.STATE]) == (
        "invoke_workflow plan",
        None,
        "answered",
    )
    calls = [span for span in spans if span.kind == "client"]
    assert {span.name for span in calls} == {"chat told"}
    assert len(calls) == len(here.entries(ended.run, "task.returned", "role.answered"))
    attempts = [span for span in spans if span.name == "invoke_agent alpha"]
    verdicts = [event[2][names.EVALUATION_LABEL] for span in attempts for event in span.events]
    assert verdicts == ["passed"]
    for span in spans:
        assert span.start_us <= span.end_us
        entry = here.store.entry(int(str(span.attributes[names.SEQ])))
        assert entry.run == ended.run
    assert all(calls[0].parent is not None and spans[span.parent or 0].kind == "internal" for span in calls)


def priced(exchange: Exchange) -> Said:
    said = obliging(exchange)
    structured = said if isinstance(said, dict) else None
    return completion("" if structured else str(said), cost_usd_nano=1_000, structured=structured)


def spent(spans: Sequence[Span]) -> tuple[int, int]:
    """How many calls a trace tells of, and what they took."""
    calls = [span.attributes for span in spans if span.kind == "client"]
    return len(calls), sum(int(str(each[name])) for each in calls for name in (names.INPUT_TOKENS, names.OUTPUT_TOKENS))


def on_record(store: Store, run: str) -> tuple[int, int]:
    state = fold(store.select(Query(run=run))).runs[run]
    return state.calls, state.tokens


async def test_whoever_is_asked_for_one_of_its_models_is_the_same_provider() -> None:
    here = desk(Answers(), settings={"run": {"ladder": ["told:better"]}})
    ended = await here.run(plan=plan(task("one")))
    calls = [span.attributes for span in run_spans(here.store, ended.run) if span.kind == "client"]
    assert [(each[names.PROVIDER], each[names.REQUEST_MODEL]) for each in calls] == [
        ("told", "better"),
        ("told", "told"),
    ]


async def test_what_a_panel_takes_is_told_in_its_turns_alone() -> None:
    here = desk(
        Answers(hard_to_please), Voices(), settings={"panels": PANELS, "run": {"ladder": ["told", "panel:bench"]}}
    )
    ended = await here.run(plan=plan(task("limits")))
    spans = run_spans(here.store, ended.run)
    assert spent(spans) == on_record(here.store, ended.run)
    assert [span.kind for span in spans if span.attributes.get(names.PROVIDER) == "panel:bench"] == ["internal"]


@pytest.mark.parametrize("where", [{"run": {"ladder": ["panel:bench"]}}, {"roles": {"validator": "panel:bench"}}])
async def test_the_turns_of_a_panel_stand_within_the_step_that_it_answers(where: dict[str, Any]) -> None:
    reached, free = asyncio.Event(), False

    async def stuck_at_the_end(exchange: Exchange) -> Any:
        if exchange.schema_name != "synthesis_content":
            return agreeing(exchange)
        if not free:
            reached.set()
            await asyncio.sleep(600)
        return synthesis(json.dumps(FINE))

    here = desk(Answers(), Voices(stuck_at_the_end), settings={"panels": PANELS, **where})
    run = await here.submit(plan=plan(task("one"), task("two", "one")))
    driving = asyncio.ensure_future(here.runs.drive(run))
    await reached.wait()
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    free = True
    await here.runs.drive(run)
    spans = run_spans(here.store, run)
    sessions = {each.data["session"]: each.causes[0] for each in here.entries(run, "session.convened")}
    [cut, again, last] = [at for at, span in enumerate(spans) if span.attributes.get(names.PROVIDER) == "panel:bench"]
    assert [spans[at].attributes[names.SEQ] for at in (cut, last)] == list(sessions.values())
    turns = [
        span.parent for span in spans if span.attributes.get(names.PROVIDER) == "voices" and span.kind == "internal"
    ]
    # What was left of the first session is held for whoever asked again.
    assert turns == [cut] * 4 + [again] + [last] * 4
    for span in spans[1:]:
        within = spans[span.parent or 0]
        assert within.start_us <= span.start_us <= span.end_us <= within.end_us


async def test_a_call_that_was_refused_is_no_chat_since_nobody_was_asked() -> None:
    voices = Voices()
    here = desk(Answers(), voices, settings={"panels": PANELS, "run": {"ladder": ["panel:bench"]}})
    ended = await here.run(plan=plan(task("one")), wishes=Wishes(max_calls=3))
    spans = run_spans(here.store, ended.run)
    assert spent(spans) == on_record(here.store, ended.run) == (len(voices.calls), 45) == (3, 45)
    [refused] = [span for span in spans if span.failed and span.attributes.get(names.PROVIDER) == "voices"]
    assert (refused.kind, refused.attributes[names.ERROR]) == ("internal", "quota_exhausted")


@pytest.mark.parametrize("unknown", ["worker", "validator", "nobody"])
async def test_what_nobody_knows_the_price_of_is_not_told_as_free(unknown: str) -> None:
    def asked(exchange: Exchange) -> Said:
        said = cast(Completion, priced(exchange))
        usage = Usage(input_tokens=10, output_tokens=5)
        return replace(said, usage=usage, cost=Cost() if exchange.metadata["role"] == unknown else said.cost)

    here = desk(Answers(asked, unmetered=False))
    ended = await here.run(plan=plan(task("one")))
    whole, *others = run_spans(here.store, ended.run)
    calls = [each.attributes.get(names.COST) for each in others if each.kind == "client"]
    assert calls == [None if role == unknown else 1_000 for role in ("worker", "validator")]
    assert whole.attributes.get(names.COST) == (2_000 if unknown == "nobody" else None)


async def test_what_is_done_again_is_told_once() -> None:
    here = desk(Answers(priced))
    ended = await here.run(plan=plan(task("one")))
    first = here.entries(ended.run, "run.ended")[0]
    before = spent(run_spans(here.store, ended.run))
    await here.runs.retry(ended.run, "one")
    again = spent(run_spans(here.store, ended.run))
    assert spent(run_spans(here.store, ended.run, first.seq)) == before
    assert (before[0] + again[0], before[1] + again[1]) == on_record(here.store, ended.run)
    traces = [run_spans(here.store, ended.run, end.seq) for end in here.entries(ended.run, "run.ended")]
    for whole, *others in traces:
        # The work, and the verdict on it.
        assert whole.attributes[names.COST] == 2_000
        assert sum(int(str(each.attributes.get(names.COST, 0))) for each in others) == 2_000


PANEL = """\
[run]
ladder = ["panel:bench"]
[panels.bench]
agents = ["critic", "engineer"]
provider = "voices"
tools = {critic = ["almanac"]}
[tools.almanac]
command = ["sleep", "600"]
description = "What happened in a year."
input_schema = {type = "object"}
[providers.voices]
kind = "scripted"
on_exhaustion = "loop"
entries = [{calls = [{id = "c1", name = "almanac", arguments = {}}], usage = {input_tokens = 1000, output_tokens = 1}}]
"""


def test_a_call_that_died_with_its_driver_is_told_with_what_the_record_counts_of_it(tmp_path: Path) -> None:
    with serving(place(tmp_path, more=PANEL)) as daemon:
        run = daemon.submit()["run"]
        wait_for(lambda: daemon.get(f"/v1/ledger/entries?run={run}&kind=tools.called").json())
        daemon.stop(signal.SIGKILL)
    with serving(tmp_path, "--no-resume") as daemon:
        daemon.post(f"/v1/runs/{run}/cancel")
        daemon.until(run, "cancelled")
    with closing(SqliteStore.open(tmp_path / "l.db")) as store:
        spans = run_spans(store, run)
        assert spent(spans) == on_record(store, run) == (1, 1_001)
    [call] = [span for span in spans if span.kind == "client"]
    assert (call.failed, call.attributes[names.ERROR]) == (True, "interrupted")
    assert call.start_us <= call.end_us <= spans[0].end_us


@pytest.mark.parametrize("how", ["resume", "cancel"])
async def test_a_call_that_died_with_its_driver_lasts_no_longer_than_that_is_known_to_have_lived(how: str) -> None:
    """Until another driver comes it may be days, which are nobody's work."""
    ledger = Ledger()
    ended = await desk(Answers(), store=ledger).run(plan=plan(task("one")))
    cuts = (ledger.until(commits) for commits in range(2, len(ledger.commits)))
    here = desk(Answers(), store=next(each for each in cuts if any(each.select(Query(kind="task.attempted")))))
    await asyncio.sleep(0.01)
    await getattr(here.runs, how)(ended.run)
    [attempted] = [each for each in here.entries(ended.run, "task.attempted") if each.data["attempt"] == 1]
    ends = [each.end_us for each in run_spans(here.store, ended.run) if each.start_us == attempted.ts]
    assert ends == [attempted.ts] * 2


def test_finished_runs_reach_a_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    collector = Collector()
    try:
        with serving(
            place(tmp_path), "--provider", "quick", "--traces", f"http://127.0.0.1:{collector.server_port}"
        ) as daemon:
            run = daemon.submit(wait=60)["run"]
            wait_for(lambda: [path for path, _ in collector.got if path == "/v1/traces"])
        assert [path for path, _ in collector.got if path == "/v1/metrics"]
    finally:
        collector.shutdown()
        collector.server_close()
    assert collector.keys == {"secret"}
    spans = collector.spans
    whole = next(span for span in spans if span.name == "invoke_workflow plan")
    said = {each.key: each.value.string_value or each.value.int_value for each in whole.attributes}
    assert said[names.CONVERSATION] == run
    assert len(said[names.ENTRY_HASH]) == 64
    assert {span.trace_id for span in spans} == {whole.trace_id}


@pytest.mark.parametrize("url", ["http://ann:hunter-two@x", "http://x/?key=hunter-two", "https://x#hunter-two"])
def test_a_collector_whose_address_holds_a_secret_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(UsageError, match=r"^--traces: ") as refused:
        check_collector(url)
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_BSP_SCHEDULE_DELAY", "0"), ("OTEL_METRICS_EXEMPLAR_FILTER", "some")]
)
def test_a_setting_that_the_sdk_refuses_is_told_in_words(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="--traces: a setting of OpenTelemetry"):
        Telemetry(cast(Hansard, desk(Answers())), "http://127.0.0.1:1", "0")


async def test_more_spans_than_the_sdk_keeps_wait_for_a_collector_that_takes_its_time() -> None:
    here, collector = desk(Answers()), Collector(first_s=3)
    ended = await here.run(plan=plan(*(task(f"t{number}") for number in range(20))))
    times, spans = 40, run_spans(here.store, ended.run)
    assert times * len(spans) > 3_000
    telemetry = Telemetry(cast(Hansard, here), f"http://127.0.0.1:{collector.server_port}", "0")
    for _ in range(times):
        telemetry.take(ended.run, here.entries(ended.run)[-1].seq)
    try:
        await asyncio.to_thread(wait_for, lambda: len(collector.spans) >= 3_000)
    finally:
        telemetry.close()
        collector.shutdown()
        collector.server_close()


async def test_a_run_that_cannot_be_told_of_is_counted_and_the_next_one_is_told_of() -> None:
    here, collector = desk(Answers()), Collector()
    telemetry = Telemetry(cast(Hansard, here), f"http://127.0.0.1:{collector.server_port}", "0")
    ended = await here.run()
    telemetry.take("nobody knows this run", 1)
    telemetry.take(ended.run, here.entries(ended.run)[-1].seq)
    try:
        await asyncio.to_thread(wait_for, lambda: collector.spans)
        assert telemetry.dropped == 1
    finally:
        telemetry.close()
        collector.shutdown()
        collector.server_close()


async def test_what_ended_just_before_the_end_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_module, "GOODBYE_S", 60.0)
    here, collector = desk(Answers()), Collector()
    ended = await here.run(plan=plan(*(task(f"t{number}") for number in range(20))))
    telemetry = Telemetry(cast(Hansard, here), f"http://127.0.0.1:{collector.server_port}", "0")
    for _ in range(10):
        telemetry.take(ended.run, here.entries(ended.run)[-1].seq)
    await asyncio.to_thread(telemetry.close)
    collector.shutdown()
    collector.server_close()
    assert len(collector.spans) == 10 * len(run_spans(here.store, ended.run))


async def test_histograms_tell_short_calls_from_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_module, "GOODBYE_S", 60.0)
    here, collector = desk(Answers(priced)), Collector()
    ended = await here.run(plan=plan(task("one")))
    telemetry = Telemetry(cast(Hansard, here), f"http://127.0.0.1:{collector.server_port}", "0")
    telemetry.take(ended.run, here.entries(ended.run)[-1].seq)
    await asyncio.to_thread(telemetry.close)
    collector.shutdown()
    collector.server_close()
    [body] = [body for path, body in collector.got if path == "/v1/metrics"]
    [told] = metrics_proto.ExportMetricsServiceRequest.FromString(body).resource_metrics
    points = {each.name: each.histogram.data_points for scope in told.scope_metrics for each in scope.metrics}
    assert {name: list(each[0].explicit_bounds) for name, each in points.items()} == names.BOUNDS
    assert sum(each.count for each in points[names.OPERATION_SECONDS]) == 2
    assert {(min(each), max(each)) for each in names.BOUNDS.values()} == {(0.01, 81.92), (1, 7_200), (1, 67_108_864)}


async def test_a_collector_on_this_machine_is_not_looked_for_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(telemetry_module, "GOODBYE_S", 60.0)
    here, collector = desk(Answers()), Collector()
    ended = await here.run(plan=plan(task("one")))
    telemetry = Telemetry(cast(Hansard, here), f"http://127.0.0.1:{collector.server_port}", "0")
    telemetry.take(ended.run, here.entries(ended.run)[-1].seq)
    await asyncio.to_thread(telemetry.close)
    collector.shutdown()
    collector.server_close()
    assert {path for path, _ in collector.got} == {"/v1/traces", "/v1/metrics"}


async def test_runs_that_a_collector_does_not_take_are_counted() -> None:
    here, collector = desk(Answers()), Collector(status=400)
    ended = await here.run(plan=plan(task("one")))
    telemetry = Telemetry(cast(Hansard, here), f"http://127.0.0.1:{collector.server_port}", "0")
    for _ in range(3):
        telemetry.take(ended.run, here.entries(ended.run)[-1].seq)
    try:
        await asyncio.to_thread(wait_for, lambda: telemetry.dropped == 3)
    finally:
        telemetry.close()
        collector.shutdown()
        collector.server_close()


def test_a_collector_that_hangs_costs_nothing(tmp_path: Path) -> None:
    """It accepts and never answers. On the seed, four requests for /health took up to 20 s then."""
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        serving(
            place(tmp_path), "--provider", "quick", "--traces", f"http://127.0.0.1:{hanging.getsockname()[1]}"
        ) as daemon,
    ):
        for _ in range(5):
            assert daemon.submit(wait=60)["state"] == "answered"
            assert daemon.get("/health", timeout=5).status_code == 200
        assert daemon.stop(timeout_s=20) == 0
