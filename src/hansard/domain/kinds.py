"""Every kind of entry that Hansard writes, in one table. docs/ledger-format.md section 10 is made from it."""

from inspect import isclass

from hansard.domain import council, custody, gate, work
from hansard.domain.fact import Fact

KINDS: dict[str, type[Fact]] = {
    member.KIND: member
    for module in (custody, work, gate, council)
    for member in vars(module).values()
    if isclass(member) and issubclass(member, Fact) and member is not Fact
}
DRIVEN = frozenset(kind for kind, fact in KINDS.items() if fact.DRIVEN)
"""What only somebody who drives a run writes."""
