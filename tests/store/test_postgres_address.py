"""URLs of PostgreSQL ledgers: what they mean, and that a password in one is never shown, however badly it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.errors import UsageError
from hansard.store.postgres.address import Address


@pytest.mark.parametrize(
    ("url", "place", "conninfo"),
    [
        ("postgresql://h/d", "postgresql://h/d", "postgresql://h/d"),
        ("postgres://u:s3@h:5433/d", "postgresql://u@h:5433/d", "postgres://u:s3@h:5433/d"),
        ("postgresql://u@/d?host=/run/pg", "postgresql://u@/d?host=/run/pg", "postgresql://u@/d?host=/run/pg"),
        ("postgresql://u@h/d?schema=audit", "postgresql://u@h/d?schema=audit", "postgresql://u@h/d"),
        ("postgresql://u@h/d?schema=hansard&port=1", "postgresql://u@h/d?port=1", "postgresql://u@h/d?port=1"),
        ("postgresql://[::1]:1,b:2/d", "postgresql://[::1]:1,b:2/d", "postgresql://[::1]:1,b:2/d"),
        (
            "postgresql://u@h/d?password=s3+3&sslmode=require",
            "postgresql://u@h/d",
            "postgresql://u@h/d?password=s3+3&sslmode=require",
        ),
    ],
)
def test_a_url_is_taken_apart_and_only_libpq_gets_the_whole(url: str, place: str, conninfo: str) -> None:
    address = Address.parse(url)
    assert (address.place, address.conninfo) == (place, conninfo)
    assert "s3" not in repr(address)


def test_the_place_leads_to_the_same_ledger() -> None:
    address = Address.parse("postgresql://u:s3@h:1/d?schema=audit&connect_timeout=3&host=x")
    again = Address.parse(address.place)
    assert (again.place, again.schema, again.channel) == (address.place, "audit", "hansard_audit")


@pytest.mark.parametrize(
    ("url", "several"),
    [
        ("postgresql://a:1/d", False),
        ("postgresql://a:1,b:2/d", True),
        ("postgresql://u:x,y@/d?host=/run/a", False),
        ("postgresql://u@/d?host=/run/a,/run/b", True),
        ("postgresql://u@a%2Cb/d", True),
        ("postgresql://u@/d?hostaddr=127.0.0.1,127.0.0.2", True),
    ],
)
def test_a_url_may_name_several_servers(url: str, several: bool) -> None:
    assert Address.parse(url).alternatives is several


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sec@ret@h/d",
        "postgresql://u:sec/ret@h/d",
        "postgresql://u:sec?ret@h/d",
        "postgresql://u:sec#ret@h/d",
        "postgresql://u:5432?secret@h/d",
        "postgresql://u:5432/d?secret@h/d",
        "postgresql://u:secret%zz@h/d",
        "postgresql://u:secret%00@h/d",
        "postgresql://u:secret@h:port/d",
        "postgresql:/u:secret@h/d",
        "http://u:secret@h/d",
        "postgresql://u:secret@h/d#x",
        "u:secret",
        "",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Address.parse(url)
    assert "sec" not in str(refused.value)
    assert "ret" not in str(refused.value).replace("write", "")


@pytest.mark.parametrize("schema", ["", "Hansard", "1st", "pg_catalog", "information_schema", "a" * 49, 'x"y', "a;b"])
def test_a_schema_that_needs_quoting_or_belongs_to_the_server_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="schema="):
        Address.parse(f"postgresql://h/d?schema={schema}")


def test_two_schemas_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="one name"):
        Address.parse("postgresql://h/d?schema=a&schema=b")


@pytest.mark.parametrize(
    "patience", ["patience=", "patience=0", "patience=-1", "patience=1.5", "patience=1&patience=1"]
)
def test_a_patience_is_one_whole_number_of_seconds(patience: str) -> None:
    with pytest.raises(UsageError, match="patience="):
        Address.parse(f"postgresql://host/db?{patience}")
    assert Address.parse("postgresql://host/db?patience=7").patience_s == 7
    assert "patience" not in Address.parse("postgresql://host/db?patience=7").conninfo


def test_secrets_are_struck_from_other_peoples_messages() -> None:
    address = Address.parse("postgresql://u:p%40ss@h/d?sslpassword=other")
    assert address.clean('bad "p%40ss"\n\tor p@ss,  or other') == 'bad "***" or ***, or ***'


def parsed(url: str) -> Address | None:
    try:
        return Address.parse(url)
    except UsageError:
        return None


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_usage_error(text: str) -> None:
    for url in (text, f"postgresql://{text}", f"postgresql://u:{text}@h/d?schema=x"):
        address = parsed(url)
        if address:
            assert Address.parse(address.place).place == address.place
            assert "u:" not in address.place
