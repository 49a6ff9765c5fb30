from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger.body import TEXT, commitment, opens
from hansard.ledger.canonical import Malformed

SALT = bytes(range(32))


def test_a_commitment_is_the_published_formula() -> None:
    inner = sha256(b"text/plain; charset=utf-8\nyes").digest()
    assert commitment(SALT, TEXT, b"yes") == sha256(b"hansard-body/v1\n" + SALT + inner).digest()


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
    assert not opens("00" * 32, salt, media, b"")


def test_a_committed_text_that_is_not_hex_does_not_open() -> None:
    assert not opens("zz", SALT, TEXT, b"")


def test_a_media_type_with_a_line_end_is_refused() -> None:
    with pytest.raises(Malformed, match="B1"):
        commitment(SALT, "text/plain\nx", b"")
