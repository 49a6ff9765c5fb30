"""Who may use the daemon: bearer tokens with roles, kept as digests in a file of the user's own. Knows no HTTP.

The default token is made when there is none that is good, and stands in a file beside, so that programs of the same user
find it. Every other secret is shown once. A daemon that runs notices when the file changes.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, get_args

from hansard.app.views import View, moment
from hansard.domain.fields import Fields
from hansard.domain.strict_json import read_json
from hansard.domain.value import value
from hansard.errors import StoreError, UsageError, plainly
from hansard.seal import private

Role = Literal["reader", "operator", "approver"]
ROLES: tuple[Role, ...] = get_args(Role)
DEFAULT = "default"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@value
class Token:
    """One token. `until_s` is when it ends, in seconds since 1970; None where it does not."""

    name: str
    roles: tuple[Role, ...]
    digest: str
    created_s: int
    until_s: int | None = None

    @property
    def actor(self) -> str:
        """Whoever acts with it, as the record names him."""
        return f"human:{self.name}"

    def may(self, role: Role) -> bool:
        """Whoever may do something may also look."""
        return role in self.roles or role == "reader"


class Tokens:
    """The tokens of one state folder."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time, look_s: float = 0) -> None:
        self.folder, self._clock, self._look_s = folder, clock, look_s
        self._looked_s = float("-inf")
        self._file, self._plain = folder / "tokens.json", folder / "token"
        self._seen: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Token] = {}

    @classmethod
    def of(cls, state: Path, *, look_s: float = 0) -> "Tokens":
        """Those that are kept in a state folder."""
        return cls(state / "serve", look_s=look_s)

    def ensure(self) -> Path | None:
        """Make the default token where nobody could come in; gives the file that holds it, or None where none is good."""
        with self._changing() as tokens:
            if self._are_over(tokens):
                tokens[:] = [self._new(DEFAULT, ROLES, None)]
        try:
            token = self.known(self._plain.read_text("utf-8").strip())
        except (OSError, UnicodeDecodeError):
            return None
        return self._plain if token and not self.is_over(token) else None

    def known(self, secret: str) -> Token | None:
        """The token of this secret, ended or not; None when nobody has it."""
        if (now := time.monotonic()) >= self._looked_s + self._look_s:
            self._looked_s = now
            self._look()
        return self._by_digest.get(_digest(secret))

    def is_over(self, token: Token) -> bool:
        return token.until_s is not None and token.until_s <= self._clock()

    def add(self, name: str, roles: tuple[str, ...], seconds: float | None = None) -> str:
        """A new token; gives its secret, which stands nowhere afterwards."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r:.60} is no name for a token; write 1 to 40 of a-z 0-9 _ -")
        wanted = tuple(role for role in ROLES if role in roles)
        if unknown := set(roles) - set(ROLES):
            raise UsageError(f"there is no role {sorted(unknown)[0]!r:.60}; the roles are {', '.join(ROLES)}")
        if not wanted:
            raise UsageError(f"a token needs a role: {', '.join(ROLES)}")
        with self._changing() as tokens:
            if any(each.name == name for each in tokens):
                raise UsageError(f"there is a token {name!r} already; `hansard serve token rotate {name}` renews it")
            tokens.append(made := self._new(name, wanted, seconds))
        return made.secret

    def rotate(self, name: str = DEFAULT, keep_s: float = 0) -> str:
        """A new secret for a token; the old one ends now, or after a while in which both are good. Nothing is good for longer
        than it was to be."""
        now = int(self._clock())
        with self._changing() as tokens:
            old = [each for each in tokens if each.name == name and not self.is_over(each)]
            if not old:
                raise self._unknown(name, tokens)
            until = old[-1].until_s
            made = self._new(name, old[-1].roles, None if until is None else until - now)
            ends = [replace(each, until_s=_sooner(each.until_s, now + int(keep_s))) for each in old] if keep_s else []
            tokens[:] = [each for each in tokens if each.name != name] + ends + [made]
        return made.secret

    def revoke(self, name: str) -> None:
        """End a token now."""
        with self._changing() as tokens:
            if not any(each.name == name for each in tokens):
                raise self._unknown(name, tokens)
            tokens[:] = [each for each in tokens if each.name != name]

    def listed(self) -> list[View]:
        """Every token, without its secret."""
        self._look()
        return [
            {
                "name": each.name,
                "roles": list(each.roles),
                "created": moment(each.created_s * 1_000_000),
                "until": None if each.until_s is None else moment(each.until_s * 1_000_000),
            }
            for each in self._by_digest.values()
        ]

    def _are_over(self, tokens: list[Token]) -> bool:
        return all(self.is_over(each) for each in tokens)

    def _unknown(self, name: str, tokens: list[Token]) -> UsageError:
        known = ", ".join(dict.fromkeys(each.name for each in tokens)) or "none"
        return UsageError(f"there is no token {name!r:.60}; there are {known}")

    def _new(self, name: str, roles: tuple[Role, ...], seconds: float | None) -> "_Made":
        now, secret = int(self._clock()), f"hs_{secrets.token_urlsafe(32)}"
        until = None if seconds is None else now + int(seconds)
        return _Made(name=name, roles=roles, digest=_digest(secret), created_s=now, until_s=until, secret=secret)

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens, to be changed by one process at a time; written when the block ends well."""
        try:
            private.make_folder(self.folder)
            with open(os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._seen = None
                self._look()
                before = list(self._by_digest.values())
                tokens = list(before)
                yield tokens
                if tokens != before:
                    self._write(tokens, before)
        except OSError as error:
            raise StoreError(f"cannot keep tokens in {self.folder}: {error.strerror}") from error

    def _write(self, tokens: list[Token], before: list[Token]) -> None:
        """Whatever breaks off, the default token's file holds a good one: the old secret is good until the new one stands there."""
        for made in (each for each in tokens if isinstance(each, _Made) and each.name == DEFAULT):
            if not self._are_over(before):
                self._keep([*before, made])
            private.replace(self._plain, f"{made.secret}\n".encode())
        self._keep(tokens)
        if not any(each.name == DEFAULT for each in tokens):
            self._plain.unlink(missing_ok=True)

    def _keep(self, tokens: list[Token]) -> None:
        kept = [{name: value for name, value in asdict(each).items() if name != "secret"} for each in tokens]
        private.replace(self._file, f"{json.dumps({'tokens': kept}, indent=2)}\n".encode())

    def _look(self) -> None:
        """Read the file anew where it has changed."""
        try:
            self._read()
        except FileNotFoundError:
            self._seen, self._by_digest = None, {}
        except OSError as error:
            why = f"{plainly(error)}; it has to be a file of the user whom the daemon runs as"
            raise StoreError(f"{self._file} cannot be read: {why}") from error

    def _read(self) -> None:
        found = self._file.stat()
        seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        if seen == self._seen:
            return
        if found.st_mode & 0o077:
            raise StoreError(f"others may read {self._file}; run: chmod 600 {self._file}")
        try:
            tokens = _read_tokens(self._file.read_bytes())
        except UsageError as error:
            raise StoreError(f"{self._file} cannot be read: {error}; move it away, and a new one is made") from error
        self._seen, self._by_digest = seen, {each.digest: each for each in tokens}


def _read_tokens(text: bytes) -> list[Token]:
    """The tokens that a file lists. Whoever was let in by what is no token could not be told from others."""
    where = "what stands in it"
    fields = Fields(read_json(text, where=where), where)
    if not fields.has("tokens"):
        raise UsageError(f"{where} is no list of tokens")
    found = [_read_token(each) for each in fields.tables("tokens")]
    fields.done()
    return found


def _read_token(fields: Fields) -> Token:
    name, roles, digest = fields.text("name"), fields.texts("roles"), fields.text("digest")
    if not _NAME.fullmatch(name):
        raise fields.wrong("name", "1 to 40 of a-z 0-9 _ -", name)
    if not roles or not set(roles) <= set(ROLES):
        raise fields.wrong("roles", f"a list of {', '.join(ROLES)}", list(roles))
    if not _DIGEST.fullmatch(digest):
        # Somebody may have put the secret itself there.
        raise UsageError(f"{fields.where}: digest must be 64 hexadecimal digits")
    token = Token(
        name=name,
        roles=tuple(role for role in ROLES if role in roles),
        digest=digest,
        created_s=fields.count("created_s"),
        until_s=None if fields.any("until_s") is None else fields.count("until_s"),
    )
    fields.done()
    return token


@value
class _Made(Token):
    """A token whose secret is still known."""

    secret: str


def _sooner(until_s: int | None, other_s: int) -> int:
    return other_s if until_s is None else min(until_s, other_s)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
