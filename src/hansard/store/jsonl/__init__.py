"""A ledger in JSON lines: plain files that grep reads, one writer at a time, an index beside them that may be deleted.

The layout is section 7 of docs/ledger-format.md ([J1]-[J5]). `files` writes and takes back, `bodies` finds one body among
many, `index` is what can be derived, `log` reads lines through it, `writing` keeps or takes back, `claims` and `lock`
coordinate, `store` is the port.
"""

from hansard.store.jsonl.store import JsonlStore
from hansard.store.jsonl.writing import Durability

__all__ = ["Durability", "JsonlStore"]
