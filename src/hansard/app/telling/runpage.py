"""One run as a page that needs nothing: no server, no script, no network. Everything from the record is escaped."""

from collections.abc import Iterable, Sequence
from typing import Any

from hansard.app.telling.checks import said_of_answer, said_of_result
from hansard.app.telling.escaping import escape
from hansard.app.telling.runviews import of_which, said_of_context
from hansard.app.telling.waves import levels
from hansard.app.views import View, moment, price_basis, usd
from hansard.ledger.entry import Entry
from hansard.record.reading import read_text
from hansard.store.base import Store

SHOWN_CHARACTERS = 20_000
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --dim: #5d6778; --line: #d8dde6; --paper: #fff; --card: #f6f8fb;
  --good: #137a4b; --bad: #b3261e; --warn: #8a5a00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf2; --dim: #9aa6b8; --line: #323a48; --paper: #12161d;
  --card: #1a2029; --good: #5fd39b; --bad: #ff8a80; --warn: #f2c14e } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 4rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere }
h1 { font-size: 1.4rem; margin: 0 }
h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem }
.dim { color: var(--dim) } .good { color: var(--good) } .bad { color: var(--bad) } .warn { color: var(--warn) }
code, pre { font-family: ui-monospace, monospace; font-size: .86rem }
pre, .answer, .said { unicode-bidi: plaintext; text-align: start }
pre { white-space: pre-wrap; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; padding: .7rem; margin: .4rem 0 }
.waves { display: flex; gap: .8rem; overflow-x: auto }
.wave { display: flex; flex-direction: column; gap: .5rem; min-width: 11rem }
.task { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .7rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
details { border-bottom: 1px solid var(--line); padding: .35rem 0 }
summary { cursor: pointer }
.answer { background: var(--card); border-left: 4px solid var(--good); padding: .8rem 1rem; border-radius: .3rem;
  white-space: pre-wrap }
:focus-visible { outline: 3px solid var(--good); outline-offset: 2px }
@media print { details:not([open]) { break-inside: avoid } }
"""


def run_page(store: Store, view: View, plan: View | None, entries: Sequence[Entry]) -> str:
    """The page. `view` is what `runs show` shows."""
    title = f"Run {view['run']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="dim">{_state(view["state"])} · {escape(str(view["started"]))} · entries {view["first_seq"]} to {view["last_seq"]}</p>',
        *([_pre(view["interrupted"]["why"])] if view["interrupted"] else []),
        "<h2>Request</h2>",
        _pre(view["request"]),
        "<h2>Answer</h2>",
        _answer(view),
        _checks(view["checks"], view["answer_seq"]),
        "<h2>Spent</h2>",
        _spent(view),
        "<h2>Plan</h2>",
        *(f'<p class="warn">{escape(said_of_context(each))}</p>' for each in view["contexts"] if each["failed"]),
        _plan(plan, {task["task"]: task for task in view["tasks"]}) if plan or not view["plan"] else _pre(None),
        "<h2>Tasks</h2>",
        *(_task(store, task) for task in view["tasks"]),
        "<h2>Record</h2>",
        '<p class="dim">Every step of this run, in its order. Check it with <code>hansard verify</code>; this page is only a view.</p>',
        *map(_entry, entries),
    ]
    return whole_page(title, parts)


def whole_page(title: str, parts: Iterable[str], style: str = "") -> str:
    """A page that needs nothing else, and runs nothing."""
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def _state(state: str) -> str:
    tone = {"answered": "good", "partial": "warn", "waiting": "warn"}.get(
        state, "bad" if state in ("failed", "stopped", "cancelled") else "dim"
    )
    return f'<strong class="{tone}">{escape(state)}</strong>'


def _answer(view: View) -> str:
    if view["answer_seq"] is None:
        unusable = view["unusable"]
        said = _pre(f"{unusable['error']} (entry {unusable['seq']}): {unusable['said']}") if unusable else ""
        return f'<p class="bad">There is no answer: {escape(str(view["reason"] or view["state"]).replace("_", " "))}.</p>{said}'
    missing = f'<p class="warn">Without: {escape(", ".join(view["missing"]))}</p>' if view["missing"] else ""
    return (_pre(None) if view["answer"] is None else f'<div class="answer">{escape(view["answer"])}</div>') + missing


def _checks(checks: Sequence[View], answer_seq: int | None) -> str:
    return "".join(
        f"<details><summary>{escape(check['check'])} {escape(check['outcome'])} <small class=dim>entry {check['seq']}"
        f"{of_which(check, answer_seq)}</small></summary>{_pre(said_of_answer(check['check'], check['detail']))}</details>"
        for check in checks
    )


def _spent(view: View) -> str:
    spent, budget = view["spent"], view["budget"]
    rows = [
        ("calls", spent["calls"], budget["max_calls"]),
        ("tokens", spent["tokens"], budget["max_tokens"]),
        (f"cost, US$ ({price_basis(view)})", _usd(spent["cost_usd_nano"]), _usd(budget["max_cost_usd_nano"])),
        ("seconds", _seconds(spent["elapsed_us"]), budget["max_seconds"]),
    ]
    cells = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td class=number>{escape(_figure(value))}</td>"
        f"<td class=dim>{escape(f'of {_figure(limit)}' if limit is not None else 'no limit')}</td></tr>"
        for name, value, limit in rows
    )
    return f"<table>{cells}</table>"


def _plan(plan: View | None, tasks: dict[str, View]) -> str:
    """The plan by waves: a way to show it; tasks started as soon as their own inputs had passed."""
    if not plan:
        return '<p class="dim">There is no plan.</p>'
    level = levels({each["id"]: [_name(need) for need in each.get("needs", [])] for each in plan["tasks"]})
    rows: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for each in plan["tasks"]:
        if each["id"] in level:
            rows[level[each["id"]]].append(_card(each, tasks.get(each["id"])))
    waves = "".join(f"<div class=wave>{''.join(row)}</div>" for row in rows)
    return f'<div class="waves" role="region" tabindex="0" aria-label="Tasks by waves">{waves}</div>'


def _name(need: Any) -> str:
    return need if isinstance(need, str) else str(need["task"])


def _card(planned: View, task: View | None) -> str:
    state = task["state"] if task else "waiting"
    tone = {"passed": "good", "rejected": "bad", "skipped": "warn"}.get(state, "dim")
    needs = ", ".join(_name(need) for need in planned.get("needs", []))
    after = f'<br><small class="dim">after {escape(needs)}</small>' if needs else ""
    return (
        f'<div class="task"><strong>{escape(planned["id"])}</strong> <small class="{tone}">{escape(state)}</small>'
        f'<br><small class="dim">{escape(planned["lane"])}</small>{after}</div>'
    )


def _task(store: Store, task: View) -> str:
    parts = []
    for attempt in task["attempts"]:
        result, verdict = attempt["returned"], attempt["verdict"]
        said = "no verdict" if verdict is None else f"{'passed' if verdict['ok'] else 'rejected'} by {verdict['by']}"
        parts.append(
            f"<h3>Attempt {attempt['attempt']} on {escape(attempt['rung'])} · {escape(attempt['model'])} · {escape(said)}</h3>"
        )
        for panel in (attempt.get("panel"), (verdict or {}).get("panel")):
            parts.extend([_met(panel)] if panel else [])
        parts.append(_fold("prompt", _body(store, attempt["seq"], "prompt")))
        if result:
            parts.append(_fold("output", _body(store, result["seq"], "output")))
        if verdict and verdict["reasons"] != "":
            parts.append(_fold("reasons", said_of_result(verdict["reasons"])))
    head = f"<strong>{escape(task['task'])}</strong> <span class=dim>{escape(str(task['lane'] or ''))}</span> {_state_of(task)}"
    return f"<details><summary>{head}</summary>{''.join(parts)}</details>"


def _met(panel: View) -> str:
    outcome = str(panel["outcome"] or "not over").replace("_", " ")
    command = f"hansard session export {panel['session']} --html"
    return f"<p>A panel met: {escape(outcome)}. Its debate as a page: <code>{escape(command)}</code></p>"


def _state_of(task: View) -> str:
    because = f" ({task['because']})" if task.get("because") else ""
    tone = {"passed": "good", "rejected": "bad", "skipped": "warn"}.get(task["state"], "dim")
    return f'<span class="{tone}">{escape(task["state"] + because)}</span>'


def _entry(entry: Entry) -> str:
    facts = ", ".join(f"{key} {value}" for key, value in entry.data.items())
    causes = f" ← {', '.join(map(str, entry.causes))}" if entry.causes else ""
    parts = "".join(
        f"<br><small class=dim>{escape(part)}: <code>{escape(hash)}</code></small>" for part, hash in entry.body.items()
    )
    return (
        f"<details><summary><code>{entry.seq}</code> {escape(entry.kind)} <small class=dim>{escape(entry.actor)}"
        f"{escape(causes)}</small></summary><small>{escape(moment(entry.ts))}<br>{escape(facts)}</small>{parts}</details>"
    )


def _fold(name: str, text: str | None) -> str:
    return f"<details><summary>{escape(name)}</summary>{_pre(text)}</details>"


def _pre(text: str | None) -> str:
    if text is None:
        return '<p class="dim">not in the ledger any more</p>'
    cut = f"\n… {len(text) - SHOWN_CHARACTERS:,} more characters in the record" if len(text) > SHOWN_CHARACTERS else ""
    return f"<pre>{escape(text[:SHOWN_CHARACTERS] + cut)}</pre>"


def _body(store: Store, seq: int, part: str) -> str | None:
    return read_text(store, store.entry(seq), part)


def _figure(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _usd(nano: int | None) -> str | None:
    return None if nano is None else usd(nano)


def _seconds(us: int | None) -> str | None:
    return None if us is None else f"{us / 1_000_000:.2f}"
