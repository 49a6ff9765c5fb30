"""Claims in a small file of their own ([J5]). Coordination, not record.

Each line says how some claims stand, and the newest line about a claim counts. A change is a line behind the others; from time
to time one line says it all. There is a claim for each run that was ever driven, so the oldest of those that nobody holds are
forgotten then, and the highest epoch that any of them had stays: whatever is not known begins above that, so no epoch comes
twice for a name, and who was replaced stays replaced.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hansard.domain.value import value
from hansard.errors import Fenced, StoreError, Unavailable
from hansard.ledger.canonical import Malformed, encode, parse
from hansard.store.base import Claim
from hansard.store.holder import Holder, why_free
from hansard.store.jsonl.files import LF, extend, replace

CHANGES = 1_000
"""Where there are so many changes, and more than claims, the file is written anew."""
KEPT = 1_000
"""So many claims that nobody holds are kept by their names."""
FORGOTTEN = ""
"""No claim has this name: in its place stands the highest epoch of those that were forgotten."""


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
        return epoch_in(self._held, name)

    def claim(self, name: str, lease_s: float) -> Claim:
        held = self._held.get(name)
        # One that was forgotten may be called new; who drives a run knows better.
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
        ours = {claim.name: self._held[claim.name] for claim in claims if self._is_known(claim)}
        if ours:
            self._change(
                {name: Held(epoch=held.epoch, holder=held.holder, until_us=until_us) for name, held in ours.items()}
            )

    def release(self, claim: Claim) -> None:
        if self._is_known(claim):
            self._change({claim.name: Held(epoch=claim.epoch, holder="", until_us=0)})

    def _is_known(self, claim: Claim) -> bool:
        held = self._held.get(claim.name)
        return held is not None and held.epoch == claim.epoch

    def _until(self, lease_s: float) -> int:
        return self._now_us() + int(lease_s * 1_000_000)

    def _change(self, changed: dict[str, Held]) -> None:
        changes, self._changes = self._changes, None
        try:
            if changes is None or changes > max(CHANGES, len(self._held)) or not self._path.exists():
                held = _without_the_oldest({**self._held, **changed})
                replace(self._path, [_line(held)])
                self._held, self._changes = held, 0
                return
            extend(self._path, _line(changed))
            self._changes = changes + len(changed)
        except OSError as error:
            names = ", ".join(changed)
            raise Unavailable(
                f"cannot write {self._path}: {error.strerror}; the claim on {names} is as before"
            ) from error
        for name, each in changed.items():
            # The one that changed last comes last.
            self._held.pop(name, None)
            self._held[name] = each


def epoch_in(claims: Mapping[str, Held], name: str) -> int:
    """A claim's newest epoch, where it is not known by name the highest that it may have had; 0 where there was none."""
    held = claims.get(name) or claims.get(FORGOTTEN)
    return held.epoch if held else 0


def _without_the_oldest(claims: dict[str, Held]) -> dict[str, Held]:
    free = [name for name, each in claims.items() if not each.holder and name != FORGOTTEN]
    gone = frozenset(free[:-KEPT])
    if not gone:
        return claims
    highest = max(epoch_in(claims, FORGOTTEN), *(claims[name].epoch for name in gone))
    left = {name: each for name, each in claims.items() if name not in gone}
    return left | {FORGOTTEN: Held(epoch=highest, holder="", until_us=0)}


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
