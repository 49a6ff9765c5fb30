"""What surfaces show: plain values that become JSON as they are. `--json` on the CLI prints exactly these."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from hansard.domain.budget import of_limit as of_limit
from hansard.domain.budget import usd as usd
from hansard.ledger.entry import Entry
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.surrogates import whole as whole
from hansard.record.encoder import fast_dumper
from hansard.record.history import LedgerState, RunState
from hansard.store.base import StoredBody

View = dict[str, Any]

_dump = fast_dumper()


def price_basis(view: View) -> str:
    """How far a sum of money is to be believed. Of models without a price nobody knows what they cost."""
    unpriced = view.get("unpriced")
    unknown = f"; no price is known of {', '.join(unpriced)}" if unpriced else ""
    return f"an estimate unless billed{unknown}"


def sum_known(spent: View, sign: str = "") -> str:
    """What a row of a list says of money. A sum that lacks what nobody knows the price of is not shown as the cost."""
    said = f"{sign}{usd(spent['cost_usd_nano'])}"
    if spent["priced"] is not False:
        return said
    return f"{said} or more" if spent["cost_usd_nano"] else "no price is known"


def positions(disagreement: Mapping[str, Any]) -> str:
    """Who holds what, where a panel did not agree."""
    return "; ".join(f"{side['agent']}: {side['claim']}" for side in disagreement["positions"])


def encoded(view: Any) -> bytes:
    """A view as JSON on one line."""
    if _dump is not None:
        try:
            return _dump(view)
        except TypeError:
            # Half of a surrogate pair, or a number beyond 64 bits: the slow way takes them.
            pass
    return whole(json.dumps(view, ensure_ascii=False, separators=(",", ":"))).encode()


def moment(ts_us: int) -> str:
    """A time of the record in ISO 8601, UTC; the bare number where no calendar has such a day."""
    try:
        return datetime.fromtimestamp(ts_us / 1_000_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(ts_us)


def entry_view(entry: Entry) -> View:
    return {
        "seq": entry.seq,
        "time": moment(entry.ts),
        "ts": entry.ts,
        "run": entry.run,
        "kind": entry.kind,
        "actor": entry.actor,
        "causes": list(entry.causes),
        "data": dict(entry.data),
        "body": dict(entry.body),
        "prev": entry.prev,
        "leaf": leaf_hash(entry.line).hex(),
        "broken": None,
    }


def broken_view(seq: int, line: bytes, reason: str) -> View:
    """An entry that cannot be read or does not follow the one before: shown, and marked."""
    return {"seq": seq, "broken": reason, "line": line[:2000].decode("utf-8", "replace")}


def part_view(entry: Entry, part: str, stored: StoredBody | None, state: str) -> View:
    view: View = {"part": part, "commitment": entry.body[part], "state": state}
    if stored is not None:
        view |= {"media": stored.media, "bytes": len(stored.body)}
    return view


def run_view(run: RunState) -> View:
    return {
        "run": run.run,
        "state": run.state,
        "first_seq": run.first_seq,
        "last_seq": run.last_seq,
        "started": moment(run.started_us),
        "last": moment(run.last_us),
        "entries": run.entries,
        "calls": run.calls,
        "tokens": run.tokens,
        "cost_usd_nano": run.cost_usd_nano,
        "unpriced": sorted(run.unpriced),
        "tasks": dict(run.tasks),
        "open_gates": sorted(run.open_gates),
    }


def state_view(state: LedgerState, *, after: int = -1, limit: int | None = None) -> View:
    runs = (run for run in state.runs.values() if run.first_seq > after)
    return {
        "at": state.at,
        "broken_at": state.broken_at,
        "origin": state.origin,
        "key_epoch": state.key_epoch,
        "runs": [run_view(run) for run in islice(runs, limit)],
    }


def summary_view(state: LedgerState) -> View:
    runs = list(state.runs.values())
    states: dict[str, int] = {}
    for run in runs:
        states[run.state] = states.get(run.state, 0) + 1
    return {
        "entries": state.at + 1,
        "broken_at": state.broken_at,
        "origin": state.origin,
        "key_epoch": state.key_epoch,
        "parts": state.parts,
        "redacted": state.redacted,
        "runs": len(runs),
        "run_states": states,
        "calls": sum(run.calls for run in runs),
        "tokens": sum(run.tokens for run in runs),
        "cost_usd_nano": sum(run.cost_usd_nano for run in runs),
        "unpriced": sorted(set[str]().union(*(run.unpriced for run in runs))),
        "verdicts": dict(state.verdicts),
        "calls_by_model": dict(state.models),
        "kinds": dict(sorted(state.kinds.items())),
        "actors": dict(sorted(state.actors.items())),
    }
