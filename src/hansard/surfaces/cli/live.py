"""A run live on a terminal, with rich. Every text from the record is shown as text: rich's own markup is never read."""

import time
from collections.abc import Iterator

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hansard.surfaces.cli.board import SETTLED, Board, Row
from hansard.surfaces.narrate import dollars, duration, first_line
from hansard.surfaces.plain import plain

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARKS = {"passed": ("✓", "green"), "rejected": ("✗", "red"), "skipped": ("–", "dim"), "waiting": ("·", "dim")}
WORDS = {"judging": "being judged", "climbing": "climbs", "restarting": "starts again", "returned": "failed in passing"}
ENDINGS = {"answered": "bold green", "partial": "bold yellow", "waiting": "bold yellow", "interrupted": "bold yellow"}
BAR, WHY, RUN = 12, 60, 13
AROUND = 8
"""Lines of the screen that are not rows of tasks."""
LEAST = (1, 6, 7, 9, 12, 10)
"""How wide the columns of the table are at least: room for the words to come, so that nothing moves sideways."""
BETWEEN = 2
WAVE, TASK, LANE, RUNG, STATE, TOLD = range(len(LEAST))


class Screen:
    """Draws a board on standard error until it is closed; the last drawing stays."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._live.start()

    def draw(self, board: Board) -> None:
        width, height = self._console.size
        self._live.update(picture(board, time.time_ns() // 1000, height - AROUND, width), refresh=True)

    def close(self, board: Board) -> None:
        if not board.run:
            self._live.stop()
            return
        # Whole, now that it does not move any more; as long as it was moving it had to fit the screen.
        self._live.update(picture(board, board.last_us, 60, self._console.width), refresh=True)
        self._live.stop()
        self._console.print()


def picture(board: Board, now_us: int, room: int, width: int) -> RenderableType:
    """The board as something that rich can draw, with so much room for rows of tasks, in a terminal of this width."""
    parts: list[RenderableType] = [_head(board, width), Text()]
    if board.rows:
        parts += [_tasks(board, now_us, max(3, room), width), Text()]
    parts.append(_foot(board, now_us))
    return Group(*parts)


def _head(board: Board, width: int) -> RenderableType:
    # What the run is called is typed elsewhere: the request gives way.
    return Text.assemble(
        (first_line(board.request, max(20, min(72, width - len("   ") - RUN))) or "a run", "bold"),
        (f"   {board.run[:RUN]}", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _tasks(board: Board, now_us: int, room: int, width: int) -> RenderableType:
    shown = list(_chosen(board, room))
    rows: list[tuple[Text, ...]] = []
    before = -1
    for row in shown:
        wave = str(row.wave + 1) if row.wave != before and board.waves > 1 else ""
        before = row.wave
        mark, style = MARKS.get(row.state, (_frame(now_us), "cyan") if board.is_moving else ("○", "yellow"))
        word = WORDS.get(row.state, row.state) if board.is_moving or row.state in MARKS else "cut short"
        cells: tuple[Text, ...] = (
            Text(wave, style="dim"),
            Text.assemble((mark, style), f" {plain(row.task)}"),
            Text(plain(row.lane), style="dim"),
            Text(f"{'↑ ' if row.climbed else ''}{plain(row.rung)}", style="yellow" if row.climbed else "dim"),
            Text(word, style=style),
            Text(_figures(row, now_us) + _words(board, row, now_us), style="dim"),
        )
        rows.append(cells)
    if len(shown) < len(board.rows):
        more = Text(f"… and {len(board.rows) - len(shown):,} more", style="dim")
        rows.append((Text(), more, *[Text()] * (len(LEAST) - 2)))
    table = Table.grid(padding=(0, BETWEEN))
    widths = _widths(rows, max((len(_figures(row, now_us)) for row in shown), default=0), width)
    for each in filter(_is_shown, widths):
        table.add_column(no_wrap=True, overflow="ellipsis", width=each)
    for cells in rows:
        table.add_row(*(cell for cell, each in zip(cells, widths, strict=True) if _is_shown(each)))
    return table


def _is_shown(width: int) -> bool:
    return width > 0


def _widths(rows: list[tuple[Text, ...]], figures: int, room: int) -> list[int]:
    """How wide each column is. Where not all of them fit, words give way and figures do not: of a figure that is cut, another one stays.

    Lanes and rungs give way altogether, and so does what lies between them, before a task loses its name.
    """
    said = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    widths = [max(each) for each in zip(said, LEAST, strict=True)]
    over = sum(widths) + BETWEEN * (len(widths) - 1) - room
    spare = [(column, said[column]) for column in (WAVE, TASK, LANE, RUNG, STATE)]
    cut = [(LANE, -BETWEEN), (RUNG, -BETWEEN), (TASK, 1), (STATE, 1)]
    for column, least in [(TOLD, max(figures, LEAST[TOLD])), *spare, (TOLD, figures), *cut]:
        given = max(0, min(over, widths[column] - least))
        widths[column] -= given
        over -= given
    return widths


def _chosen(board: Board, room: int) -> Iterator[Row]:
    """The rows for which there is room, in the order of their waves: what moves first, then what was settled last."""
    rows = sorted(board.rows.values(), key=lambda row: row.wave)
    if len(rows) > room:
        rank = {"waiting": 2, **dict.fromkeys(SETTLED, 1)}
        first = sorted(rows, key=lambda row: (rank.get(row.state, 0), -row.since_us))[:room]
        keep = {row.task for row in first}
        rows = [row for row in rows if row.task in keep]
    return iter(rows)


def _figures(row: Row, now_us: int) -> str:
    """What is told of a task in figures."""
    if row.state == "passed":
        score = f"  score {row.score_ppm / 1e6:.2f}" if row.score_ppm is not None else ""
        return f"{duration((row.took_us or 0) / 1e6)}{score}"
    if row.state in ("waiting", "rejected", "skipped", "climbing"):
        return ""
    return duration(max(0, now_us - row.since_us) / 1e6)


def _words(board: Board, row: Row, now_us: int) -> str:
    """What is told of it in words, behind that."""
    match row.state:
        case "passed":
            return ""
        case "waiting":
            return f"for {first_line(awaited, WHY)}" if (awaited := board.waits_for(row)) else ""
        case "rejected" | "skipped" | "climbing":
            return first_line(row.why, WHY)
        case "returned" if row.again_us is not None:
            return f"  {first_line(row.why, WHY)}, again in {duration(max(0, row.again_us - now_us) / 1e6)}"
        case _:
            return f"  before: {first_line(row.why, WHY)}" if row.why else ""


def _foot(board: Board, now_us: int) -> RenderableType:
    limits, seconds = board.limits, board.elapsed_s(now_us)
    cost = limits.get("max_cost_usd_nano")
    spent = dollars(board.cost_usd_nano) + ("" if board.is_priced else ", not all known")
    gauges = [
        _state(board, now_us),
        _gauge("calls", f"{board.calls:,}", board.calls, limits.get("max_calls"), "{:,}"),
        _gauge("tokens", f"{board.tokens:,}", board.tokens, limits.get("max_tokens"), "{:,}"),
        _gauge("", spent, board.cost_usd_nano, cost, dollars(cost or 0)),
        _gauge("", duration(seconds), seconds, limits.get("max_seconds"), "{:,} s"),
    ]
    # Below each other where the terminal is narrow: a table would cut the words.
    return Columns(gauges, padding=(0, 3))


def _state(board: Board, now_us: int) -> Text:
    if not board.is_moving:
        said, style = board.state, ENDINGS.get(board.state, "bold red")
        return Text(said, style=style)
    done = f"{board.count(*SETTLED)} of {len(board.rows)}" if board.rows else "starting"
    return Text.assemble((_frame(now_us), "cyan"), " ", board.waits or board.doing or done)


def _frame(now_us: int) -> str:
    return FRAMES[now_us // 120_000 % len(FRAMES)]


def _gauge(name: str, shown: str, used: float, limit: int | None, most: str) -> Text:
    """An amount; against its limit, where there is one."""
    text = Text(f"{shown} {name}".rstrip() if limit is None else shown)
    if limit is None:
        text.stylize("dim")
        return text
    share = min(1.0, used / limit) if limit else 1.0
    filled = round(share * BAR)
    style = "red" if share > 0.9 else "yellow" if share > 0.7 else "green"
    text.append(f" of {most.format(limit)} {name}".rstrip() + " ", style="dim")
    return text.append("━" * filled, style=style).append("━" * (BAR - filled), style="bright_black")
