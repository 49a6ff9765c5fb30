"""Which of the twelve kinds an agent CLI's complaint is: by the status that it names, by its words, or else `internal`.

CLIs tell their errors in sentences for people. Only whole words count, and a number only where it is called a status:
"login" in a file name and 429 in an identifier mean nothing.
"""

import re
from collections.abc import Mapping
from typing import Any

from hansard.domain.exchange import ErrorKind, Failure
from hansard.providers.base import failure

_STATUS = re.compile(
    r"\b(?:status(?: code)?|http(?: error)?|api error|error code)[\s:=(]{1,3}([45]\d\d)\b|\(([45]\d\d)\)", re.I
)
_PHRASES: tuple[tuple[ErrorKind, str], ...] = (
    (
        "context_length_exceeded",
        r"context[ _](?:length|window)|maximum context|prompt is too long|too many tokens|context_length_exceeded",
    ),
    (
        "quota_exhausted",
        r"quota|insufficient_quota|usage limit|spending limit|credit balance|out of credits|billing(?: details| issue)?"
        r"|hit your (?:\w+ )?limit|monthly limit|daily limit|weekly limit",
    ),
    (
        "rate_limit",
        r"rate[ _-]?limit(?:s|ed|ing)?|rate_limit_error|too many requests|overloaded(?:_error)?|high demand",
    ),
    (
        "auth_failure",
        r"unauthori[sz]ed|forbidden|authentication(?:_error|_failed)?|(?:invalid|incorrect|missing|no) (?:x-)?api[ -]key"
        r"|not logged in|please (?:run /login|log in|sign in)|login required|(?:token|session)(?: has)? expired"
        r"|permission_error|set an auth method",
    ),
    (
        "model_unavailable",
        r"model_not_found|(?:unknown|no such|invalid) model|issue with the selected model"
        r"|model[^.\n]{0,80}(?:not found|does not exist|may not exist|not supported|not available|no access)",
    ),
    ("content_filter", r"content[ _]filter(?:ed)?|content policy|usage policy|blocked by safety|refusal"),
    ("timeout", r"timed out|time-?outs?|deadline exceeded"),
    (
        "network",
        r"network|connection|unable to connect|dns|ECONN[A-Z]+|ENOTFOUND|EAI_AGAIN|unreachable|stream disconnected"
        r"|internal server error|server_error|api_error|bad gateway|service unavailable",
    ),
    ("invalid_request", r"unknown option|unknown argument|unexpected argument|invalid value|invalid_request_error"),
)
_KINDS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)) for kind, words in _PHRASES
)
_PAUSE = re.compile(
    r"\b(?:try again|retry|wait)(?: in| after)? (\d{1,6}(?:\.\d+)?) ?(ms|s|secs?|seconds?|m|mins?|minutes?)\b", re.I
)
_UNITS: Mapping[str, float] = {"ms": 0.001, "mi": 60.0, "m": 60.0, "s": 1.0, "se": 1.0}
_BY_STATUS: Mapping[int, ErrorKind] = {
    401: "auth_failure",
    403: "auth_failure",
    404: "model_unavailable",
    408: "timeout",
    413: "context_length_exceeded",
    429: "rate_limit",
    529: "rate_limit",
}


def complained(said: str, message: str, *, kind: ErrorKind | None = None, **details: Any) -> Failure:
    """The failure that these words of a CLI mean; `message` is what is told, `kind` what is known of it already."""
    return failure(kind or kind_of(said), message, retry_after_s=pause_of(said), **details)


def pause_of(said: str) -> float | None:
    """How long to wait, in seconds, where the words say so."""
    found = _PAUSE.search(said)
    return float(found[1]) * _UNITS[found[2].lower()[:2]] if found else None


def kind_of(said: str, *, status: int | None = None) -> ErrorKind:
    """The kind of a complaint, and of the status that came with it when the CLI tells one."""
    if status is None and (named := _STATUS.search(said)):
        status = int(named[1] or named[2])
    spoken = next((kind for kind, words in _KINDS if words.search(said)), None)
    if status is None:
        return spoken or "internal"
    # The words say which limit it is, and whether a bad request was too long or unpaid.
    if spoken in ("quota_exhausted", "context_length_exceeded") and status in (400, 402, 403, 413, 429):
        return spoken
    if status >= 500:
        return _BY_STATUS.get(status, "network")
    return _BY_STATUS.get(status) or ("quota_exhausted" if status == 402 else "invalid_request")
