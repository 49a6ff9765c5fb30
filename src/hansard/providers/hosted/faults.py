"""What went wrong at a model's server, as every vendor's SDK tells it: a status, a code, a type and a sentence.

Which of the twelve kinds that is, each vendor's own table says. Knows no SDK by name: their errors have one shape.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, get_args

from hansard.domain.exchange import ErrorKind, Failure
from hansard.domain.value import replace, value
from hansard.providers.base import failure
from hansard.providers.hosted import transport

LONGEST_MESSAGE = 2_000
LONGEST_BODY = 64 * 1024
_KINDS: Mapping[str, ErrorKind] = {kind: kind for kind in get_args(ErrorKind)}
_NOWHERE = frozenset({404, 405})
"""What a server says of an address at which it has nothing, and of a model that it has not."""
_STATUS = re.compile(r"[345][0-9]{2}")
_DELAY = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?s")


@value
class Fault:
    """One error of a server. `status` is None where it came within an answer that had begun well."""

    status: int | None = None
    code: str = ""
    type: str = ""
    message: str = ""
    retry_after_s: float | None = None
    request_id: str = ""
    body: bytes | None = None
    quotas: tuple[str, ...] = ()
    """The names of the limits that were met, where the server tells them."""

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.code, self.type} - {""})

    def says(self, *phrases: str) -> bool:
        text = self.message.lower()
        return any(phrase in text for phrase in phrases)


Classify = Callable[[Fault], ErrorKind]


def failure_of(error: Exception, classify: Classify, *, server: str, key: str) -> tuple[Failure, bytes | None]:
    """The failure that an SDK's exception means, and the body that came with it. `key` names where the key comes from."""
    if (broken := transport.kind_of(error) or _lost(error)) is not None:
        kind, message = _KINDS[broken[0]], broken[1]
        retryable = False if kind == "malformed_response" else None
        return failure(kind, f"{server}: {message}", retryable=retryable), None
    fault = fault_of(error)
    why = told(fault, classify(fault), server=server, key=key)
    if fault.status in _NOWHERE and "model" not in f"{fault.code} {fault.message}".lower():
        # The address is not told: a gateway's may hold what is nobody's business.
        why = replace(why, message=f"{why.message}; is the address right? base_url mostly ends in /v1")
    return why, fault.body


def told(fault: Fault, kind: ErrorKind, *, server: str, key: str) -> Failure:
    """The failure of this kind, with what the server said."""
    status = str(fault.status) if fault.status else "an error within its answer"
    word = fault.code or fault.type
    hint = f"; the key is read from {key}" if kind == "auth_failure" else ""
    message = f"{server} answered {status}{f' ({word})' if word else ''}: {fault.message[:LONGEST_MESSAGE]}{hint}"
    details: dict[str, Any] = {
        "status": fault.status,
        "vendor_code": fault.code,
        "vendor_type": fault.type,
        "request_id": fault.request_id,
        "retry_after_seconds": fault.retry_after_s,
    }
    kept = {name: value for name, value in details.items() if value not in (None, "")}
    return failure(kind, message, retry_after_s=fault.retry_after_s, **kept)


def _lost(error: Exception) -> tuple[str, str] | None:
    """A call that ended without an answer, as an SDK says it."""
    names = {base.__name__ for base in type(error).__mro__}
    if "APITimeoutError" in names:
        return "timeout", "the server did not answer in time"
    if "APIConnectionError" in names:
        cause = error.__cause__
        return "network", f"the connection failed: {cause or error}"
    return None


def fault_of(error: Exception) -> Fault:
    """What the server said with this exception."""
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", {})
    said = read_error(getattr(error, "body", None))
    wait_s = retry_after_s(headers)
    status = getattr(error, "status_code", None)
    body = response.content[:LONGEST_BODY] if response is not None and status != 200 else None
    # Not every server knows an error object: what it says in words of its own is more than its status.
    quoted = (body or b"")[: 4 * LONGEST_MESSAGE].decode("utf-8", "replace").strip()
    return Fault(
        # Some servers write the status into the code, also within a stream that began with 200.
        status=status if isinstance(status, int) and status >= 300 else said.status,
        code=said.code,
        type=said.type,
        message=said.message or quoted or getattr(error, "message", "") or str(error),
        retry_after_s=said.retry_after_s if wait_s is None else wait_s,
        request_id=headers.get("x-request-id") or headers.get("request-id") or "",
        body=body,
        quotas=said.quotas,
    )


def read_error(body: Any) -> Fault:
    """The error object of a body, bare or in its envelope. Gemini sends it as the one member of a list."""
    if isinstance(body, list) and len(body) == 1:
        [body] = body
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(inner, Mapping):
        return Fault(message=inner.strip() if isinstance(inner, str) else "")
    details = inner.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else inner.get("code")
    status = int(code) if isinstance(code, int | str) and _STATUS.fullmatch(str(code)) else None
    return Fault(
        status=status,
        code="" if status else _word(code)[:LONGEST_MESSAGE],
        type=_word(inner.get("type"))[:LONGEST_MESSAGE],
        message=_word(inner.get("message")),
        retry_after_s=_delay_s(details),
        quotas=tuple(_quotas(details)),
    )


def _members(details: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in (details if isinstance(details, list) else ()) if isinstance(each, Mapping))


def _quotas(details: Any) -> Iterator[str]:
    """Which limits Gemini says were met."""
    for violation in (violation for each in _members(details) for violation in _members(each.get("violations"))):
        yield from (each for each in (violation.get("quotaId"), violation.get("quotaMetric")) if isinstance(each, str))


def _delay_s(details: Any) -> float | None:
    """How long Gemini asks to wait, which it says in no header."""
    said = (each.get("retryDelay") for each in _members(details))
    return next((float(each[:-1]) for each in said if isinstance(each, str) and _DELAY.fullmatch(each)), None)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait: seconds, milliseconds in the vendors' own header, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        at = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, at - time.time())
