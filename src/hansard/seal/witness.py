"""A witness: one key, the logs that it knows, and of each log the newest checkpoint that it cosigned ([W1]-[W4]).

Its folder is all that it has: `witness.key`, `vkey`, and for each log a folder with `key` and `checkpoint`. What it cosigns
is durable before anybody hears of it, and whoever asks at the same time waits.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shlex import quote

from hansard.domain.value import value
from hansard.errors import StoreError, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import Checkpoint, parse_checkpoint
from hansard.ledger.entry import HASH
from hansard.ledger.note import (
    ED25519,
    Note,
    Signature,
    VerifierKey,
    check_name,
    cosignature_message,
    format_note,
    parse_note,
)
from hansard.ledger.witness import Refused, check_request, parse_request
from hansard.seal import private
from hansard.seal.signing import SigningKey, verify


@value
class Watched:
    """A log that a witness knows: whose signature counts, and the newest note, cosigned; None before the first."""

    origin: str
    key: VerifierKey
    newest: str | None = None
    checkpoint: Checkpoint | None = None
    """What the newest note says."""

    @property
    def id(self) -> str:
        return log_id(self.origin)


def log_id(origin: str) -> str:
    """A log's name in paths."""
    return sha256(origin.encode()).hexdigest()


class Witness:
    """Cosigns for the logs in its folder. Safe between threads and between processes."""

    def __init__(self, folder: Path, signing: SigningKey) -> None:
        self.folder = folder
        self._signing = signing
        self.key = VerifierKey.cosigner(signing.verifier.name, signing.verifier.public)
        """What others check its cosignatures with."""

    @classmethod
    def open(cls, folder: Path, name: str | None = None) -> "Witness":
        """The witness of this folder; a new one under this name where there is none yet."""
        known = private.read(folder / "vkey") if folder.is_dir() else None
        if known is None and name is None:
            how = f"hansard witness --name NAME --folder {quote(str(folder))}"
            raise UsageError(f"there is no witness in {folder} yet; give it a name: {how}")
        if name is not None:
            _check_name(name)
        private.make_folder(folder)
        with _locked(folder):
            known = private.read(folder / "vkey")
            key = None if known is None else _parsed_key(known, folder / "vkey")
            witness = cls(folder, cls._signing_key(folder, key.name if key else name or "", make=key is None))
            if key is None:
                private.replace(folder / "vkey", f"{witness.key.text()}\n".encode())
            elif key != witness.key:
                raise StoreError(f"{folder / 'vkey'} does not belong to the key beside it; bring back a good copy")
        if name is not None and name != witness.key.name:
            raise UsageError(
                f"the witness in {folder} is called {witness.key.name}; leave out --name, or choose another folder"
            )
        return witness

    @staticmethod
    def _signing_key(folder: Path, name: str, *, make: bool) -> SigningKey:
        pem = private.read(folder / "witness.key")
        if pem is not None:
            return SigningKey.from_pem(name, pem)
        if not make:
            raise StoreError(f"the key of {name} is not at {folder / 'witness.key'}; bring the file back")
        made = SigningKey.generate(name)
        # Whole or not there: half a key, left by a crash, would be taken for one that was spoilt.
        private.replace(folder / "witness.key", made.pem())
        return made

    def trust(self, key: VerifierKey) -> Watched:
        """Know a log by its identity key, whose name is the log's origin. Another key for the same log is refused."""
        if key.algorithm != ED25519:
            raise UsageError(f"{key.name} is a witness's key; name the identity key of a log: hansard ledger pin")
        with _locked(self.folder):
            found = self.watched(key.name)
            if found is None:
                folder = self._folder(log_id(key.name))
                private.make_folder(folder)
                private.replace(folder / "key", f"{key.text()}\n".encode())
                return Watched(origin=key.name, key=key)
        if found.key != key:
            raise UsageError(
                f"{key.name} is known here by another key; two logs of one name cannot both be cosigned. "
                f"If the first is given up, remove {self._folder(found.id)}"
            )
        return found

    def logs(self) -> list[Watched]:
        """Every log that it knows, by origin."""
        folder = self.folder / "logs"
        names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
        return sorted((each for name in names if (each := self.log(name))), key=lambda each: each.origin)

    def watched(self, origin: str) -> Watched | None:
        return self.log(log_id(origin))

    def log(self, id: str) -> Watched | None:
        """The log of this id; None where it is not known."""
        folder = self._folder(id)
        known = private.read(folder / "key") if HASH.fullmatch(id) and folder.is_dir() else None
        if known is None:
            return None
        key = _parsed_key(known, folder / "key")
        data = private.read(folder / "checkpoint")
        if data is None:
            return Watched(origin=key.name, key=key)
        newest, checkpoint = _parsed_checkpoint(data, folder / "checkpoint", key.name)
        return Watched(origin=key.name, key=key, newest=newest, checkpoint=checkpoint)

    def cosign(self, data: bytes, now_s: Callable[[], int]) -> str:
        """The signature line for an add-checkpoint body; Refused where the rules forbid it.

        The clock is asked when nobody else can cosign any more: a later time never goes with a smaller size.
        """
        try:
            request = parse_request(data)
        except Malformed as error:
            raise Refused(400, f"not an add-checkpoint body: {error}") from error
        with _locked(self.folder):
            known = self.watched(request.checkpoint.origin)
            if known is None:
                raise Refused(404, f"the log {request.checkpoint.origin!r:.200} is not known here")
            check_request(request, (known.key,), known.checkpoint, verify)
            made = self._signature(request.note.text, now_s())
            try:
                note = format_note(request.note.text, (_by(known.key, request.note), made))
            except Malformed as error:
                raise Refused(400, f"cosigned, it would be no note any more: {error}") from error
            private.replace(self._folder(known.id) / "checkpoint", note.encode())
        return made.line()

    def _signature(self, text: str, now_s: int) -> Signature:
        signed = self._signing.private.sign(cosignature_message(text, now_s))
        return Signature(name=self.key.name, key_id=self.key.key_id, blob=now_s.to_bytes(8, "big") + signed)

    def _folder(self, id: str) -> Path:
        return self.folder / "logs" / id


def _by(key: VerifierKey, note: Note) -> Signature:
    """What this key has signed, once: nothing that was put beside it is kept."""
    return next(each for each in note.signatures if (each.name, each.key_id) == (key.name, key.key_id))


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except Malformed as error:
        raise UsageError(f"a witness cannot be called {name[:80]!r}: {error}") from error


def _parsed_key(data: bytes, path: Path) -> VerifierKey:
    try:
        return VerifierKey.parse(data.decode().strip())
    except (Malformed, UnicodeDecodeError) as error:
        raise StoreError(f"{path} holds no verifier key: {error}; bring back a good copy") from error


def _parsed_checkpoint(data: bytes, path: Path, origin: str) -> tuple[str, Checkpoint]:
    """What was cosigned last. A file that does not say it, an empty one too, is never taken for `nothing yet`."""
    try:
        note = data.decode()
        found = parse_checkpoint(parse_note(note).text)
        if found.origin != origin:
            raise Malformed(f"it is of the log {found.origin!r:.80}")
    except (Malformed, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} does not hold what was cosigned last for {origin[:80]}: {error}; bring back a good copy"
        ) from error
    return note, found


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with private.lock_file(folder / "lock") as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
