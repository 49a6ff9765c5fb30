"""The words of CLIs: whole words count, and a number only where it is called a status."""

import pytest

from hansard.providers.agents.faults import kind_of, pause_of


@pytest.mark.parametrize(
    "said",
    [
        "request req_429_a failed",
        "wrote 4290 bytes to login.py",
        "blogin and networking-notes.md",
        "the quotation was misquoted",
        "took 401 ms",
        "session 403f",
        "reconnections",
        "",
    ],
)
def test_what_only_looks_like_a_reason_is_none(said: str) -> None:
    assert kind_of(said) == "internal"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("HTTP 429", "rate_limit"),
        ("failed with status code 529", "rate_limit"),
        ("error (503)", "network"),
        ("status: 404", "model_unavailable"),
        ("API Error: 401 {...}", "auth_failure"),
        ("status 418 I'm a teapot", "invalid_request"),
        ("status 402 Payment Required", "quota_exhausted"),
        ("429: insufficient_quota", "quota_exhausted"),
    ],
)
def test_a_status_says_what_it_is(said: str, kind: str) -> None:
    assert kind_of(said) == kind


def test_a_status_that_is_known_is_believed_before_the_words() -> None:
    assert kind_of("connection refused by policy", status=403) == "auth_failure"
    assert kind_of("the connection is fine, but the prompt is too long", status=400) == "context_length_exceeded"


@pytest.mark.parametrize(
    ("said", "pause_s"),
    [
        ("Please try again in 11.5s.", 11.5),
        ("retry after 250 ms", 0.25),
        ("Try again in 2 minutes", 120.0),
        ("wait 3 sec", 3.0),
        ("try again at 4pm", None),
        ("try again in 5 meters", None),
    ],
)
def test_a_pause_is_read_where_one_is_asked_for(said: str, pause_s: float | None) -> None:
    assert pause_of(said) == pause_s
