"""One session as a page that needs nothing: no server, no script, no network. Whatever anybody said is escaped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import cos, hypot, pi, sin
from typing import Any

from hansard.app.telling.deliberationviews import asked_for, left_out, pending_of, price_unknown, requested, rounds_of
from hansard.app.telling.escaping import escape
from hansard.app.telling.runpage import whole_page
from hansard.app.views import positions, usd
from hansard.deliberation.afterwards.evaluation import evaluation_of, postmortem_of
from hansard.deliberation.metrics import metrics_of
from hansard.domain.budget import in_nano

Json = Mapping[str, Any]
SIZE, RADIUS, NODE = 420, 150, 26
_STYLE = """
.turn { border-left: 3px solid var(--line); margin: .7rem 0; padding: .1rem 0 .1rem .8rem }
.turn.branch { margin-left: 2rem; border-left-style: dashed }
.turn.verdict { border-left-color: var(--warn) } .turn.synthesis { border-left-color: var(--good) }
.turn p { margin: .3rem 0; white-space: pre-wrap }
.ask { color: var(--dim); font-size: .92rem }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--ink) }
svg circle { fill: var(--card); stroke: var(--dim) } svg .edge { stroke: var(--dim); fill: none } svg .tip { fill: var(--dim) }
.bar { display: inline-block; height: .7rem; background: var(--dim); border-radius: .2rem; vertical-align: middle }
@media (max-width: 40rem) { .bar { display: none } }
"""


def session_page(artifact: Json, events: Sequence[Json] | None = None) -> str:
    """The page of a finished session. `events` are the calls of it, where they are at hand."""
    figures, more, after = metrics_of(artifact), evaluation_of(artifact, events), postmortem_of(artifact)
    title = f"Session {artifact['session_id']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        _head(artifact),
        "<h2>Problem</h2>",
        f"<pre>{escape(artifact['config']['problem_statement'])}</pre>",
        "<h2>Outcome</h2>",
        _outcome(artifact),
        "<h2>Spend</h2>",
        _spend(artifact, figures, events),
        "<h2>Who asked whom</h2>",
        _graph(more["interaction_graph"]),
        "<h2>Disagreements</h2>",
        _disagreements(artifact),
        "<h2>Timeline</h2>",
        *_timeline(artifact),
        "<h2>Looking back</h2>",
        _looking_back(more, after),
    ]
    return whole_page(title, parts, _STYLE)


def _head(artifact: Json) -> str:
    ending = artifact["outcome"].get("termination_artifact")
    said, tone = (ending["reason"], "bad") if ending else ("synthesis", "good")
    rounds = rounds_of(artifact)
    return (
        f'<p class="dim"><strong class="{tone}">{escape(said)}</strong> · {rounds} round{"" if rounds == 1 else "s"} · '
        f"{escape(artifact['started_at'])} to {escape(artifact['ended_at'])}<br>transcript digest "
        f"<code>{escape(artifact['transcript_digest'])}</code>; check it with <code>hansard session validate</code>, "
        "this page is only a view</p>"
    )


def _outcome(artifact: Json) -> str:
    ending = artifact["outcome"].get("termination_artifact")
    if ending is None:
        content = artifact["canonical_transcript"][-1]["content"]
        return f'<div class="answer">{escape(content["integrated_answer"])}</div>{_open(content)}'
    failure = ending.get("last_provider_failure")
    said = [f'<p class="bad">There is no synthesis: {escape(ending["reason"])}.</p>']
    if pending := pending_of(ending):
        said.append(f"<p>It asks: {'<br>'.join(map(escape, asked_for(pending)))}</p>")
    if failure:
        said.append(f"<p>{escape(failure['agent_id'])}: {escape(failure['kind'])}: {escape(failure['message'])}</p>")
    return "".join(said)


def _open(content: Json) -> str:
    asked = "".join(f"<li>{escape(each)}</li>" for each in content.get("open_questions") or ())
    return f"<p>Open questions</p><ul>{asked}</ul>" if asked else ""


def _spend(artifact: Json, figures: Json, events: Sequence[Json] | None) -> str:
    tokens = figures["tokens_per_agent"]
    # From the messages: the figures are rounded to a millionth, as the protocol has them.
    costs: Counter[str] = Counter()
    for message in artifact["canonical_transcript"]:
        costs[message["speaker"]] += in_nano(message["usage"]["cost_usd"])
    most = max((each["total_tokens"] for each in tokens.values()), default=0) or 1
    rows = "".join(
        f"<tr><th scope=row>{escape(agent)}</th><td class=number>{each['total_tokens']:,}</td>"
        f"<td class=number>{usd(costs[agent])}</td>"
        f'<td><span class="bar" style="width:{round(160 * each["total_tokens"] / most)}px"></span></td></tr>'
        for agent, each in tokens.items()
    )
    total = figures["tokens_cumulative"]["total_tokens"]
    about = "Some of it is estimated" if figures["usage_estimated"] else "As the providers report it"
    about += price_unknown(artifact) + left_out(events)
    return (
        "<table><tr><th>agent</th><th class=number>tokens</th><th class=number>US$</th><td></td></tr>"
        f"{rows}<tr><th scope=row>all</th><td class=number>{total:,}</td>"
        f"<td class=number>{usd(in_nano(artifact['cumulative_usage']['cost_usd']))}</td><td></td></tr></table>"
        f'<p class="dim">{about}</p>'
    )


def _graph(graph: Json) -> str:
    """Agents on a circle, an arrow for each pair that asked; its weight is how often."""
    if not graph["edges"]:
        return '<p class="dim">Nobody asked anybody anything.</p>'
    nodes = list(dict.fromkeys((*graph["nodes"], *(edge["target"] for edge in graph["edges"]))))
    places = {
        node: (SIZE / 2 + RADIUS * sin(2 * pi * at / len(nodes)), SIZE / 2 - RADIUS * cos(2 * pi * at / len(nodes)))
        for at, node in enumerate(nodes)
    }
    pairs: Counter[tuple[str, str]] = Counter()
    for edge in graph["edges"]:
        pairs[edge["speaker"], edge["target"]] += edge["count"]
    lines = "".join(_arrow(places[one], places[other], count, one, other) for (one, other), count in pairs.items())
    dots = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{NODE}"/><text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">'
        f"{escape(node[:14])}</text>"
        for node, (x, y) in places.items()
    )
    kinds = "".join(
        f"<tr><td>{escape(edge['speaker'])}</td><td>{escape(edge['target'])}</td><td>{escape(edge['type'])}</td>"
        f"<td class=number>{edge['count']}</td></tr>"
        for edge in graph["edges"]
    )
    return (
        f'<svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" role="img" aria-label="who asked whom">{lines}{dots}</svg>'
        f"<table><tr><th>from</th><th>to</th><th>type</th><th class=number>times</th></tr>{kinds}</table>"
    )


def _arrow(a: tuple[float, float], b: tuple[float, float], count: int, one: str, other: str) -> str:
    told = f"<title>{escape(one)} asked {escape(other)}: {count}</title>"
    width = min(8.0, 1 + count * 0.7)
    if a == b:
        return f'<circle class="edge" cx="{a[0]:.0f}" cy="{a[1] - NODE:.0f}" r="14" stroke-width="{width:.1f}">{told}</circle>'
    length = hypot(b[0] - a[0], b[1] - a[1])
    ux, uy = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    # Beside the middle line, so that an arrow back does not cover this one.
    sx, sy = -uy * 5, ux * 5
    x1, y1 = a[0] + ux * NODE + sx, a[1] + uy * NODE + sy
    x2, y2 = b[0] - ux * (NODE + 8) + sx, b[1] - uy * (NODE + 8) + sy
    tip = ((x2 + ux * 8, y2 + uy * 8), (x2 - uy * 5, y2 + ux * 5), (x2 + uy * 5, y2 - ux * 5))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in tip)
    return (
        f'<g><line class="edge" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{width:.1f}"/>'
        f'<polygon class="tip" points="{points}"/>{told}</g>'
    )


def _disagreements(artifact: Json) -> str:
    """Each topic with the rounds in which it was open, and how it was settled."""
    topics = disagreements(artifact["canonical_transcript"])
    if not topics:
        return '<p class="dim">None was recorded.</p>'
    rows = "".join(
        f"<tr><th scope=row>{escape(each['topic'])}</th><td>{', '.join(map(str, each['rounds'])) or '–'}</td>"
        f"<td>{escape(positions(each))}</td>"
        f"<td>{_settled(each['settled'])}</td></tr>"
        for each in topics
    )
    return f"<table><tr><th>topic</th><th>open in round</th><th>positions</th><th>settled</th></tr>{rows}</table>"


def disagreements(messages: Iterable[Json]) -> list[dict[str, Any]]:
    """Each topic: in which rounds it was open, who claims what, and how it was settled."""
    topics: dict[str, dict[str, Any]] = {}
    for message in messages:
        if message["type"] not in ("coordination_turn", "synthesis"):
            continue
        # What stands in both is open still, as in the session itself.
        for each in message["content"]["resolved_disagreements"]:
            topic = topics.setdefault(each["topic"], {"topic": each["topic"], "rounds": [], "positions": []})
            topic["settled"] = each["resolution"]
        for each in message["content"]["unresolved_disagreements"]:
            topic = topics.setdefault(each["topic"], {"topic": each["topic"], "rounds": []})
            topic["rounds"] = list(dict.fromkeys((*topic["rounds"], message["round"])))
            topic |= {"positions": each["positions"], "settled": None}
    return list(topics.values())


def _settled(how: str | None) -> str:
    return '<span class="bad">open</span>' if how is None else f'<span class="good">{escape(how)}</span>'


def _timeline(artifact: Json) -> Iterator[str]:
    round = 0
    for message in artifact["canonical_transcript"][1:]:
        if message["round"] > round:
            round = message["round"]
            yield f"<h3>Round {round}</h3>"
        yield _turn(message)


def _turn(message: Json) -> str:
    kind, content = message["type"], message["content"]
    shape = {"branch_turn": " branch", "coordination_turn": " verdict", "synthesis": " synthesis"}.get(kind, "")
    head = f"<strong>{escape(message['speaker'])}</strong> <small class=dim>{escape(kind.replace('_', ' '))}"
    head += f", answers {escape(message['parent_id'])}" if message.get("parent_id") else ""
    head += f" · {message['usage']['total_tokens']:,} tokens · {escape(message['id'])}</small>"
    asks = "".join(
        f'<p class="ask">asks {escape(str(each["target"]))} ({escape(str(each["type"]))}): {escape(requested(each))}</p>'
        for each in content.get("direct_requests") or ()
    )
    notes = "".join(
        f'<p class="ask warn">{escape(name.replace("_", " "))}: {len(message[name])}</p>'
        for name in ("schema_failure", "dropped_deferred", "suggested_followups")
        if message.get(name)
    )
    return f'<div class="turn{shape}">{head}<p class="said">{escape(said(kind, content))}</p>{asks}{notes}</div>'


def said(kind: str, content: Json) -> str:
    """What a message says, in words."""
    match kind:
        case "coordination_turn":
            return f"{content['next_action']} ({content['confidence']:.2f}): {content['focus']}\n{content['rationale']}"
        case "synthesis":
            return str(content["integrated_answer"])
        case "panel_contraction":
            return f"{content['agent_id']} leaves the panel: {content['reason']}"
    return str(content["text"])


def _looking_back(more: Json, after: Json) -> str:
    purity = {agent: "–" if score is None else f"{score:.2f}" for agent, score in more["role_purity_score"].items()}
    failures = more["failures_per_agent"]
    rows = [
        ("role purity", ", ".join(f"{agent} {score}" for agent, score in purity.items())),
        ("disagreements per round", f"{more['disagreement_frequency']:.2f}"),
        ("share of delegations", f"{more['delegation_frequency']:.2f}"),
        ("seconds to the end", str(more["time_to_finalize"])),
        ("retries", _counts(more["retries_per_agent"])),
        ("failures", "not at hand" if failures is None else _counts({a: sum(k.values()) for a, k in failures.items()})),
        (
            "gaps",
            "; ".join(f"{each['missing_capability']}: {each['reason']}" for each in after["capability_gaps"]) or "none",
        ),
        ("overlap", "; ".join(" and ".join(each["agents"]) for each in after["agent_overlap"]) or "none"),
    ]
    cells = "".join(f"<tr><th scope=row>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _counts(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return "not at hand"
    return ", ".join(f"{agent} {count}" for agent, count in counts.items()) or "none"
