"""Which of the twelve kinds an error of an OpenAI-shaped server is [deliberation 4.3]."""

from hansard.domain.exchange import ErrorKind
from hansard.providers.hosted.faults import Fault

_QUOTA = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error"}
)
_CONTEXT = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_FILTER = frozenset({"content_filter", "content_policy_violation", "responsible_ai_policy_violation"})
_MODEL = frozenset({"model_not_found", "model_not_available"})
_RATE = frozenset({"rate_limit_exceeded", "rate_limit_error", "slow_down", "overloaded_error"})
_NETWORK = frozenset(
    {
        *("server_error", "api_error", "internal_server_error", "service_unavailable", "bad_gateway"),
        *("service_unavailable_error", "server_is_overloaded"),
    }
)
_CONTEXT_PHRASES = (
    *("context length", "maximum context", "context size", "context window"),
    *("too many tokens", "exceeds the maximum", "prompt is too long"),
)
# Gemini and xAI say it with status 400.
_KEY_PHRASES = ("incorrect api key", "pass a valid api key", "api key expired")


def kind_of(fault: Fault) -> ErrorKind:
    """The kind: by its code where that is plain, then by its status."""
    if fault.words & _QUOTA or fault.status == 402:
        return "quota_exhausted"
    if fault.words & _CONTEXT or fault.status == 413:
        return "context_length_exceeded"
    if fault.words & _FILTER:
        return "content_filter"
    if fault.words & _MODEL:
        return "model_unavailable"
    return _by_word(fault) if fault.status is None else _by_status(fault, fault.status)


def _by_status(fault: Fault, status: int) -> ErrorKind:
    match status:
        case 401 | 403:
            return "auth_failure"
        case 404:
            # Without a model in the complaint it is the address that leads nowhere.
            return "model_unavailable" if fault.says("model") else "invalid_request"
        case 408:
            return "timeout"
        case 429:
            return "quota_exhausted" if _is_of_the_day(fault) else "rate_limit"
        case 400 | 422 if fault.says(*_CONTEXT_PHRASES):
            return "context_length_exceeded"
        case 400 if fault.says(*_KEY_PHRASES):
            return "auth_failure"
    if status >= 500:
        return "network"
    return "invalid_request"


def _is_of_the_day(fault: Fault) -> bool:
    """Whether Gemini's limit of the day is used up. It asks to wait for seconds all the same, as at that of a minute."""
    named = any("perday" in quota.replace("_", "").lower() for quota in fault.quotas)
    return named or (fault.says("quota") and fault.says("per day", "per_day", "daily"))


def _by_word(fault: Fault) -> ErrorKind:
    """Within an answer that began well there is no status."""
    if fault.words & _RATE:
        return "rate_limit"
    if fault.words & _NETWORK:
        return "network"
    if fault.says(*_CONTEXT_PHRASES):
        return "context_length_exceeded"
    return "invalid_request" if "invalid_request_error" in fault.words else "internal"
