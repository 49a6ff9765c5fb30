"""Counts of this process in Prometheus' text format. Counting costs a dictionary; nothing is kept per caller."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from hansard.app.serving.daemon import Daemon
from hansard.app.views import View

BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
BOUNDS = (*BUCKETS_S, float("inf"))
MEDIA = "text/plain; version=0.0.4; charset=utf-8"

KNOWN = {
    "hansard_requests_open": ("gauge", "Requests under way."),
    "hansard_runs_driving": ("gauge", "Runs that this daemon drives."),
    "hansard_followers": ("gauge", "Streams of events that are open."),
    "hansard_ledger_up": ("gauge", "Whether the ledger can be read."),
    "hansard_ledger_entries": ("gauge", "Entries of the ledger."),
    "hansard_ledger_signed_entries": ("gauge", "Entries that the newest signed checkpoint covers."),
    "hansard_start_time_seconds": ("gauge", "When this daemon began, in seconds since 1970."),
    "hansard_runs_submitted_total": ("counter", "Runs that were handed in here."),
    "hansard_runs_untraced_total": ("counter", "Ended runs that the collector was not told of."),
    "hansard_runs_ended_total": ("counter", "Runs that ended here, by their state."),
    "hansard_http_requests_total": ("counter", "Requests that were answered."),
    "hansard_http_request_seconds": ("histogram", "How long requests took."),
}
"""Of each name its type and what it says."""


class Metrics:
    """What the surface counts."""

    def __init__(self) -> None:
        self.open = 0
        """Requests under way."""
        self.untraced: Callable[[], int] = int
        """How many ended runs no collector was told of, where there is one."""
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._took: Counter[float] = Counter()
        self._took_s = 0.0

    def request(self, method: str, route: str, status: int, took_s: float) -> None:
        known = method if method in ("GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH") else "other"
        self._requests[known, route, status] += 1
        self._took[BOUNDS[bisect_left(BUCKETS_S, took_s)]] += 1
        self._took_s += took_s

    def text(self, daemon: Daemon, ledger: View | None) -> str:
        """Everything, for a scraper; of the ledger, where it can be read."""
        tally = daemon.tally
        read = {"entries": ledger["entries"], "signed_entries": ledger["signed"]} if ledger else {}
        values = {
            "hansard_requests_open": self.open,
            "hansard_runs_driving": daemon.driving,
            "hansard_followers": daemon.follower.count,
            "hansard_ledger_up": int(ledger is not None),
            **{f"hansard_ledger_{name}": value for name, value in read.items()},
            "hansard_start_time_seconds": tally.started_s,
            "hansard_runs_submitted_total": tally.submitted,
            "hansard_runs_untraced_total": self.untraced(),
        }
        lines = [line for name, value in values.items() for line in (_head(name), f"{name} {value}")]
        lines.append(_head("hansard_runs_ended_total"))
        lines += [f'hansard_runs_ended_total{{state="{state}"}} {count}' for state, count in tally.ended.items()]
        return "\n".join([*lines, *self._http()]) + "\n"

    def _http(self) -> Iterator[str]:
        yield _head("hansard_http_requests_total")
        for (method, route, status), count in self._requests.items():
            yield f'hansard_http_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
        yield _head("hansard_http_request_seconds")
        total = 0
        for bound in BUCKETS_S:
            total += self._took[bound]
            yield f'hansard_http_request_seconds_bucket{{le="{bound:g}"}} {total}'
        total += self._took[float("inf")]
        yield f'hansard_http_request_seconds_bucket{{le="+Inf"}} {total}'
        yield f"hansard_http_request_seconds_sum {self._took_s:.6f}"
        yield f"hansard_http_request_seconds_count {total}"


def _head(name: str) -> str:
    kind, says = KNOWN[name]
    return f"# HELP {name} {says}\n# TYPE {name} {kind}"
