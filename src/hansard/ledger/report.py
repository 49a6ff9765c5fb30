"""What a verification found, as values: graded findings, what was checked, and what is not proven.

Computes verdicts and renders them; it opens nothing and checks nothing itself.
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Grade = Literal["structure", "signature", "anchor", "missing", "grade", "warning", "note"]
Form = Literal["sqlite", "jsonl", "export", "receipt", "unknown"]

KEPT_PER_GRADE = 100
"""How many findings of each grade are kept; the rest are counted, so that hostile input cannot fill the memory."""

_EXIT: dict[Grade, int] = {"structure": 20, "signature": 20, "anchor": 21, "missing": 22, "grade": 23}
_VERDICTS = {0: "OK", 20: "BROKEN", 21: "CONTRADICTED", 22: "BODIES MISSING", 23: "GRADE NOT REACHED"}
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be; `code` is stable, `message` is for people."""

    code: str
    grade: Grade
    message: str
    seq: int | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """Who vouches for which size ([C4]-[C10])."""

    sealed_to: int = 0
    newest: int | None = None
    """Size of the newest checkpoint that the log reaches."""
    checkpoints: int = 0
    checked: int = 0
    """How many signatures were verified."""
    identity: str | None = None
    keys: Literal["pinned", "self-asserted", "none"] = "none"
    epochs: int = 0
    unsealed_rotations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One thing kept outside the log, and whether the log agrees with it."""

    what: str
    size: int
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """The states of the parts ([B2], [B3]); `unread` are those that were not looked at."""

    parts: int = 0
    opened: int = 0
    redacted: int = 0
    pending: int = 0
    missing: int = 0
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """A recorded anchor ([V7]): entries below `size` are older than `time_us`, entries after `seq` younger."""

    seq: int
    by: str
    size: int
    time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """A witness that was asked for ([W5]): the largest size that it cosigned, and when, in POSIX seconds."""

    name: str
    size: int
    time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a receipt shows: one entry, its opened parts, and who signed."""

    index: int
    kind: str
    actor: str
    run: str
    ts: int
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    """Parts of the entry that the receipt does not disclose."""
    signed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A graded verdict; never one boolean, though `ok` exists."""

    path: str
    form: Form
    size: int = 0
    head: str | None = None
    root: str | None = None
    origin: str | None = None
    genesis: str | None = None
    custody: str | None = None
    signed: Signed = field(default_factory=Signed)
    anchors: tuple[Anchor, ...] = ()
    bodies: Bodies = field(default_factory=Bodies)
    brackets: tuple[Bracket, ...] = ()
    witnessed: tuple[Witnessed, ...] = ()
    unread_prefix: int = 0
    receipt: Receipt | None = None
    findings: tuple[Finding, ...] = ()
    more_findings: int = 0
    not_proven: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """[V6]: the lowest code that applies."""
        return min((_EXIT[each.grade] for each in self.findings if each.grade in _EXIT), default=0)

    @property
    def ok(self) -> bool:
        """Whether every asked-for grade was reached."""
        return self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The exit code as a word."""
        return _VERDICTS[self.exit_code]

    @property
    def first_bad(self) -> Finding | None:
        """The first finding that is more than a warning."""
        return next((each for each in self.findings if each.grade in _EXIT), None)

    @property
    def unsealed_tail(self) -> int:
        """How many entries lie past the largest sealed size ([C6])."""
        return max(0, self.size - self.signed.sealed_to)

    def as_json(self) -> dict[str, Any]:
        """The report as plain values under stable names."""
        plain = asdict(self)
        first = self.first_bad
        computed = {
            "ok": self.ok,
            "exit_code": self.exit_code,
            "verdict": self.verdict,
            "unsealed_tail": self.unsealed_tail,
            "first_bad": asdict(first) if first else None,
        }
        return computed | plain


class Findings:
    """Collects findings in bounded memory: of each grade the first ones by entry, then by discovery."""

    def __init__(self) -> None:
        self._kept: dict[Grade, list[tuple[tuple[bool, int], int, Finding]]] = {}
        self._told = 0

    def add(self, code: str, grade: Grade, message: str, *, seq: int | None = None, part: str | None = None) -> None:
        """Keep a finding; one without a seq concerns the whole and sorts behind those that name an entry."""
        self.keep(Finding(code=code, grade=grade, message=message, seq=seq, part=part))

    def keep(self, finding: Finding) -> None:
        """Keep a finding that is already made."""
        kept = self._kept.setdefault(finding.grade, [])
        place = (True, 0) if finding.seq is None else (False, finding.seq)
        self._told += 1
        if len(kept) == KEPT_PER_GRADE:
            if (place, self._told) > kept[-1][:2]:
                return
            kept.pop()
        insort(kept, (place, self._told, finding), key=lambda each: each[:2])

    def all(self) -> tuple[Finding, ...]:
        """What was kept, first bad entry first."""
        merged = sorted((each for kept in self._kept.values() for each in kept), key=lambda each: each[:2])
        return tuple(finding for _, _, finding in merged)

    @property
    def more(self) -> int:
        """How many findings were told and not kept."""
        return self._told - sum(len(kept) for kept in self._kept.values())

    def __bool__(self) -> bool:
        return bool(self._told)


def lines(report: Report) -> Iterator[str]:
    """The report for people: verdict first, then what was checked, what is wrong, and what is not proven."""
    return map(printable, _render(report))


def printable(line: str) -> str:
    """A line whose names and texts come from files of others: nothing of it may steer the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


def _render(report: Report) -> Iterator[str]:
    yield f"{report.verdict}: {report.path}"
    first = report.first_bad
    if first:
        yield f"  first bad    {_place(first)}{first.message}"
    yield from _facts(report)
    others = [each for each in report.findings if each is not first]
    if others:
        yield "findings"
        yield from (f"  {each.grade:<12} {_place(each)}{each.message}" for each in others[:_SHOWN])
    hidden = max(0, len(others) - _SHOWN) + report.more_findings
    if hidden:
        yield f"  ... and {hidden:,} more (--json shows up to {KEPT_PER_GRADE} of each grade)"
    yield "not proven"
    yield from (f"  - {each}" for each in report.not_proven)


def _place(finding: Finding) -> str:
    if finding.seq is None:
        return ""
    return f"entry {finding.seq}{f' part {finding.part}' if finding.part else ''}: "


def _facts(report: Report) -> Iterator[str]:
    if report.form == "unknown":
        return
    yield f"  form         {report.form}"
    if report.receipt:
        yield from _receipt_facts(report.receipt)
    yield f"  size         {report.size:,}" + (
        f", the first {report.unread_prefix:,} not read" if report.unread_prefix else ""
    )
    for name, value in (
        ("origin", report.origin),
        ("genesis", report.genesis),
        ("head", report.head),
        ("root", report.root),
    ):
        if value is not None:
            yield f"  {name:<12} {value}"
    yield f"  signatures   {_signature_facts(report)}"
    if not report.receipt:
        yield f"  bodies       {_body_facts(report.bodies)}"
    for anchor in report.anchors:
        yield f"  anchor       {anchor.what}: {'agrees' if anchor.ok else 'CONTRADICTS'} at size {anchor.size:,}"
    for each in report.witnessed:
        yield f"  witness      {each.name} saw size {each.size:,} at {_moment(each.time_s * 1_000_000)}"
    for bracket in report.brackets[:_SHOWN]:
        yield (
            f"  time         entries below {bracket.size:,} are older, those after {bracket.seq:,} younger than"
            f" {_moment(bracket.time_us)}, if the {bracket.by} anchor in entry {bracket.seq} is true"
        )


def _moment(time_us: int) -> str:
    """A time as people read it; a witness may say any number."""
    seconds, rest = divmod(time_us, 1_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_us} us after 1970"
    return f"{moment}{f'.{rest:06}' if rest else ''} UTC"


def _receipt_facts(receipt: Receipt) -> Iterator[str]:
    of = f"run {receipt.run or '(the log itself)'}, ts {_moment(receipt.ts)}"
    yield f"  entry        {receipt.index}: {receipt.kind} by {receipt.actor}, {of}"
    yield f"  opened       {', '.join(receipt.opened) or 'nothing'}; not disclosed: {', '.join(receipt.closed) or 'nothing'}"
    yield f"  signed by    {', '.join(receipt.signed_by) or 'nobody'}"


def _signature_facts(report: Report) -> str:
    signed = report.signed
    if report.custody == "none":
        return "none: the log is unsigned"
    if signed.identity is None:
        return "none: the log names no keys that can be read"
    tail = f"{report.unsealed_tail:,} after it unsealed" if report.unsealed_tail else "nothing unsealed"
    if report.receipt:
        return f"{signed.checked} checked, keys {signed.keys}: {signed.identity}"
    return (
        f"sealed to {signed.sealed_to:,} ({tail}); {signed.checkpoints:,} checkpoints, {signed.checked:,} signatures checked,"
        f" {signed.epochs:,} epochs, {len(signed.unsealed_rotations)} rotations unsealed; keys {signed.keys}: {signed.identity}"
    )


def _body_facts(bodies: Bodies) -> str:
    if bodies.unread:
        return f"{bodies.parts:,} parts, not read"
    return (
        f"{bodies.parts:,} parts: {bodies.opened:,} opened, {bodies.redacted:,} redacted, {bodies.pending:,} pending,"
        f" {bodies.missing:,} missing"
    )
