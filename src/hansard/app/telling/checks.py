"""What checks have found, in words for people. The record holds it as JSON for programs, or as text that somebody wrote.

Whatever is not as a check of ours writes it stays as it is: the record may come from elsewhere.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

BY_RULE = ("intent", "delivery", "code")
MOST_NAMED = 12


def said_of_answer(check: str, detail: str | None) -> str | None:
    """What a check of the answer says."""
    tell = _TOLD.get(check)
    return _read(detail, tell) if tell else detail


def said_of_result(reasons: str | None) -> str | None:
    """What the checks of a task's result say, a line each, in the order in which they were asked."""
    return _read(reasons, lambda rows: "\n".join([_row(row) for row in rows]))


def _read(text: str | None, tell: Callable[[Any], str]) -> str | None:
    try:
        return tell(json.loads(text or ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text


def _row(row: Mapping[str, Any]) -> str:
    said = f"{row['check']}: {'passed' if row['ok'] else 'failed'}"
    return f"{said}, {detail_of(row)}" if row["detail"] else said


def detail_of(row: Mapping[str, Any]) -> str:
    """What a check says. That whatever looks for a pattern ends with 1 where there is none tells nobody anything; in the record it
    stays, since later attempts are asked with these words and a re-run asks with the same.
    """
    detail = str(row["detail"])
    return detail.removesuffix(" exit code 1.") if row.get("check") == "regex" else detail


def _intent(found: Mapping[str, Any]) -> str:
    missing = found["missing"]
    return f"{found['why']}; not found in it: {_listed(missing)}" if missing else str(found["why"])


def _delivery(found: Mapping[str, Any]) -> str:
    return "; ".join(map(str, found["reasons"])) or (
        f"{found['words']:,} words, {found['longest_sentence']:,} in the longest sentence"
    )


def _code(found: Mapping[str, Any]) -> str:
    return "\n".join([f"block {each['block']}: {each['detail']}" for each in found["findings"]]) or (
        f"nothing is wrong with {found['blocks']:,} of its blocks"
    )


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(map(str, words[:MOST_NAMED])) + more


_TOLD: Mapping[str, Callable[[Any], str]] = dict(zip(BY_RULE, (_intent, _delivery, _code), strict=True))
