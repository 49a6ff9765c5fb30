"""The table of kinds in docs/ledger-format.md, made from the facts' own classes; run this file to write it anew."""

from pathlib import Path

from hansard.domain.kinds import KINDS
from hansard.record.codec import Field, shape_of

DOCUMENT = Path(__file__).parent.parent / "docs" / "ledger-format.md"
HEADING = "## 10. Kinds\n"

_INTRODUCTION = """
Made from `hansard/domain` by `python tests/kinds_table.py`, and tested equal to it. A name with `?` may be absent.
`driven` kinds are written only by the driver that holds the run's claim, and refused when its epoch is over; the others
are written by people and by other processes. Where causes are named, an entry of this kind is caused by entries of those
kinds (`*`: any), or by none.

| kind | what it records | data | parts | causes |
| --- | --- | --- | --- | --- |
"""


def section() -> str:
    return HEADING + _INTRODUCTION + "".join(_row(kind) for kind in KINDS)


def _row(kind: str) -> str:
    fact = KINDS[kind]
    shape = shape_of(fact)
    words = " ".join((fact.__doc__ or "").split()).replace("|", "\\|")
    data = ", ".join(_field(field) for field in shape.data)
    parts = ", ".join(f"`{name}`{'?' if optional else ''}" for name, optional in shape.parts)
    causes = ", ".join(f"`{each}`" for each in shape.causes)
    name = f"`{kind}`{' driven' if shape.driven else ''}"
    return f"| {name} | {words} | {data or '-'} | {parts or '-'} | {causes or '-'} |\n"


def _field(field: Field) -> str:
    if field.choices:
        kind = "/".join(sorted(field.choices))
    elif field.item:
        kind = f"{field.item.__name__}…"
    else:
        kind = field.want.__name__
    return f"`{field.name}`{'?' if field.optional else ''} {kind}"


def main() -> None:
    before = DOCUMENT.read_text("utf-8").partition(HEADING)[0]
    DOCUMENT.write_text(before + section(), "utf-8")


if __name__ == "__main__":
    main()
