"""Draws the screen of ``cosched top`` and handles its keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from cosched.core.errors import CoschedError
from cosched.observe.top.job_columns import COLUMNS, LEGEND, header, sort_jobs, sparkline
from cosched.observe.top.model import JobRow, View
from cosched.observe.top.recent import Recent
from cosched.observe.top.row_list import Row, Rows
from cosched.observe.top.sample import Sample
from cosched.observe.top.text import node_line, summary

Sampler = Callable[[], Sample]
#: The text of ``cosched why`` for a job on its nodes.
Why = Callable[[JobRow], str]

_STATE_STYLES = {"on": Style(color="green", bold=True), "off": Style(dim=True)}
_OTHER_STYLE = Style(color="yellow")
_TREND_STYLE = Style(color="cyan")


class WhyScreen(ModalScreen[None]):
    """The answer of ``cosched why``, above the other widgets."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]
    CSS = """
    WhyScreen { align: center middle; }
    #why { width: 100%; height: 100%; border: round $accent; padding: 0 1; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Makes a frame that scrolls, with the keys below."""
        frame = VerticalScroll(Static(Text(self._text)), id="why")
        frame.border_title = self._title
        yield frame
        yield Footer()


class TopApp(App[None]):
    """Nodes above, jobs below. Threads call ``sampler`` and ``why``, which may block."""

    TITLE = "cosched top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: base; }
    #summary { height: 1; text-style: bold; }
    #nodes { height: auto; max-height: 40%; }
    Rows { height: 1fr; margin-top: 1; }
    #legend { height: 2; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("p,space", "pause", "Pause"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, sampler: Sampler, interval_s: float, why: Why) -> None:
        super().__init__()
        self._sampler = sampler
        self._interval_s = interval_s
        self._why = why
        self._recent = Recent()
        self._seen: View | None = None
        self._paused = False
        self._sorted_by = 0
        self._backwards = False
        self._trouble = ""
        self._texts: dict[str, str] = {}

    # -- the parts -------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Makes the summary, nodes, jobs, legend and keys."""
        yield Static(id="summary", markup=False)
        yield Static(id="nodes", markup=False)
        yield Rows(header())
        yield Static(LEGEND, id="legend", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Takes the first sample, then one in each interval."""
        self._rows.focus()
        self._draw()
        self.take_sample()
        self.set_interval(self._interval_s, self.take_sample)

    @property
    def _rows(self) -> Rows:
        return self.query_one(Rows)

    # -- samples ---------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="sample")
    def take_sample(self) -> None:
        """Asks the nodes in another thread, so that a slow node does not delay a key."""
        if self._paused:
            return
        try:
            sample = self._sampler()
        except CoschedError as error:
            self.call_from_thread(self._show_trouble, str(error))
        else:
            self.call_from_thread(self._take, sample)

    def _take(self, sample: Sample) -> None:
        if self._paused:
            return
        self._trouble = ""
        seen = self._recent.add(sample)
        if seen is not None:
            self._seen = seen
            self._draw()

    def _show_trouble(self, trouble: str) -> None:
        self._trouble = trouble
        self._recent.forget()
        self._draw()

    # -- drawing ---------------------------------------------------------------------

    def _draw(self) -> None:
        self._write("summary", self._summary())
        seen = self._seen
        if seen is not None:
            self._write("nodes", "\n".join(node_line(node) for node in seen.nodes))
            self._rows.show([self._row(job) for job in self._sorted(seen)])

    def _write(self, name: str, text: str) -> None:
        """Updates a text. Lays the screen out again only if the number of lines changed,
        since that costs more than all the drawing."""
        before = self._texts.get(name)
        if text != before:
            self._texts[name] = text
            lines_changed = before is None or before.count("\n") != text.count("\n")
            self.query_one(f"#{name}", Static).update(text, layout=lines_changed)

    def _summary(self) -> str:
        if self._trouble:
            return self._trouble
        if self._seen is None:
            return "asking the nodes ..."
        order = ", reversed" if self._backwards else ""
        paused = "  PAUSED" if self._paused else ""
        title = COLUMNS[self._sorted_by].title
        return f"{summary(self._seen)}; by {title}{order}{paused}"

    def _sorted(self, seen: View) -> list[JobRow]:
        return sort_jobs(seen.jobs, self._sorted_by, backwards=self._backwards)

    def _row(self, job: JobRow) -> Row:
        style = _STATE_STYLES.get(job.state, _OTHER_STYLE)
        cells = "".join(column.place(column.text(job)) + " " for column in COLUMNS)
        trend = sparkline(self._recent.trends.of(job.key))
        return Row(job.key, ((cells, style), (trend, _TREND_STYLE)))

    # -- keys ------------------------------------------------------------------------

    def action_sort(self) -> None:
        """Sorts by the next column."""
        self._sorted_by = (self._sorted_by + 1) % len(COLUMNS)
        self._draw()

    def action_reverse(self) -> None:
        """Reverses the order."""
        self._backwards = not self._backwards
        self._draw()

    def action_pause(self) -> None:
        """Freezes the screen, or continues with new samples."""
        self._paused = not self._paused
        if not self._paused:
            self._recent.forget()
            self.take_sample()
        self._draw()

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        """Shows why the chosen job runs or does not."""
        jobs = self._seen.jobs if self._seen else ()
        for job in jobs:
            if job.key == message.key:
                self._ask_why(job)

    @work(thread=True, exclusive=True, group="why")
    def _ask_why(self, job: JobRow) -> None:
        try:
            text = self._why(job)
        except CoschedError as error:
            text = str(error)
        self.call_from_thread(self.push_screen, WhyScreen(job.name, text))
