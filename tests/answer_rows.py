"""The labelled answers in tests/data/answers.jsonl, for the tests of the answer checks."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@cache
def rows() -> tuple[Row, ...]:
    path = Path(__file__).parent / "data" / "answers.jsonl"
    return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def wrong(among: Sequence[Row], label: str, said: Callable[[Row], object]) -> list[str]:
    """The rows whose label is not what the check says."""
    return [row["id"] for row in among if row[label] != said(row)]


def worst_share(label: str, said: Callable[[Row], object]) -> float:
    """The share that is right, of the label that fares worst: a check that always says the same gets nothing."""
    shares = []
    for value in {row[label] for row in rows()} - {None}:
        among = [row for row in rows() if row[label] == value]
        shares.append(1 - len(wrong(among, label, said)) / len(among))
    return min(shares)
