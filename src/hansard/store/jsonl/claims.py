"""Claims in a small file of their own ([J5]). Coordination, not record.

Each line says how some claims stand, and the newest line about a claim counts. A change is a line behind the others, since
there is a claim for each run that was ever driven; from time to time one line says it all.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from hansard.domain.value import value
from hansard.errors import Fenced, StoreError, Unavailable
from hansard.ledger.canonical import Malformed, encode, parse
from hansard.store.base import Claim
from hansard.store.holder import Holder, why_free
from hansard.store.jsonl.files import LF, extend, replace

CHANGES = 1_000
"""Where there are so many changes, and more than claims, the file is written anew."""


@value
class Held:
    """The newest state of one claim; no holder: it was released."""

    epoch: int
    holder: str
    until_us: int


class Claims:
    """All claims of one ledger, for its one writer."""

    def __init__(self, path: Path, now_us: Callable[[], int]) -> None:
        self._path = path
        self._now_us = now_us
        self._held = read_claims(path)
        # The first change writes the file anew: whoever wrote it before may have been killed within a line.
        self._changes: int | None = None

    def epoch(self, name: str) -> int:
        held = self._held.get(name)
        return held.epoch if held else 0

    def claim(self, name: str, lease_s: float) -> Claim:
        held = self._held.get(name)
        because = why_free(name, held.epoch, held.holder, held.until_us - self._now_us()) if held else "new"
        epoch = self.epoch(name) + 1
        self._change({name: Held(epoch=epoch, holder=Holder.here().text(), until_us=self._until(lease_s))})
        return Claim(name=name, epoch=epoch, because=because)

    def renew(self, claim: Claim, lease_s: float) -> None:
        held = self._held.get(claim.name)
        if held is None or held.epoch != claim.epoch:
            raise Fenced(f"{claim.name}: epoch {claim.epoch} is over, {self.epoch(claim.name)} holds it now")
        self.renew_all([claim], lease_s)

    def renew_all(self, claims: Sequence[Claim], lease_s: float) -> None:
        until_us = self._until(lease_s)
        ours = {claim.name: self._held[claim.name] for claim in claims if self.epoch(claim.name) == claim.epoch}
        if ours:
            self._change(
                {name: Held(epoch=held.epoch, holder=held.holder, until_us=until_us) for name, held in ours.items()}
            )

    def release(self, claim: Claim) -> None:
        if self.epoch(claim.name) == claim.epoch:
            self._change({claim.name: Held(epoch=claim.epoch, holder="", until_us=0)})

    def _until(self, lease_s: float) -> int:
        return self._now_us() + int(lease_s * 1_000_000)

    def _change(self, changed: dict[str, Held]) -> None:
        changes, self._changes = self._changes, None
        try:
            if changes is None or changes > max(CHANGES, len(self._held)) or not self._path.exists():
                replace(self._path, [_line({**self._held, **changed})])
                self._changes = 0
            else:
                extend(self._path, _line(changed))
                self._changes = changes + len(changed)
        except OSError as error:
            names = ", ".join(changed)
            raise Unavailable(
                f"cannot write {self._path}: {error.strerror}; the claim on {names} is as before"
            ) from error
        self._held |= changed


def _line(claims: dict[str, Held]) -> bytes:
    return encode({n: {"epoch": h.epoch, "holder": h.holder, "until_us": h.until_us} for n, h in claims.items()}) + LF


def read_claims(path: Path) -> dict[str, Held]:
    """The claims as they stand on the disk; none when there is no file yet."""
    try:
        *lines, unfinished = path.read_bytes().split(LF)
        return {
            name: Held(epoch=int(each["epoch"]), holder=str(each["holder"]), until_us=int(each["until_us"]))
            for line in lines or [unfinished]
            for name, each in parse(line).items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    except (Malformed, AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{path} is damaged ({error}); it is no part of the record: delete it when no other process works on this ledger"
        ) from error
