"""How well a router does on labelled requests: right, wrong, undecided, and whether its confidence can be believed. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from hansard.domain.lane import RESERVED
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.orchestration.route.router import Route

NONE = RESERVED[0]
MAX_ROWS = 1_000_000
_BUCKET_PPM = 100_000


class Routes(Protocol):
    """Anything that routes a text."""

    def route(self, text: str) -> Route: ...


@value
class Labelled:
    """One request with the lane it belongs to, None where no lane fits. A lane in `also` is right as well."""

    id: str
    text: str
    lane: str | None
    also: tuple[str, ...] = ()

    def accepts(self, lane: str | None) -> bool:
        return lane is not None and self.lane is not None and lane in (self.lane, *self.also)


@value
class Confusion:
    """Requests of one lane (None: of no lane) that were decided for another."""

    expected: str | None
    decided: str
    count: int
    ids: tuple[str, ...]


@value
class Bucket:
    """Decided rows whose confidence lay in this range: what was promised, and what share was right."""

    from_ppm: int
    to_ppm: int
    rows: int
    confidence_ppm: int
    right_ppm: int


@value
class Evaluation:
    """Shares are in ppm, and None where there is no row that they could be a share of.

    accuracy: lane rows decided right. precision: right ones among all decided rows. abstained: rows left undecided.
    off_topic_undecided: rows that fit no lane and were left undecided.
    """

    rows: int
    lane_rows: int
    off_topic_rows: int
    decided: int
    accuracy_ppm: int | None
    precision_ppm: int | None
    abstained_ppm: int | None
    off_topic_undecided_ppm: int | None
    confusions: tuple[Confusion, ...]
    calibration: tuple[Bucket, ...]


def evaluate(router: Routes, rows: Sequence[Labelled]) -> Evaluation:
    """Route every row and count."""
    routed = [(row, router.route(row.text)) for row in rows]
    decided = [(row, route) for row, route in routed if route.lane is not None]
    right = sum(row.accepts(route.lane) for row, route in decided)
    lane_rows = sum(row.lane is not None for row in rows)
    off_topic = len(rows) - lane_rows
    undecided_off_topic = off_topic - sum(row.lane is None for row, _ in decided)
    return Evaluation(
        rows=len(rows),
        lane_rows=lane_rows,
        off_topic_rows=off_topic,
        decided=len(decided),
        accuracy_ppm=_share(right, lane_rows),
        precision_ppm=_share(right, len(decided)),
        abstained_ppm=_share(len(rows) - len(decided), len(rows)),
        off_topic_undecided_ppm=_share(undecided_off_topic, off_topic),
        confusions=_confusions(decided),
        calibration=_calibration(decided),
    )


def parse_rows(lines: Iterable[str], where: str, lanes: Iterable[str] | None = None) -> list[Labelled]:
    """Rows out of JSON lines `{"id", "text", "lane", "also"}`; with `lanes`, a label that none of them bears is refused."""
    known = None if lanes is None else {NONE, *lanes}
    rows = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows.append(_row(line, f"{where}: line {number}", number, known))
        if len(rows) > MAX_ROWS:
            raise UsageError(f"{where}: more than {MAX_ROWS:,} rows; split the file")
    if not rows:
        raise UsageError(f'{where}: no rows; write lines such as {{"id": "r1", "text": "…", "lane": "backend"}}')
    return rows


def _row(line: str, where: str, number: int, known: set[str] | None) -> Labelled:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{where}: must be an object with text and lane")
    text, lane, also = found.get("text"), found.get("lane"), found.get("also") or []
    if not isinstance(text, str) or not isinstance(lane, str):
        raise UsageError(f'{where}: text and lane must be texts; lane is "{NONE}" where no lane fits')
    if not isinstance(also, list) or not all(isinstance(each, str) for each in also):
        raise UsageError(f"{where}: also must be a list of lanes")
    for label in (lane, *also):
        if known is not None and label not in known:
            raise UsageError(
                f"{where}: the roster has no lane {label!r:.60}; rename it, or give the roster with --roster"
            )
    name: Any = found.get("id", f"line {number}")
    return Labelled(id=str(name)[:200], text=text, lane=None if lane == NONE else lane, also=tuple(also))


def _confusions(decided: Sequence[tuple[Labelled, Route]]) -> tuple[Confusion, ...]:
    wrong = [(row, route.lane or "") for row, route in decided if not row.accepts(route.lane)]
    counts = Counter((row.lane, lane) for row, lane in wrong)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0][0] or "", each[0][1]))
    return tuple(
        Confusion(
            expected=expected,
            decided=lane,
            count=count,
            ids=tuple(row.id for row, chosen in wrong if (row.lane, chosen) == (expected, lane)),
        )
        for (expected, lane), count in ordered
    )


def _calibration(decided: Sequence[tuple[Labelled, Route]]) -> tuple[Bucket, ...]:
    buckets: dict[int, list[tuple[Labelled, Route]]] = {}
    for row, route in decided:
        buckets.setdefault(min(route.confidence_ppm // _BUCKET_PPM, 9), []).append((row, route))
    return tuple(
        Bucket(
            from_ppm=place * _BUCKET_PPM,
            to_ppm=(place + 1) * _BUCKET_PPM,
            rows=len(found),
            confidence_ppm=sum(route.confidence_ppm for _, route in found) // len(found),
            right_ppm=_share(sum(row.accepts(route.lane) for row, route in found), len(found)) or 0,
        )
        for place, found in sorted(buckets.items())
    )


def _share(part: int, whole: int) -> int | None:
    return round(part * 1_000_000 / whole) if whole else None
