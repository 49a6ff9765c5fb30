import base64
import json
import os
import random
import re
import string
import sys
import time
from dataclasses import fields
from itertools import product
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.domain.exchange import Completion, Exchange, Message, ToolCall, ToolEvent
from hansard.errors import UsageError
from hansard.providers.base import failure
from hansard.providers.open import open_providers
from hansard.providers.programs.environment import PASSED_ON
from hansard.providers.programs.outcome import QUOTED_CHARACTERS
from hansard.providers.scrubbed import Scrubbed, scrubbed
from hansard.providers.secrets import Secrets
from providers.pretend import Doing, asking, says
from providers.wire import Refuse, Wire

KEY = 'sk-live/7+ä"b\\c d&e=f%g?h'
SECRETS = Secrets({"API_KEY": KEY})


def lower_escapes(text: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), text)


WRITINGS = [
    KEY,
    quote(KEY),
    quote_plus(KEY),
    quote(KEY, safe=""),
    lower_escapes(quote(KEY, safe="")),
    json.dumps(KEY)[1:-1],
    json.dumps(KEY, ensure_ascii=False)[1:-1],
    json.dumps(KEY)[1:-1].replace("/", "\\/"),
    json.dumps(json.dumps(KEY)[1:-1])[1:-1],
    repr(KEY)[1:-1],
    base64.b64encode(KEY.encode()).decode(),
    base64.urlsafe_b64encode(KEY.encode()).decode(),
]


@pytest.mark.parametrize("written", WRITINGS)
def test_a_secret_is_found_in_every_usual_writing(written: str) -> None:
    text = f'before "{written}" after'
    assert SECRETS.scrub(text) == 'before "[secret API_KEY]" after'
    assert SECRETS.scrub(text.encode()) == b'before "[secret API_KEY]" after'
    assert SECRETS.found_in(text) == SECRETS.found_in(text.encode()) == ["API_KEY"]


def test_a_secret_that_is_another_one_in_other_writing_is_found_in_its_own_writings_too() -> None:
    """A password, and the header that is made of it."""
    basic = base64.b64encode(KEY.encode()).decode()
    for values in ({"KEY": KEY, "BASIC": basic}, {"BASIC": basic, "KEY": KEY}):
        secrets = Secrets(values)
        for written in (quote(basic, safe=""), base64.b64encode(basic.encode()).decode()):
            assert written != basic
            assert secrets.scrub(written) == "[secret BASIC]"
        assert secrets.scrub(KEY) == "[secret KEY]"


def test_a_secret_in_several_writings_is_named_once() -> None:
    text = " ".join(WRITINGS)
    assert SECRETS.found_in(text) == SECRETS.found_in(text.encode()) == ["API_KEY"]


@pytest.mark.parametrize("around", [("user:", ""), ("u:", ""), (":", " and more"), ("xx", "x"), ("", "x")])
def test_a_secret_is_found_within_what_base64_holds(around: tuple[str, str]) -> None:
    data = KEY.join(around).encode()
    for written in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        assert "[secret API_KEY]" in SECRETS.scrub(f"Basic {written}")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n"])
@pytest.mark.parametrize("columns", [64, 76])
def test_base64_that_is_broken_into_lines_hides_no_secret(columns: int, end: str) -> None:
    for before, encoded in product(range(80), (False, True)):
        whole = base64.b64encode(b"x" * before + KEY.encode() + b"y" * 50).decode()
        lines = end.join(whole[at : at + columns] for at in range(0, len(whole), columns))
        text = lines.encode() if encoded else lines
        clean = SECRETS.scrub(text)
        said = clean if isinstance(clean, str) else clean.decode()
        # Of the secret's own characters at most one stands before the mark, and one behind it.
        kept = "".join(re.sub(r"\[secret API_KEY\]|\\+[rn]", "", said).split())
        assert "[secret API_KEY]" in said
        assert len(kept) <= len(whole) - len(KEY.encode()) * 8 // 6 + 2


@given(st.text(min_size=8).filter(lambda text: text.isprintable()), st.binary(max_size=9), st.binary(max_size=9))
def test_base64_hides_no_secret_at_any_offset(key: str, before: bytes, after: bytes) -> None:
    clean = Secrets({"K": key}).scrub(base64.b64encode(before + key.encode() + after).decode())
    assert "[secret K]" in clean
    # At either end a character is shared with the neighbour; no whole byte of the secret is left in it.
    left = "".join(clean.split("[secret K]"))
    assert len(left.rstrip("=")) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 2


@given(st.text(min_size=8), st.text(), st.text())
def test_a_scrubbed_text_holds_no_secret(key: str, before: str, after: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        return
    secrets = Secrets({"K": key})
    clean = secrets.scrub(before + key + after)
    assert key not in clean or key in "[secret K]"


@given(st.text(alphabet=string.ascii_lowercase + " \n{}\"'", max_size=300))
def test_other_text_stays_as_it_is(text: str) -> None:
    assert SECRETS.scrub(text) == text
    assert SECRETS.scrub(text.encode()) == text.encode()
    assert SECRETS.found_in(text) == SECRETS.found_in(text.encode()) == []


def test_a_secret_that_is_no_utf8_is_known_and_found() -> None:
    latin = "p\xe4sswort-123".encode("latin-1")
    known = Secrets({"WORD": latin.decode("utf-8", "surrogateescape")})
    for written in (latin, base64.b64encode(latin), b"p%E4sswort-123", b"\xff" * 99 + latin + b"\xff" * 99):
        assert b"sswort" not in known.scrub(b"a " + written + b" b")
        assert b"[secret WORD]" in known.scrub(b"a " + written + b" b")
    assert known.scrub(f"a {latin.decode(errors='replace')} b") == "a [secret WORD] b"
    broken = b"\xff" * 20
    known.add("KEY", broken.decode("utf-8", "surrogateescape"))
    assert known.scrub(b"a " + broken) == b"a [secret KEY]"
    assert known.scrub(broken.decode(errors="replace")) == broken.decode(errors="replace")


def test_bytes_that_are_no_text_are_scrubbed_too() -> None:
    assert SECRETS.scrub(b"\xff\xfe" + KEY.encode() + b"\x80") == b"\xff\xfe[secret API_KEY]\x80"


def test_the_longer_of_two_secrets_is_named_where_one_begins_with_the_other() -> None:
    secrets = Secrets({"SHORT": "abcdefgh", "LONG": "abcdefgh-ijkl"})
    assert secrets.scrub("abcdefgh-ijkl and abcdefgh") == "[secret LONG] and [secret SHORT]"


@pytest.mark.parametrize("value", ["", "a", "1234567"])
def test_a_secret_too_short_to_be_told_from_text_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(UsageError, match="TINY") as refused:
        Secrets({"TINY": value})
    assert "8 or more" in str(refused.value)
    assert not value or f" {value} " not in str(refused.value)


@pytest.mark.parametrize("size", [15, 17, 24, 29])
def test_half_of_a_secret_is_found_where_a_text_was_cut(size: int) -> None:
    key = "sk-live-0123456789abcdefghijkl"
    secrets = Secrets({"API_KEY": key})
    for cut in (
        f"it says {key[:size]}",
        f"{key[-size:]} it says",
        f"p: …{key[-size:]} it says",
        f"it says {key[:size]}… so",
        key[:size],
        key[-size:],
    ):
        clean = secrets.scrub(cut)
        assert clean.replace("[secret API_KEY]", "") in ("", " it says", "it says ", "p: … it says", "it says … so")
        for long in (cut.encode(), cut.encode() + b"." * 1_000, b"." * 1_000 + cut.encode()):
            ends = long.startswith(key[-size:].encode()) or long.endswith(key[:size].encode())
            assert (secrets.scrub(long) != long) is ends
    assert secrets.scrub("sk-live- is how they begin") == "sk-live- is how they begin"
    assert secrets.scrub("they begin with sk-live-") == "they begin with sk-live-"


async def test_what_a_program_says_at_last_shows_no_half_of_a_secret() -> None:
    key = "sk-live-0123456789abcdefghijkl"
    script = f"import sys; sys.exit('x' * 100 + '{key}' + 'y' * {QUOTED_CHARACTERS - 20})"
    table = {"kind": "command", "argv": [sys.executable, "-c", script], "secrets": ["API_KEY"]}
    opened = open_providers({"p": table}, environment={**os.environ, "API_KEY": key})
    completion = await opened["p"].complete(Exchange(messages=(Message(role="user", content="?"),)))
    assert completion.failure is not None
    assert "…[secret API_KEY]yyy" in completion.failure.message
    assert key[-8:] not in completion.failure.message


def test_secrets_do_not_show_themselves() -> None:
    assert repr(SECRETS) == "Secrets(API_KEY)"
    assert str(SECRETS) == "Secrets(API_KEY)"


def test_every_text_of_a_json_value_is_scrubbed() -> None:
    value = {"a": [KEY, 1, None], KEY: {"b": f"x{KEY}"}}
    assert SECRETS.scrub_json(value) == {
        "a": ["[secret API_KEY]", 1, None],
        "[secret API_KEY]": {"b": "x[secret API_KEY]"},
    }


def test_a_secret_of_digits_is_found_where_it_is_a_number() -> None:
    value = {"pin": 1234567890, "more": [12345678901, 0.1234567890123], "flag": True, "other": 123456789}
    assert Secrets({"PIN": "1234567890"}).scrub_json(value) == {
        "pin": "[secret PIN]",
        "more": ["[secret PIN]1", "0.[secret PIN]123"],
        "flag": True,
        "other": 123456789,
    }


def test_a_number_that_python_does_not_write_is_left_to_whoever_checks_it() -> None:
    huge = 16**6_000
    assert Secrets({"PIN": "1234567890"}).scrub_json([huge, -huge]) == [huge, -huge]


def test_no_secrets_cost_nothing_and_change_nothing() -> None:
    nothing = Secrets()
    assert not nothing
    assert nothing.scrub(KEY) is KEY


def test_twenty_secrets_are_looked_for_in_ten_megabytes_soon() -> None:
    chance = random.Random(1)
    letters = string.ascii_letters + string.digits + "-_"
    secrets = Secrets({f"K{n}": "".join(chance.choices(letters, k=48)) for n in range(20)})
    text = base64.b64encode(os.urandom(7_500_000)).decode()
    started = time.monotonic()
    assert secrets.scrub(text) == text
    assert time.monotonic() - started < 60


FULL = Completion(
    provider="p",
    requested_model=KEY,
    returned_model=KEY,
    text=KEY,
    structured={KEY: [KEY]},
    raw=KEY.encode(),
    output=KEY.encode(),
    stderr=KEY.encode(),
    diff=KEY.encode(),
    argv=("run", KEY),
    fingerprint=KEY,
    calls=(ToolCall(id=KEY, name=KEY, arguments={KEY: [KEY]}),),
    thought={KEY: [KEY]},
    tool_events=(ToolEvent(name=KEY, arguments={"k": KEY}, result=KEY, error=KEY),),
    failure=failure("network", KEY, header={"Authorization": f"Bearer {KEY}"}),
)


def test_every_field_of_a_completion_is_scrubbed() -> None:
    empty = Completion(provider="p", requested_model="m", returned_model="m")
    untouched = {"provider", "finish", "usage", "cost", "latency_us", "refused", "exit_code"}
    filled = {field.name for field in fields(Completion) if getattr(FULL, field.name) != getattr(empty, field.name)}
    # A field that is added to Completion must be filled above, or stand among those that can hold no text.
    assert filled | untouched == {field.name for field in fields(Completion)}
    clean = scrubbed(FULL, SECRETS)
    assert "sk-live" not in repr(clean)
    assert repr(clean).count("[secret API_KEY]") == repr(FULL).count("sk-live")


def test_a_completion_without_a_secret_stays_as_it_is() -> None:
    said = says("hello", structured={"a": 1}, raw=b"hello")
    assert scrubbed(said, SECRETS) == said


async def test_a_shape_that_asked_for_the_secret_itself_is_missed() -> None:
    async def do(_: Exchange) -> Completion:
        return says(json.dumps({"key": KEY}), structured={"key": KEY})

    schema: dict[str, Any] = {"properties": {"key": {"const": KEY}}}
    completion = await Scrubbed(Doing(do), SECRETS).complete(asking(schema=schema))
    assert completion.failure is not None
    assert completion.failure.kind == "malformed_response"
    assert "sk-live" not in completion.text


def test_what_a_program_is_given_under_the_name_of_a_secret_is_one() -> None:
    environment = {
        "DEPLOY_TOKEN": "t-0123456789",
        "DB_PASSWORD": "short",
        "WORK_MODE": "ordinary words",
        "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE": "open the door",
        "ANTHROPIC_CUSTOM_HEADERS": "A: 1\nX-Key: k-9876543210",
    }
    known = Secrets()
    tables: dict[str, dict[str, Any]] = {
        "p": {"kind": "command", "argv": ["true"], "env": ["DEPLOY_TOKEN", "DB_PASSWORD", "WORK_MODE"]},
        "c": {"kind": "claude-cli", "program": sys.executable},
    }
    open_providers(tables, environment=environment, secrets=known)
    assert known.scrub("t-0123456789, short, ordinary words") == "[secret DEPLOY_TOKEN], short, ordinary words"
    assert known.scrub("open the door with k-9876543210") == (
        "[secret CLAUDE_CODE_CLIENT_KEY_PASSPHRASE] with [secret ANTHROPIC_CUSTOM_HEADERS]"
    )


def test_what_an_agent_program_is_given_of_its_vendor_is_a_secret_under_the_name_of_one() -> None:
    environment = {
        "OPENAI_ADMIN_KEY": "sk-admin-0123456789",
        "OPENAI_ORG_ID": "org-of-ours",
        "ANTHROPIC_FEDERATION_TOKEN": "t-0123456789",
        "ANTHROPIC_MODEL": "an ordinary model",
    }
    known = Secrets()
    tables = {
        "x": {"kind": "codex-cli", "program": sys.executable},
        "c": {"kind": "claude-cli", "program": sys.executable},
    }
    open_providers(tables, environment=environment, secrets=known)
    assert known.scrub("sk-admin-0123456789 of org-of-ours") == "[secret OPENAI_ADMIN_KEY] of org-of-ours"
    assert known.scrub("t-0123456789 for an ordinary model") == (
        "[secret ANTHROPIC_FEDERATION_TOKEN] for an ordinary model"
    )


@pytest.mark.parametrize("said", ["http://me:open%2fthe%20door@proxy:3128", "me:open%2fthe%20door@proxy:3128/"])
def test_the_password_of_a_proxy_that_a_program_is_given_is_a_secret(said: str) -> None:
    known = Secrets()
    tables = {"p": {"kind": "command", "argv": ["true"]}}
    open_providers(tables, environment={"HTTPS_PROXY": said, "http_proxy": "http://proxy:3128"}, secrets=known)
    assert known.scrub(said) == said.replace("open%2fthe%20door", "[secret HTTPS_PROXY]")
    assert known.scrub("open/the door") == "[secret HTTPS_PROXY]"
    assert known.scrub("http://proxy:3128") == "http://proxy:3128"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
async def test_a_proxy_that_repeats_its_password_does_not_bring_it_on_the_record(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in PASSED_ON:
        if name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, wire.url.replace("http://", "http://me:open-sesame@"))
    credentials = base64.b64encode(b"me:open-sesame").decode()
    wire.will(Refuse(status=407, body={"error": {"message": f"not with Basic {credentials} (me:open-sesame)"}}))
    table = {"kind": "openai", "base_url": "http://models.invalid/v1", "model": "m"}
    provider = open_providers({"p": table}, environment=os.environ)["p"]
    completion = await provider.complete(asking())
    await provider.close()
    assert wire.last.headers["proxy-authorization"] == f"Basic {credentials}"
    assert completion.failure is not None
    assert f"[secret {variable}]" in completion.failure.message
    for kept in (completion.failure.message, (completion.raw or b"").decode()):
        assert "open-sesame" not in kept
        assert credentials not in kept
