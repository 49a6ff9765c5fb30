from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger.body import LARGE_BYTES, TEXT, commitment, opens
from hansard.ledger.canonical import Malformed

SALT = bytes(range(32))


def formula(salt: bytes, media: str, body: bytes) -> bytes:
    return sha256(b"hansard-body/v1\n" + salt + sha256(f"{media}\n".encode() + body).digest()).digest()


@pytest.mark.parametrize("count", [0, 3, LARGE_BYTES - 1, LARGE_BYTES, 2 * LARGE_BYTES])
def test_a_commitment_is_the_published_formula(count: int) -> None:
    body = b"x" * count
    assert commitment(SALT, TEXT, body) == formula(SALT, TEXT, body)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_only_the_same_body_opens_a_commitment(body: bytes, other: bytes) -> None:
    committed = commitment(SALT, TEXT, body).hex()
    assert opens(committed, SALT, TEXT, body)
    assert opens(committed, SALT, TEXT, other) == (body == other)


def test_the_media_type_cannot_move_into_the_body() -> None:
    assert commitment(SALT, "a", b"b\nc") != commitment(SALT, "a\nb"[:1] + "b", b"c")


def test_equal_bodies_are_not_linkable() -> None:
    assert commitment(SALT, TEXT, b"yes") != commitment(bytes(32), TEXT, b"yes")


@pytest.mark.parametrize(
    ("salt", "media"), [(b"", TEXT), (SALT + b"x", TEXT), (SALT, ""), (SALT, "a\nb"), (SALT, "é"), (SALT, "x" * 128)]
)
def test_what_is_not_of_the_form_does_not_open(salt: bytes, media: str) -> None:
    assert not opens(formula(salt, media, b"").hex(), salt, media, b"")


def test_a_committed_text_that_is_not_hex_does_not_open() -> None:
    assert not opens("zz", SALT, TEXT, b"")


def test_a_media_type_with_a_line_end_is_refused() -> None:
    with pytest.raises(Malformed, match="B1"):
        commitment(SALT, "text/plain\nx", b"")
