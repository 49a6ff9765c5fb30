"""What holds for every provider that asks over HTTP, in every format, whole and streamed."""

import asyncio
import gc
import gzip
import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Cost, Limits, Usage
from hansard.errors import UsageError
from hansard.providers.base import keeps_the_contract
from hansard.providers.hosted import transport
from hansard.providers.prices import Prices
from providers.asking import CITY, FORMS, KEY, PARIS, SHORT_S, Form, answers, asked, failure_of, opened, run
from providers.wire import Cut, Drop, Flood, Hang, Raw, Refuse, Say, Trickle, Wire, serving

pytestmark = pytest.mark.parametrize("form", FORMS, ids=str)
WITHIN_S = 30.0


def test_an_answer_carries_text_usage_cost_and_both_names_of_the_model(form: Form, wire: Wire) -> None:
    completion = answers(form, wire)
    assert completion.ok
    assert completion.text == "Paris."
    assert completion.finish == "stop"
    assert completion.usage == Usage(input_tokens=16, output_tokens=5, cached_tokens=4)
    assert (completion.provider, completion.requested_model) == ("mine", form.model)
    assert completion.returned_model.startswith(f"{form.model}-20")
    assert completion.cost.basis == "price_table"
    assert completion.cost.usd_nano > 0
    assert completion.latency_us > 0


def test_the_raw_reply_is_kept_as_json_and_without_headers(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(headers={"x-internal": "not to be kept"}))
    assert completion.raw is not None
    reply = json.loads(completion.raw)
    assert reply["model"] == completion.returned_model
    assert "Paris." in json.dumps(reply)
    assert b"not to be kept" not in completion.raw


def test_the_model_of_the_question_goes_before_that_of_the_provider(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, exchange=asked(model="another"))
    assert wire.last.body["model"] == completion.requested_model == "another"
    assert completion.cost == Cost(basis="unknown")


def test_without_any_model_nobody_is_asked(form: Form, wire: Wire) -> None:
    before = len(wire.seen)
    failure = failure_of(answers(form, wire, model=""))
    assert failure.kind == "invalid_request"
    assert len(wire.seen) == before


def test_the_users_own_price_goes_before_the_table(form: Form, wire: Wire) -> None:
    prices = Prices.read({form.model: {"input": 1, "output": 10, "cached": 0.5}})
    # 12 fresh, 4 cached and 5 output tokens, in billionths of a dollar.
    assert answers(form, wire, prices=prices).cost == Cost(usd_nano=12_000 + 2_000 + 50_000, basis="price_table")


def test_the_users_own_price_of_what_was_asked_for_goes_before_the_table_too(form: Form, wire: Wire) -> None:
    prices = Prices.read({"ours/": {"input": 1, "output": 10, "cached": 0.5}})
    completion = answers(form, wire, Say(model=form.model), exchange=asked(model="ours/best"), prices=prices)
    assert Prices().find(completion.returned_model)
    assert completion.cost == Cost(usd_nano=12_000 + 2_000 + 50_000, basis="price_table")


def test_of_an_unmetered_provider_the_cost_is_an_estimate(form: Form, wire: Wire) -> None:
    assert answers(form, wire, unmetered=True).cost.basis == "estimate"


@pytest.mark.parametrize("reported", [None, (0, 0, 0)])
def test_usage_that_nobody_counted_is_estimated_and_so_is_its_cost(
    form: Form, wire: Wire, reported: tuple[int, int, int] | None
) -> None:
    completion = answers(form, wire, Say(text="x" * 400, tokens=reported))
    assert completion.usage.estimated
    assert completion.usage.output_tokens == 100
    assert completion.cost.basis == "estimate"
    assert completion.cost.usd_nano > 0


def test_a_structured_answer_is_validated(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text=PARIS), exchange=asked(schema=CITY))
    assert completion.ok
    assert completion.structured == {"city": "Paris", "size": 2}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"city": "Paris"}', ""),
        ('{"city": "Paris", "size": 0}', "/size"),
        ('{"city": "Paris", "size": true}', "/size"),
    ],
)
def test_an_answer_that_misses_the_schema_is_malformed_whatever_the_server_promised(
    form: Form, wire: Wire, text: str, path: str
) -> None:
    completion = answers(form, wire, Say(text=text), exchange=asked(schema=CITY))
    failure = failure_of(completion)
    assert failure.kind == "malformed_response"
    assert failure.retryable
    assert failure.details["failing_path"] == path
    assert failure.details["raw_attempt"] == completion.text == text
    assert completion.usage.output_tokens == 5


def test_an_answer_cut_off_by_its_length_is_context_length_exceeded(form: Form, wire: Wire) -> None:
    said = Say(text=PARIS[:-3], finish=form.words["length"])
    completion = answers(form, wire, said, exchange=asked(schema=CITY))
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable) == ("context_length_exceeded", False)
    assert completion.finish == "length"


def test_an_answer_that_is_whole_in_spite_of_the_length_is_a_success(form: Form, wire: Wire) -> None:
    said = Say(text=PARIS, finish=form.words["length"])
    completion = answers(form, wire, said, exchange=asked(schema=CITY))
    assert completion.ok
    assert completion.finish == "length"


def test_plain_text_may_end_with_its_length(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="Paris is", finish=form.words["length"]))
    assert completion.ok
    assert (completion.text, completion.finish) == ("Paris is", "length")


def test_a_filtered_answer_is_a_content_filter_failure_that_was_paid_for(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="I", finish=form.words["content_filter"]))
    assert failure_of(completion).kind == "content_filter"
    assert completion.finish == "content_filter"
    assert completion.usage.output_tokens == 5


def test_a_model_that_says_nothing_has_not_answered(form: Form, wire: Wire) -> None:
    assert failure_of(answers(form, wire, Say(text=""))).kind == "internal"
    exhausted = Say(text="", finish=form.words["length"])
    assert failure_of(answers(form, wire, exhausted)).kind == "context_length_exceeded"


STATUSES: tuple[tuple[int, str], ...] = (
    (301, "invalid_request"),
    (400, "invalid_request"),
    (401, "auth_failure"),
    (403, "auth_failure"),
    (402, "quota_exhausted"),
    (408, "timeout"),
    (409, "invalid_request"),
    (413, "context_length_exceeded"),
    (422, "invalid_request"),
    (429, "rate_limit"),
    (500, "network"),
    (502, "network"),
    (503, "network"),
    (504, "network"),
)


@pytest.mark.parametrize(("status", "kind"), STATUSES)
def test_a_status_has_its_kind_and_is_asked_once(form: Form, wire: Wire, status: int, kind: str) -> None:
    before = len(wire.seen)
    completion = answers(form, wire, Refuse(status=status, body={"error": {"message": "no", "type": "x"}}))
    failure = failure_of(completion)
    assert failure.kind == kind
    assert failure.retryable == (kind in {"timeout", "network", "rate_limit"})
    assert failure.details["status"] == status
    assert len(wire.seen) == before + 1
    # Who waits too long may have been answered without hearing it.
    assert completion.usage.estimated if kind == "timeout" else completion.usage.total == 0


@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad gateway</html>", b"null", b'"no"', b"[1]", b'{"error": null}', b"\xff\xfe"]
)
def test_an_error_whose_body_is_no_error_object_still_has_its_kind(form: Form, wire: Wire, body: bytes) -> None:
    failure = failure_of(answers(form, wire, Refuse(status=502, body=body)))
    assert failure.kind == "network"
    assert "502" in failure.message


@pytest.mark.parametrize("status", [404, 405])
def test_where_a_server_has_nothing_the_address_is_asked_after(form: Form, wire: Wire, status: int) -> None:
    nothing = Refuse(status=status, body=b"404 page not found")
    why = failure_of(answers(form, wire, nothing))
    assert why.message.endswith("404 page not found; is the address right? base_url mostly ends in /v1")
    for error in ({"message": "model: x"}, {"message": "gone", "code": "model_not_found"}):
        unknown = Refuse(status=status, body={"error": error})
        assert "base_url" not in failure_of(answers(form, wire, unknown)).message


def test_what_a_server_says_in_words_of_its_own_is_told_and_understood(form: Form, wire: Wire) -> None:
    said = failure_of(answers(form, wire, Refuse(status=422, body={"detail": [{"msg": "no such field: seed"}]})))
    assert (said.kind, "no such field: seed" in said.message) == ("invalid_request", True)
    long = {"detail": "the maximum context length is 8192 tokens" + "?" * 5_000}
    said = failure_of(answers(form, wire, Refuse(status=400, body=long)))
    assert said.kind == "context_length_exceeded"
    assert len(said.message) < 3_000


def test_a_server_says_how_long_to_wait(form: Form, wire: Wire) -> None:
    def wait(**headers: str) -> float | None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        failure = failure_of(answers(form, wire, Refuse(status=429, body={}, headers=named)))
        assert failure.kind == "rate_limit"
        return failure.retry_after_s

    assert wait(retry_after="7") == 7.0
    assert wait(retry_after="0.25") == 0.25
    assert wait(retry_after="60", retry_after_ms="1500") == 1.5
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    assert 20 < (wait(retry_after=soon) or 0) <= 30
    assert wait(retry_after="Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert wait(retry_after="soon") is None
    assert wait(retry_after="-3") is None
    assert wait(retry_after="Mon, 01 Jan 99999999999999999999 00:00:00 GMT") is None
    assert wait() is None


def test_a_code_of_thousands_of_digits_is_no_status(form: Form, wire: Wire) -> None:
    failure = failure_of(answers(form, wire, Refuse(status=429, body={"error": {"message": "m", "code": "9" * 5000}})))
    assert (failure.kind, failure.retryable) == ("rate_limit", True)


CUTS = {
    "drop": Drop(),
    "begin": Cut(keep=0.0),
    "half": Cut(keep=0.5),
    "end": Cut(say=Say(text="Paris. " * 5_000), keep=0.95),
}


@pytest.mark.parametrize("turn", CUTS.values(), ids=CUTS)
def test_a_broken_connection_is_a_network_failure(form: Form, wire: Wire, turn: Any) -> None:
    failure = failure_of(answers(form, wire, turn))
    assert (failure.kind, failure.retryable) == ("network", True)


def test_an_error_that_breaks_off_is_a_network_failure(form: Form, wire: Wire) -> None:
    failure = failure_of(answers(form, wire, Refuse(status=400, body={"error": {"message": "no"}}, missing=5)))
    assert failure.kind == "network"


def test_a_server_that_is_not_there_is_a_network_failure(form: Form) -> None:
    with serving() as gone:
        url = gone.url

    async def once() -> Completion:
        provider = form.open(url)
        completion = await provider.complete(asked())
        await provider.close()
        return completion

    assert failure_of(run(once())).kind == "network"


@pytest.mark.parametrize(
    "body", [b"not json", b"[]", b"{}", b'{"choices": [], "output": 3, "content": "x"}', b"<html>", b"", b"\xff" * 99]
)
def test_a_reply_that_is_no_reply_is_internal_and_kept(form: Form, wire: Wire, body: bytes) -> None:
    completion = answers(form, wire, Raw(body=body))
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable) == ("internal", False)
    if not form.streamed:
        assert completion.raw == body


@pytest.mark.parametrize("turn", [Hang(), Hang(after_headers=True), Trickle()], ids=str)
def test_the_deadline_closes_the_connection(form: Form, wire: Wire, turn: Any) -> None:
    started = time.monotonic()
    completion = answers(form, wire, turn, exchange=asked(timeout_s=SHORT_S))
    assert failure_of(completion).kind == "timeout"
    assert time.monotonic() - started < WITHIN_S
    assert wire.was_given_up()


@pytest.mark.parametrize("turn", [Hang(), Hang(after_headers=True), Trickle()], ids=str)
def test_cancellation_passes_through_and_closes_the_connection(form: Form, wire: Wire, turn: Any) -> None:
    wire.will(turn)
    wire.forget()

    async def cancelled() -> None:
        async with opened(form, wire) as provider:
            asking = asyncio.create_task(provider.complete(asked()))
            await asyncio.to_thread(wire.is_asked)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            # Before the provider is closed: it is the call that has ended, not its client.
            assert await asyncio.to_thread(wire.was_given_up)

    run(cancelled())


@pytest.mark.parametrize("status", [200, 500])
def test_a_flood_is_stopped_at_the_limit(form: Form, wire: Wire, status: int) -> None:
    exchange = asked(limits=Limits(timeout_s=WITHIN_S, max_output_bytes=1_000))
    failure = failure_of(answers(form, wire, Flood(status=status), exchange=exchange))
    assert failure.kind == ("malformed_response" if status == 200 else "network")
    assert failure.retryable == (status == 500)
    assert wire.was_given_up()


def test_an_answer_that_is_longer_than_allowed_is_cut_and_refused(form: Form, wire: Wire) -> None:
    exchange = asked(limits=Limits(max_output_bytes=100))
    completion = answers(form, wire, Say(text="x" * 1_000), exchange=exchange)
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable) == ("malformed_response", False)
    assert len(completion.text) <= 100


def test_a_compressed_reply_is_refused_unread(form: Form, wire: Wire) -> None:
    failure = failure_of(answers(form, wire, Raw(body=b"\x1f\x8b", headers={"content-encoding": "gzip"})))
    assert failure.kind == "internal"
    assert "gzip" in failure.message
    assert wire.last.headers["accept-encoding"] == "identity"


def test_a_compressed_error_has_its_kind_all_the_same_and_is_not_read(form: Form, wire: Wire) -> None:
    headers = {"content-encoding": "gzip", "retry-after": "2"}
    body = gzip.compress(b"x" * 10_000_000)
    completion = answers(form, wire, Refuse(status=429, body=body, headers=headers))
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable, failure.retry_after_s) == ("rate_limit", True, 2.0)
    assert len(failure.message) < 1_000
    assert not completion.raw


def test_a_redirect_is_not_followed_with_the_key(form: Form, wire: Wire) -> None:
    with serving() as elsewhere:
        moved = Refuse(status=307, body={}, headers={"location": f"{elsewhere.url}{'/v1/messages'}"})
        failure = failure_of(answers(form, wire, moved))
        assert failure.kind == "invalid_request"
        assert elsewhere.seen == []


def test_the_key_is_sent_and_never_shown(form: Form, wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = Refuse(status=401, body={"error": {"message": f"bad key {KEY}", "type": f"t {KEY}", "code": f"c{KEY}"}})
    for turn in (
        echo,
        Say(text=f"your key is {KEY}"),
        Raw(body=f"<b>{KEY}</b>".encode()),
        Refuse(status=500, body=KEY),
    ):
        completion = answers(form, wire, turn)
        assert KEY in str(wire.last.headers)
        assert KEY not in repr(completion)
        assert json.dumps(KEY)[1:-1] not in repr(completion)
    assert failure_of(answers(form, wire, echo)).kind == "auth_failure"
    refused = failure_of(answers(form, wire, Refuse(status=401, body={})))
    assert "the key is read from TEST_KEY" in refused.message
    assert KEY not in repr(dict(form.open(wire.url).describe()))
    assert caplog.records
    assert KEY not in caplog.text


def test_a_key_in_a_structured_answer_is_scrubbed_too(form: Form, wire: Wire) -> None:
    said = Say(text=json.dumps({"city": KEY, "size": 1}))
    completion = answers(form, wire, said, exchange=asked(schema=CITY))
    assert completion.structured == {"city": "[secret TEST_KEY]", "size": 1}


def test_a_server_that_only_notices_on_a_stream_that_nobody_listens_is_asked_for_one(form: Form, wire: Wire) -> None:
    answers(form, wire, server="llama.cpp")
    assert wire.last.body["stream"] is True
    answers(form, wire, server="llama.cpp", stream=False)
    assert bool(wire.last.body.get("stream")) == form.streamed


def test_a_provider_keeps_the_contract_and_closes_twice(form: Form, wire: Wire) -> None:
    async def twice() -> None:
        provider = form.open(wire.url)
        assert keeps_the_contract(provider)
        assert (await provider.complete(asked())).ok
        await provider.close()
        await provider.close()

    run(twice())


def test_connections_are_used_again(form: Form, wire: Wire) -> None:
    async def several() -> set[str]:
        async with opened(form, wire) as provider:
            for _ in range(3):
                assert (await provider.complete(asked())).ok
        return {seen.headers["x-peer"] for seen in wire.seen[-3:]}

    assert len(run(several())) == 1


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_provider_serves_one_event_loop_after_another(form: Form, wire: Wire) -> None:
    provider = form.open(wire.url)
    for _ in range(4):
        wire.will(Say(text="Paris."))
        assert run(provider.complete(asked())).ok
    run(provider.close())
    # What the earlier loops have left open is to be told of here, and not in another test.
    gc.collect()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"base_url": "ftp://host/"}, "must begin with http"),
        ({"base_url": "http://"}, "name a host"),
        ({"base_url": "http://[::1:8080/v1"}, "base_url is no address"),
        ({"base_url": "http://host:99999/v1"}, "base_url is no address"),
        ({"base_url": "http://192.168.1.300:8000/v1"}, "base_url is no address: Invalid IPv4 address"),
        ({"base_url": "https://m\xfcnchen..de/v1"}, "base_url is no address"),
        ({"base_url": "http://user:pass@host/v1"}, "no user"),
        ({"base_url": "http://host/v1?key=1"}, "no user"),
        ({"base_url": "http://ho st/v1"}, "base_url is no address"),
        ({"base_url": "http://host/v\0"}, "base_url is no address"),
        ({"base_url": f"http://host/{'v' * 70_000}"}, "base_url is no address"),
        ({"base_url_env": "NOT_SET"}, "NOT_SET, which is not set"),
        ({"api_key_env": "NOT_SET"}, "NOT_SET is not set"),
        ({"api_key_env": "sk-0123456789abcdef"}, "api_key_env is no name of a variable"),
        ({"api_key_env": "ODD"}, "characters that no key has"),
        ({"api_key_env": "SHORT"}, "too few"),
        ({"structured": "maybe"}, "structured must be one of"),
        ({"server": "mine"}, "server must be one of"),
        ({"apikey": "x"}, "unknown key apikey"),
        ({"model": 3}, "model must be a text"),
    ],
)
def test_a_bad_option_is_refused_at_once_and_by_name(
    form: Form, options: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(asking_environment(), "ODD", "sk-with\nnewline-inside")
    monkeypatch.setitem(asking_environment(), "SHORT", "sk-1")
    with pytest.raises(UsageError, match=complaint) as caught:
        form.open("http://127.0.0.1:1", **options)
    assert "sk-" not in str(caught.value)


def asking_environment() -> dict[str, str]:
    from providers import asking

    return asking.ENVIRONMENT


def test_the_address_may_come_from_the_environment_that_was_given(
    form: Form, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = wire.url if form.api == "messages" else f"{wire.url}/v1"
    monkeypatch.setitem(asking_environment(), "ADDRESS", f" {address}\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    assert answers(form, wire, base_url_env="ADDRESS").ok


def test_the_vendors_own_variables_say_the_address_and_the_key_where_a_table_names_none(
    form: Form, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = "ANTHROPIC" if form.api == "messages" else "OPENAI"
    address = wire.url if form.api == "messages" else f"{wire.url}/v1"
    monkeypatch.setitem(asking_environment(), f"{vendor}_BASE_URL", address)
    assert answers(form, wire, base_url="", api_key_env="").ok
    assert KEY not in str(wire.last.headers)
    monkeypatch.setitem(asking_environment(), f"{vendor}_API_KEY", KEY)
    assert answers(form, wire, base_url="", api_key_env="").ok
    assert KEY in str(wire.last.headers)
    assert answers(form, wire, api_key_env="").ok
    assert KEY not in str(wire.last.headers)
    monkeypatch.setitem(asking_environment(), f"{vendor}_BASE_URL", "gateway.example")
    with pytest.raises(UsageError, match=f"{vendor}_BASE_URL must begin with http"):
        form.open("", api_key_env="", base_url="")


def test_the_environment_of_the_process_is_not_asked(form: Form, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "from-the-process")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "authorization: Bearer from-the-process\nx-more: from-the-process")
    assert answers(form, wire, api_key_env="").ok
    assert "from-the-process" not in str(wire.last.headers)
    assert KEY not in str(wire.last.headers)


def test_a_server_on_this_machine_is_asked_without_the_proxy_that_leads_to_others(
    form: Form, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Refuse(status=502)) as proxy:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert answers(form, wire).ok
        assert not proxy.seen
        away = answers(form, wire, base_url="http://models.invalid/v1")
        assert failure_of(away).details["status"] == 502
        assert len(proxy.seen) == 1


UNUSABLE = {"socks5://me:open-the-door@127.0.0.1:9": "socksio is not installed", "ftp://me:open-the-door@h": "is none"}


@pytest.mark.parametrize("proxy", UNUSABLE)
def test_a_proxy_that_cannot_be_used_concerns_only_those_whom_it_leads_to(
    form: Form, wire: Wire, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    assert answers(form, wire).ok
    with pytest.raises(UsageError, match=UNUSABLE[proxy]) as caught:
        form.open("", base_url="http://models.invalid/v1")
    assert "open-the-door" not in str(caught.value)
    with serving(Refuse(status=502)) as other:
        monkeypatch.setenv("http_proxy", other.url)
        assert failure_of(answers(form, wire, base_url="http://models.invalid/v1")).details["status"] == 502
        monkeypatch.setenv("no_proxy", "models.invalid")
        assert not answers(form, wire, base_url="http://models.invalid/v1").ok
        assert len(other.seen) == 1


@pytest.mark.parametrize("text", [None, "no certificate"], ids=["missing", "junk"])
def test_certificates_that_cannot_be_used_concern_only_those_who_are_asked_with_tls(
    form: Form, wire: Wire, tmp_path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text:
        (tmp_path / "ca.pem").write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    transport._trust.cache_clear()
    assert answers(form, wire).ok
    for url in ("https://127.0.0.1:1/v1", "https://models.invalid/v1"):
        with pytest.raises(UsageError, match="SSL_CERT_FILE"):
            form.open("", base_url=url)


def test_a_tool_message_reaches_the_model_as_the_users(form: Form, wire: Wire) -> None:
    exchange = asked()
    first, second = exchange.messages
    more = (
        first,
        second,
        replace(second, role="assistant", content="42"),
        replace(second, role="tool", content="found"),
    )
    assert answers(form, wire, exchange=replace(exchange, messages=more)).ok
    sent = wire.last.body.get("messages") or wire.last.body["input"]
    assert [message["role"] for message in sent if message["role"] != "system"] == ["user", "assistant", "user"]


def test_a_system_message_alone_is_asked(form: Form, wire: Wire) -> None:
    exchange = asked()
    assert answers(form, wire, exchange=replace(exchange, messages=exchange.messages[:1])).ok
    assert "Be brief." in json.dumps(wire.last.body)
