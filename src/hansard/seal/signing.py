"""Ed25519 with `cryptography`, the one library of the core: signing, and a fast verifier. Knows no file and no store.

The library is imported when something is signed or checked. Without it everything else works, on unsigned logs.
"""

import importlib
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Self

from hansard.domain.value import value
from hansard.errors import MissingExtra, StoreError
from hansard.ledger.checkpoint import format_checkpoint
from hansard.ledger.ed25519 import L, is_strict
from hansard.ledger.note import Signature, VerifierKey, format_note

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def available() -> bool:
    """Whether this installation can sign."""
    try:
        importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError:
        return False
    return True


@value
class SigningKey:
    """A private key under a name. It shows its public half only."""

    verifier: VerifierKey
    private: "Ed25519PrivateKey" = field(repr=False, compare=False)

    @classmethod
    def generate(cls, name: str) -> Self:
        """A new key from the system's randomness."""
        _need_library()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls._of(name, Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, name: str, pem: bytes) -> Self:
        """The inverse of pem; StoreError for anything else than an unencrypted Ed25519 key."""
        _need_library()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            private = load_pem_private_key(pem, None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise StoreError(f"the file of key {name} holds no readable private key; bring back a good copy") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise StoreError(f"the file of key {name} holds a key that is not Ed25519; bring back a good copy")
        return cls._of(name, private)

    def pem(self) -> bytes:
        """The private key as PKCS 8 in PEM, unencrypted: for a private file and for nothing else."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, text: str) -> Signature:
        """This key's signature line for a note's text ([C2])."""
        key = self.verifier
        return Signature(name=key.name, key_id=key.key_id, blob=self.private.sign(text.encode()))

    @classmethod
    def _of(cls, name: str, private: "Ed25519PrivateKey") -> Self:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        # Not `public_bytes_raw()`, which older versions of the library lack: Debian 12 ships one of them.
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(verifier=VerifierKey.ed25519(name, public), private=private)


def sign_checkpoint(origin: str, size: int, root: bytes, keys: Iterable[SigningKey]) -> str:
    """The signed note that says: this log has this root at this size ([C1])."""
    text = format_checkpoint(origin, size, root)
    return format_note(text, [key.sign(text) for key in keys])


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """The answer of hansard.ledger.ed25519.verify, about ten times faster; False, never an error, for any bytes.

    The library is cofactorless as [C3] asks, but takes keys that are not canonical and points of low order. Those are
    refused here before it is asked, and so is S >= L, whatever the library underneath it does.
    """
    if len(public) != 32 or len(signature) != 64 or int.from_bytes(signature[32:], "little") >= L:
        return False
    # That the points are on the curve is the library's to find.
    if not (is_strict(public) and is_strict(signature[:32])):
        return False
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _need_library() -> None:
    if not available():
        raise MissingExtra("signing needs the library cryptography: pip install cryptography")
