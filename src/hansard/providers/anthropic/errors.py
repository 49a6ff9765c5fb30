"""Which of the twelve kinds an error of an Anthropic-shaped server is [deliberation 4.3]."""

from collections.abc import Mapping

from hansard.domain.exchange import ErrorKind
from hansard.providers.hosted.faults import Fault

_QUOTA_PHRASES = (
    *("quota", "monthly_limit", "monthly limit", "credit balance", "daily limit", "spend limit"),
    "api usage limits",
)
_QUOTA = frozenset({"billing_error", "enforced_spend_limit_reached"})
_CONTEXT_PHRASES = (
    *("context length", "context_length_exceeded", "maximum context", "context limit", "context size"),
    *("too many tokens", "exceeds the maximum", "prompt is too long"),
)
_BY_TYPE: Mapping[str, ErrorKind] = {
    "rate_limit_error": "rate_limit",
    "overloaded_error": "rate_limit",
    "authentication_error": "auth_failure",
    "permission_error": "auth_failure",
    "not_found_error": "model_unavailable",
    "request_too_large": "context_length_exceeded",
    "exceed_context_size_error": "context_length_exceeded",
    "timeout_error": "timeout",
    "api_error": "network",
    "server_error": "network",
}
_BY_STATUS: Mapping[int, ErrorKind] = {
    401: "auth_failure",
    402: "quota_exhausted",
    403: "auth_failure",
    404: "model_unavailable",
    408: "timeout",
    413: "context_length_exceeded",
    429: "rate_limit",
    529: "rate_limit",
}


def kind_of(fault: Fault) -> ErrorKind:
    """The kind: by its status, and by its type within an answer that began well."""
    kind = _BY_STATUS.get(fault.status or 0) or _BY_TYPE.get(fault.type)
    if fault.words & _QUOTA or (kind in {"rate_limit", None} and fault.says(*_QUOTA_PHRASES)):
        return "quota_exhausted"
    if kind is not None:
        return kind
    if fault.says(*_CONTEXT_PHRASES):
        return "context_length_exceeded"
    if fault.status is None:
        return "invalid_request" if fault.type == "invalid_request_error" else "internal"
    return "network" if fault.status >= 500 else "invalid_request"
