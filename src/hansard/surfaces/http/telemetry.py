"""Exports finished runs to an OpenTelemetry collector, from the record and in threads of its own: one that hangs costs nothing.

What does not fit into its queues, or is not taken by the collector, is dropped and counted. It imports the SDK, which is the extra `otel`.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from hansard.app.posting import check_url, is_loopback
from hansard.app.service import Hansard
from hansard.app.telling import span_names as names
from hansard.app.telling.spans import Span, run_spans
from hansard.app.views import View
from hansard.errors import MissingExtra, UsageError

MOST_QUEUED = 1_000
TIMEOUT_S = 10.0
INTERVAL_MS = 15_000
GOODBYE_S = 1.0
AT_ONCE = 1_000
"""Spans that are handed over before anybody waits for the collector: the SDK keeps 2,048, and drops the rest in silence."""


def check_collector(url: str) -> None:
    """UsageError unless finished runs can be sent to this address from here."""
    if "?" in url or "#" in url:
        # What the SDK is given ends with a path of its own. Not quoted, and so looked at first: a key may stand there.
        raise UsageError(
            "--traces: write the address without ? or #; a key of the collector goes into OTEL_EXPORTER_OTLP_HEADERS"
        )
    check_url(url, "--traces")
    try:
        import_module("opentelemetry.sdk.resources")
    except ImportError as error:
        raise MissingExtra("--traces needs OpenTelemetry: pip install 'hansard[otel]'") from error


class Telemetry:
    """Traces and metrics of one daemon."""

    def __init__(self, hansard: Hansard, url: str, version: str) -> None:
        check_collector(url)
        self._store = hansard.store
        self.dropped = self._handed_over = 0
        self._counting = threading.Lock()
        try:
            about = _about(version)
            self._tracing = _tracing(about, url.rstrip("/"), self._drop)
            self._metering = _metering(about, url.rstrip("/"))
        except ValueError as error:
            raise UsageError(f"--traces: a setting of OpenTelemetry (OTEL_…) cannot be used: {error}") from error
        self._tracer = self._tracing.get_tracer(names.SCOPE, version)
        meter = self._metering.get_meter(names.SCOPE, version)
        self._took = _histogram(meter, names.OPERATION_SECONDS, "s")
        self._ran = _histogram(meter, names.WORKFLOW_SECONDS, "s")
        self._tokens = _histogram(meter, names.TOKENS, "{token}")
        self._runs: queue.Queue[tuple[str, int] | None] = queue.Queue(MOST_QUEUED)
        self._working = threading.Thread(target=self._work, name="hansard-traces", daemon=True)
        self._working.start()

    def take(self, run: str, end: int) -> None:
        """A run is over: which, and the entry that says so."""
        try:
            self._runs.put_nowait((run, end))
        except queue.Full:
            self._drop(1)

    def close(self) -> None:
        """Tell the collector what it was not told yet, and say goodbye, but do not wait for it."""

        def leave() -> None:
            self._runs.put(None)
            self._working.join()
            self._tracing.shutdown()
            self._metering.shutdown()

        leaving = threading.Thread(target=leave, name="hansard-traces-end", daemon=True)
        leaving.start()
        leaving.join(GOODBYE_S)

    def _work(self) -> None:
        while (ended := self._runs.get()) is not None:
            try:
                self._export(run_spans(self._store, *ended))
            except Exception:  # noqa: BLE001 - whatever is wrong with one run, the next one is told of
                # The store is closing, or the run cannot be read: the record stays what counts.
                self._drop(1)

    def _drop(self, runs: int) -> None:
        with self._counting:
            self.dropped += runs

    def _export(self, spans: Sequence[Span]) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        made: list[Any] = []
        for span in spans:
            context = set_span_in_context(made[span.parent]) if span.parent is not None else None
            kind = SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL
            started = self._tracer.start_span(
                span.name, context=context, kind=kind, attributes=span.attributes, start_time=span.start_us * 1000
            )
            for name, at_us, attributes in span.events:
                started.add_event(name, attributes, at_us * 1000)
            if span.failed:
                started.set_status(Status(StatusCode.ERROR))
            made.append(started)
            self._measure(span)
        for span, started in zip(spans, made, strict=True):
            started.end(span.end_us * 1000)
            self._handed_over += 1
            if self._handed_over % AT_ONCE == 0:
                self._tracing.force_flush()

    def _measure(self, span: Span) -> None:
        said: View = {
            name: span.attributes[name]
            for name in (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.ERROR, names.WORKFLOW_NAME)
            if name in span.attributes
        }
        took_s = (span.end_us - span.start_us) / 1e6
        if span.kind == "client":
            self._took.record(took_s, said)
            for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
                if isinstance(count := span.attributes.get(name), int):
                    self._tokens.record(count, {**said, names.TOKEN_TYPE: kind})
        elif span.parent is None:
            self._ran.record(took_s, said)


def _about(version: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    return Resource.create({"service.name": names.SCOPE, "service.version": version}, names.CONVENTIONS)


def _tracing(about: Any, url: str, drop: Callable[[int], None]) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    class Exporter(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            taken = super().export(spans)
            if taken is not SpanExportResult.SUCCESS:
                drop(sum(span.parent is None for span in spans))
            return taken

    made = TracerProvider(resource=about, shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(Exporter(f"{url}/v1/traces", timeout=TIMEOUT_S, session=_session(url))))
    return made


def _metering(about: Any, url: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    exporter = OTLPMetricExporter(f"{url}/v1/metrics", timeout=TIMEOUT_S, session=_session(url))
    reader = PeriodicExportingMetricReader(exporter, INTERVAL_MS)
    return MeterProvider([reader], about, shutdown_on_exit=False)


def _histogram(meter: Any, name: str, unit: str) -> Any:
    return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=names.BOUNDS[name])


def _session(url: str) -> Any:
    """One that asks no proxy for a collector on this machine; None where the SDK may make its own."""
    if not is_loopback(urlsplit(url).hostname or ""):
        return None
    from requests import Session

    made = Session()
    made.trust_env = False
    return made
