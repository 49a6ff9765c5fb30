import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from hansard.errors import StoreError
from hansard.ledger import ed25519
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.note import Check, open_note, parse_note
from hansard.seal import signing
from hansard.seal.signing import SigningKey, sign_checkpoint
from vectors import load

ORIGIN = "log.example/signing"
IDENTITY = SigningKey.generate(ORIGIN)
EPOCH = SigningKey.generate(f"{ORIGIN}/epoch/0")
KEYS = (IDENTITY.verifier, EPOCH.verifier)
ROOT = bytes(range(32))
NOTE = sign_checkpoint(ORIGIN, 7, ROOT, (IDENTITY, EPOCH))
SOURCE = Path(__file__).parents[2] / "src"

# The y of the points of low order, canonical or not, each with both signs.
_LOW = (0, 1, ed25519.P - 1, ed25519.P, ed25519.P + 1, ed25519._ORDER_8_Y, ed25519.P - ed25519._ORDER_8_Y)
LOW_ORDER = [(y | sign << 255).to_bytes(32, "little") for y in _LOW for sign in (0, 1)]


def test_a_checkpoint_says_origin_size_and_root() -> None:
    said = parse_checkpoint(parse_note(NOTE).text)
    assert (said.origin, said.size, said.root, said.extensions) == (ORIGIN, 7, ROOT, ())


@pytest.mark.parametrize("check", [ed25519.verify, signing.verify])
def test_both_signatures_of_a_checkpoint_verify(check: Check) -> None:
    assert open_note(parse_note(NOTE), KEYS, check).verified == KEYS


def test_the_library_itself_accepts_both_signatures() -> None:
    note = parse_note(NOTE)
    for signature, key in zip(note.signatures, KEYS, strict=True):
        public = Ed25519PublicKey.from_public_bytes(key.public)
        public.verify(signature.blob, note.text.encode())
        with pytest.raises(InvalidSignature):
            public.verify(signature.blob, note.text.encode() + b"\n")


@pytest.mark.parametrize("check", [ed25519.verify, signing.verify])
def test_a_checkpoint_of_another_size_is_rejected(check: Check) -> None:
    with pytest.raises(Malformed, match="does not hold"):
        open_note(parse_note(NOTE.replace("\n7\n", "\n8\n")), KEYS, check)


def agree(public: bytes, message: bytes, signature: bytes) -> bool:
    """What both verifiers say; they must say the same."""
    fast = signing.verify(public, message, signature)
    assert fast == ed25519.verify(public, message, signature), (public.hex(), message.hex(), signature.hex())
    return fast


@given(st.binary(max_size=80), st.integers(0, 511))
def test_the_fast_verifier_agrees_with_the_standard_library_one_on_any_flipped_bit(message: bytes, bit: int) -> None:
    blob = IDENTITY.private.sign(message)
    flipped = (int.from_bytes(blob, "little") ^ 1 << bit).to_bytes(64, "little")
    assert agree(IDENTITY.verifier.public, message, blob)
    assert not agree(IDENTITY.verifier.public, message, flipped)


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_points_of_low_order_are_refused_although_the_library_takes_some(point: bytes) -> None:
    # With A of order 1 the equation holds for R = [S]B whatever was signed; R of low order goes with S = 0.
    blob = IDENTITY.private.sign(b"x")
    assert not agree(point, b"x", blob)
    assert not agree(IDENTITY.verifier.public, b"x", point + blob[32:])
    assert not agree(point, b"x", point + bytes(32))
    neutral = (1).to_bytes(32, "little")
    assert not agree(point, b"x", neutral + bytes(32))


def test_the_library_alone_would_take_a_forgery_that_holds_for_every_message() -> None:
    neutral = (1).to_bytes(32, "little")
    forged = neutral + bytes(32)
    Ed25519PublicKey.from_public_bytes(neutral).verify(forged, b"anything")
    assert not signing.verify(neutral, b"anything", forged)


def test_a_scalar_beyond_the_order_is_refused() -> None:
    blob = IDENTITY.private.sign(b"x")
    grown = int.from_bytes(blob[32:], "little") + ed25519.L
    assert not agree(IDENTITY.verifier.public, b"x", blob[:32] + grown.to_bytes(32, "little"))


@pytest.mark.parametrize(
    ("public", "blob"), [(b"", b""), (bytes(31), bytes(64)), (bytes(32), bytes(63)), (b"\xff" * 32, b"\xff" * 64)]
)
def test_bytes_that_are_no_signature_are_refused_without_an_error(public: bytes, blob: bytes) -> None:
    assert not agree(public, b"", blob)


def test_the_verifiers_agree_on_the_published_edge_cases() -> None:
    cases = load("cctv-ed25519/ed25519/ed25519vectors.json")
    answers = {agree(bytes.fromhex(case["key"]), case["msg"].encode(), bytes.fromhex(case["sig"])) for case in cases}
    assert answers == {True, False}


def test_a_key_of_another_kind_is_refused() -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(StoreError, match="not Ed25519"):
        SigningKey.from_pem(ORIGIN, pem)


WITHOUT_THE_LIBRARY = """
import sys, pathlib
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "cryptography":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
from hansard.errors import MissingExtra
from hansard.seal.genesis import found
from hansard.seal.keys import KeyRing
import hansard.record.sealer
genesis, ring = found(lambda nonce: pathlib.Path(sys.argv[1], nonce), None, "test")
assert (genesis.custody, genesis.identity, genesis.epoch_key, ring) == ("none", None, None, None), genesis
assert not list(pathlib.Path(sys.argv[1]).iterdir())
try:
    KeyRing.create(pathlib.Path(sys.argv[1], "keys"), "log.example/x")
except MissingExtra as error:
    print(error)
"""


def test_without_the_library_a_log_is_founded_unsigned_and_signing_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_LIBRARY, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "pip install cryptography" in done.stdout


class OldPrivateKey:
    """A key of a `cryptography` of before 40, which had no `public_bytes_raw`."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def public_key(self) -> object:
        class OldPublicKey:
            public_bytes = self._key.public_key().public_bytes

        return OldPublicKey()


def test_an_old_library_is_good_enough_to_make_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Ed25519PrivateKey.generate()
    monkeypatch.setattr(Ed25519PrivateKey, "generate", lambda: OldPrivateKey(key))
    assert SigningKey.generate(ORIGIN).verifier.public == key.public_key().public_bytes_raw()
