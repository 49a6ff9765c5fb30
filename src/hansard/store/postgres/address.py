"""Where a PostgreSQL ledger lies: its URL, taken apart so that no message ever shows a password. Opens nothing.

libpq quotes pieces of a URL that it cannot read. Whatever could make it cut a password in the wrong place, above all an @
behind the one that ends the password, is therefore refused here, without quoting anything.
"""

import re
from dataclasses import field
from typing import Self
from urllib.parse import quote, unquote

from hansard.domain.value import value
from hansard.errors import UsageError

DEFAULT_SCHEMA = "hansard"
DEFAULT_PATIENCE_S = 30
FORM = "postgresql://user@host:port/database?schema=hansard"

_URL = re.compile(
    r"(?P<front>postgres(?:ql)?://(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<hosts>[^@/?#]*)(?:/(?P<database>[^@/?#]*))?)(?:\?(?P<query>[^@#]*))?"
)
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::[0-9]*)?")
_SCHEMA = re.compile(r"(?!pg_|information_schema\Z)[a-z_][a-z0-9_]{0,47}")
_PATIENCE = re.compile("[1-9][0-9]{0,5}")
_SECRET = ("password", "sslpassword")
_HOSTS = ("host", "hostaddr")
_SHOWN = ("user", *_HOSTS, "port", "dbname")


@value
class Address:
    """A server, a database and a schema, and how long the server may be silent. `conninfo` is for libpq alone: it holds the password."""

    conninfo: str = field(repr=False)
    options: frozenset[str]
    schema: str
    patience_s: int
    alternatives: bool
    """Whether it names several servers: which of them may be written to changes."""
    place: str
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL; UsageError, which quotes nothing of it, when it is not one."""
        found = _URL.fullmatch(url)
        if not found or not all(_HOST.fullmatch(host) for host in found["hosts"].split(",")):
            raise UsageError(
                f"not a PostgreSQL URL: write {FORM}, with @ / ? # % in names and passwords as %40 %2F %3F %23 %25"
            )
        if re.search("%(?![0-9A-Fa-f]{2})|%00", url):
            raise UsageError(
                "a % in a PostgreSQL URL begins a percent-encoded character; write %25 for the sign itself"
            )
        options = [pair.partition("=")[::2] for pair in (found["query"] or "").split("&") if pair]
        schemas = [value for name, value in options if name == "schema"] or [DEFAULT_SCHEMA]
        if len(schemas) > 1 or not _SCHEMA.fullmatch(schemas[0]):
            raise UsageError("schema= takes one name of a-z 0-9 _ that begins with a letter, and not with pg_")
        patience = [value for name, value in options if name == "patience"] or [str(DEFAULT_PATIENCE_S)]
        if len(patience) > 1 or not _PATIENCE.fullmatch(patience[0]):
            raise UsageError("patience= takes one whole number of seconds, for which the server may be silent")
        rest = [(name, value) for name, value in options if name not in ("schema", "patience")]
        return cls(
            conninfo=_join(found["front"], rest),
            options=frozenset(name for name, _ in rest),
            schema=schemas[0],
            patience_s=int(patience[0]),
            alternatives=any("," in unquote(value) for value in (found["hosts"], *_values(rest, *_HOSTS))),
            place=_place(found, rest, schemas[0]),
            secrets=_secrets([found["password"] or "", *_values(rest, *_SECRET)]),
        )

    @property
    def channel(self) -> str:
        """What LISTEN and NOTIFY use: one per ledger, since a database may hold several."""
        return f"hansard_{self.schema}"

    def clean(self, text: str) -> str:
        """Somebody else's message on one line and without our secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())


def _place(found: re.Match[str], options: list[tuple[str, str]], schema: str) -> str:
    user = f"{found['user']}@" if found["user"] else ""
    shown = [(name, value) for name, value in options if name in _SHOWN]
    if schema != DEFAULT_SCHEMA:
        shown.append(("schema", schema))
    return _join(f"postgresql://{user}{found['hosts']}/{found['database'] or ''}", shown)


def _join(front: str, options: list[tuple[str, str]]) -> str:
    return front + "?" * bool(options) + "&".join(f"{name}={value}" for name, value in options)


def _values(options: list[tuple[str, str]], *names: str) -> list[str]:
    return [value for name, value in options if name in names]


def _secrets(written: list[str]) -> tuple[str, ...]:
    plain = [unquote(secret) for secret in written]
    every = {*written, *plain, *map(quote, plain)} - {""}
    # The longest first: a short secret inside a longer one must not leave the rest of it behind.
    return tuple(sorted(every, key=len, reverse=True))
