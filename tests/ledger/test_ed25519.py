"""The verifier against RFC 8032, Wycheproof, the CCTV edge cases, and an implementation that is not ours."""

from hashlib import sha512

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.ledger import ed25519
from vectors import load

RFC_8032 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
LOW_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]
NON_CANONICAL = [
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]
SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = SIGNER.public_key().public_bytes_raw()


def case(number: int) -> tuple[bytes, bytes, bytes]:
    public, message, signature = RFC_8032[number]
    return bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature)


@pytest.mark.parametrize("number", range(len(RFC_8032)))
def test_the_signatures_of_rfc_8032_verify_and_only_as_they_are(number: int) -> None:
    public, message, signature = case(number)
    assert ed25519.verify(public, message, signature)
    assert not ed25519.verify(public, message + b"\x00", signature)
    assert not ed25519.verify(PUBLIC, message, signature)


def test_a_signature_with_any_bit_changed_is_refused() -> None:
    public, message, signature = case(1)
    for bit in range(512):
        changed = int.from_bytes(signature, "little") ^ 1 << bit
        assert not ed25519.verify(public, message, changed.to_bytes(64, "little")), bit


def test_a_second_spelling_of_s_is_refused() -> None:
    public, message, signature = case(0)
    s = int.from_bytes(signature[32:], "little")
    assert s < ed25519.L
    assert not ed25519.verify(public, message, signature[:32] + (s + ed25519.L).to_bytes(32, "little"))


def scalar() -> int:
    """The number behind SIGNER's key: [scalar]B is PUBLIC."""
    digest = bytearray(sha512(bytes(range(32))).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    return int.from_bytes(digest, "little")


def test_a_key_of_low_order_or_in_a_second_spelling_is_refused_though_the_equation_holds() -> None:
    # With A of low order, R = [s]B and S = s satisfy the equation whenever the order of A divides k: one time in eight.
    signature = PUBLIC + (scalar() % ed25519.L).to_bytes(32, "little")
    for point in LOW_ORDER + NON_CANONICAL:
        for number in range(64):
            assert not ed25519.verify(bytes.fromhex(point), b"%d" % number, signature), point


def test_an_r_of_low_order_or_in_a_second_spelling_is_refused_though_the_equation_holds() -> None:
    # S = k * scalar satisfies the equation for R = the neutral point, in whatever spelling.
    for point in LOW_ORDER + NON_CANONICAL:
        r = bytes.fromhex(point)
        k = int.from_bytes(sha512(r + PUBLIC + b"message").digest(), "little") % ed25519.L
        s = k * scalar() % ed25519.L
        assert not ed25519.verify(PUBLIC, b"message", r + s.to_bytes(32, "little")), point


def test_wycheproof_agrees_in_all_151_cases() -> None:
    verdicts = [
        (test["tcId"], ed25519.verify(key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"])), test["result"])
        for group in load("wycheproof/testvectors_v1/ed25519_test.json")["testGroups"]
        for key in [bytes.fromhex(group["publicKey"]["pk"])]
        for test in group["tests"]
    ]
    assert len(verdicts) == 151
    assert [number for number, found, result in verdicts if found != (result == "valid")] == []


def test_cctv_edge_cases_fall_as_the_rules_say() -> None:
    # low_order_residue is what a cofactorless equation refuses; a low-order component that cancels out is let pass.
    refused = {"low_order_A", "low_order_R", "non_canonical_A", "non_canonical_R", "low_order_residue"}
    cases = load("cctv-ed25519/ed25519/ed25519vectors.json")
    assert len(cases) == 914
    accepted = 0
    for each in cases:
        found = ed25519.verify(bytes.fromhex(each["key"]), each["msg"].encode(), bytes.fromhex(each["sig"]))
        assert found == refused.isdisjoint(each["flags"] or ()), each["number"]
        accepted += found
    assert accepted == 43


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_what_another_implementation_signs_verifies(seed: bytes, message: bytes) -> None:
    signer = Ed25519PrivateKey.from_private_bytes(seed)
    public = signer.public_key().public_bytes_raw()
    signature = signer.sign(message)
    assert ed25519.verify(public, message, signature)
    assert not ed25519.verify(public, message + b"!", signature)


@settings(max_examples=200)
@given(st.data())
def test_a_changed_signature_gets_the_verdict_of_another_implementation(data: st.DataObject) -> None:
    message = data.draw(st.binary(max_size=20))
    blob = bytearray(PUBLIC + SIGNER.sign(message))
    for at in data.draw(st.lists(st.integers(min_value=0, max_value=95), max_size=2)):
        blob[at] ^= data.draw(st.integers(min_value=0, max_value=255))
    public, signature = bytes(blob[:32]), bytes(blob[32:])
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        theirs = True
    except (InvalidSignature, ValueError):
        theirs = False
    assert ed25519.verify(public, message, signature) == theirs


@settings(max_examples=300)
@given(
    st.binary(max_size=40) | st.binary(min_size=32, max_size=32) | st.just(PUBLIC),
    st.binary(max_size=20),
    st.binary(max_size=70) | st.binary(min_size=64, max_size=64),
)
def test_any_bytes_get_an_answer_and_it_is_no(public: bytes, message: bytes, signature: bytes) -> None:
    assert ed25519.verify(public, message, signature) is False
