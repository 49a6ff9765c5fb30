"""Asking witnesses: each gets the newest checkpoint with the proof that it extends what it saw, and its word goes on the record.

No run waits for a witness. What one of them contradicts is told loudly: the log that it saw was another one.
"""

import http.client
import time
from collections.abc import Mapping
from typing import Any, Self

from hansard.app.opened import Opened
from hansard.app.posting import Answer, check_url, post
from hansard.app.views import View
from hansard.domain.custody import AnchorRecorded
from hansard.domain.fact import Body
from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import ProviderError, StoreError, UsageError, plainly
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import parse_checkpoint, parse_decimal
from hansard.ledger.note import COSIGNATURE_V1, VerifierKey, format_note, open_note, parse_note, parse_signature
from hansard.record.receipts import make_consistency
from hansard.record.recorder import Step, record_now
from hansard.record.sealed import newest_signed
from hansard.seal.witness import log_id
from hansard.store.base import Store, StoredCheckpoint

ACTOR = "sealer"
TIMEOUT_S = 20.0
MOST_BYTES = 64 * 1024
MOST_TRIES = 5
DAY_S = 86_400
MICRO = 1_000_000
_HEADERS = {"content-type": "text/plain; charset=utf-8", "user-agent": "hansard"}


@value
class Asked:
    """A witness of somebody else: where it listens, and the key that its word is checked with."""

    url: str
    key: VerifierKey

    @classmethod
    def of(cls, url: str, key: str, where: str) -> Self:
        check_url(url, where)
        if "?" in url or "#" in url:
            raise UsageError(f"{where} {url!r:.100}: a witness is asked below its URL; write it without ? and #")
        try:
            parsed = VerifierKey.parse(key.strip())
        except Malformed as error:
            raise UsageError(f"{where}: {error}") from error
        if parsed.algorithm != COSIGNATURE_V1:
            raise UsageError(
                f"{where}: the key of {parsed.name} signs logs and cosigns nothing; ask the witness for its own"
            )
        return cls(url=url.rstrip("/"), key=parsed)


def configured(tables: Mapping[str, Any]) -> dict[str, Asked]:
    """The witnesses of hansard.toml, by name."""
    found = {}
    for name, table in tables.items():
        fields = Fields(table, f"[witnesses.{name}]")
        found[name] = Asked.of(fields.text("url"), fields.text("key"), f"[witnesses.{name}]")
        fields.done()
    return found


@value
class Cosigned:
    """A checkpoint with the word of a witness in it, and when that was given."""

    by: str
    size: int
    root: str
    time_s: int
    note: str

    def fact(self) -> AnchorRecorded:
        return AnchorRecorded(
            by="witness", size=self.size, root=self.root, time_us=self.time_s * MICRO, token=Body.text(self.note)
        )


def shown(opened: Opened) -> StoredCheckpoint:
    """The log as it stands, signed: the same for every witness that is asked now, so that one receipt can carry all their words."""
    stored = opened.sealer.checkpoint() if opened.sealer else newest(opened.store)
    if stored is None:
        raise UsageError(f"{opened.store.place} has no checkpoint that a witness could see: {opened.custody}")
    return stored


def have_cosigned(opened: Opened, witness: Asked, stored: StoredCheckpoint) -> View:
    """Have a checkpoint cosigned, and record that it was; for a process that writes nothing else."""
    found = ask(opened.store, witness, stored)
    [written] = record_now(opened.store, [Step(found.fact(), ACTOR)], sealing=opened.extending())
    return {
        "witness": found.by,
        "size": found.size,
        "root": found.root,
        "time_s": found.time_s,
        "entry": written.seq,
        "checkpoint": found.note,
    }


def newest(store: Store) -> StoredCheckpoint | None:
    signed = newest_signed(store)
    return StoredCheckpoint(size=signed.checkpoint.size, note=signed.note) if signed else None


def ask(store: Store, witness: Asked, stored: StoredCheckpoint) -> Cosigned:
    """Have a checkpoint cosigned: once to hear which size the witness saw last, and once with the proof from there.

    Somebody else who writes here may ask at the same time: then from what the witness has seen meanwhile, and of a newer
    checkpoint where that is beyond this one.
    """
    old = 0
    for _ in range(MOST_TRIES):
        answer = _post(witness, make_consistency(store, old, stored))
        if answer.status != http.client.CONFLICT:
            break
        seen = _size(answer)
        if seen is None and old < stored.size:
            raise ProviderError(f"{witness.key.name} does not say which size it saw: {_said(answer)}")
        if seen is None or seen == old:
            # From where it stands there is no way for it to this checkpoint.
            raise _other_log(store, witness, stored, answer)
        if seen > stored.size:
            stored = _reaching(store, witness, seen)
        old = seen
    match answer.status:
        case 200:
            return _cosigned(witness, stored, answer.data)
        case 409:
            raise ProviderError(f"{witness.key.name} names another size each time that it is asked, at last {seen}")
        case 422:
            raise _other_log(store, witness, stored, answer)
        case 404:
            raise UsageError(
                f"{witness.key.name} does not know this log; its keeper adds it with: hansard witness trust PIN"
            )
        case status:
            raise ProviderError(f"{witness.key.name} does not cosign: HTTP {status}: {_said(answer)}")


def _reaching(store: Store, witness: Asked, seen: int) -> StoredCheckpoint:
    """The newest checkpoint, where it has this size at least; StoreError tells that the log once was longer."""
    found = newest(store)
    if found is not None and found.size >= seen:
        return found
    raise StoreError(
        f"{witness.key.name} has seen {seen} entries of this log, and {store.place} has {found.size if found else 0} that "
        f"are signed: it was rolled back or cut. Bring back the newer one; nothing was recorded"
    )


def _other_log(store: Store, witness: Asked, stored: StoredCheckpoint, answer: Answer) -> StoreError:
    return StoreError(
        f"{witness.key.name} has seen another log than {store.place} under the same name: this one was rewritten or "
        f"forked, or two copies of it were extended ({_said(answer)}). Nothing was recorded; verify it against the "
        f"checkpoint that the witness holds ({_shown(witness, stored)})"
    )


def _said(answer: Answer) -> str:
    """What a stranger has answered, for a message: nothing of it may steer a terminal."""
    return _harmless(answer.data.decode("utf-8", "replace").strip())


def _harmless(text: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:200])


def _post(witness: Asked, body: str) -> Answer:
    try:
        return post(
            f"{witness.url}/add-checkpoint", body.encode(), _HEADERS, timeout_s=TIMEOUT_S, most_bytes=MOST_BYTES
        )
    except (OSError, http.client.HTTPException) as error:
        raise ProviderError(
            f"{witness.key.name} does not answer at {witness.url}: {_harmless(plainly(error)) or type(error).__name__}"
        ) from error


def _size(answer: Answer) -> int | None:
    try:
        return parse_decimal(answer.data.decode("ascii").removesuffix("\n"), "the size")
    except (Malformed, UnicodeDecodeError):
        return None


def _cosigned(witness: Asked, stored: StoredCheckpoint, lines: bytes) -> Cosigned:
    """The checkpoint with the cosignature; what else the witness may have sent is left out."""
    mine, key = parse_note(stored.note), witness.key
    try:
        said = [parse_signature(line) for line in lines.decode().removesuffix("\n").split("\n")]
        own = [each for each in said if (each.name, each.key_id) == (key.name, key.key_id)]
        note = format_note(mine.text, (*mine.signatures, *own[:1]))
        times = dict(open_note(parse_note(note), [key]).cosigned)
        if key not in times:
            raise Malformed("it is not signed by the key that is known here")
        if times[key] > time.time() + DAY_S:
            raise Malformed(f"it says that it was given {times[key]} s after 1970, which is not yet")
    except (Malformed, UnicodeDecodeError) as error:
        raise ProviderError(f"what {key.name} has sent is no cosignature of this checkpoint: {error}") from error
    root = parse_checkpoint(mine.text).root.hex()
    return Cosigned(by=key.name, size=stored.size, root=root, time_s=times[key], note=note)


def _shown(witness: Asked, stored: StoredCheckpoint) -> str:
    """Where a witness of ours shows the newest that it cosigned for this log."""
    origin = parse_checkpoint(parse_note(stored.note).text).origin
    return f"{witness.url}/logs/{log_id(origin)}/checkpoint"
