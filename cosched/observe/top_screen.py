"""The screen of ``cosched top``: draws what ``top_model`` computes, and takes keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from cosched.core.errors import CoschedError
from cosched.observe.top_model import JobRow, Recent, Sample, View
from cosched.observe.top_text import (
    COLUMNS,
    LEGEND,
    TREND_WIDTH,
    node_line,
    sort_jobs,
    sparkline,
    summary,
)

Sampler = Callable[[], Sample]
#: The text of ``cosched why`` for a job on its nodes.
Why = Callable[[JobRow], str]

_STATE_STYLES = {"on": "bold green", "off": "dim"}


class WhyScreen(ModalScreen[None]):
    """Why a job runs or does not, over the rest."""

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
        """A frame that scrolls, with the keys below."""
        frame = VerticalScroll(Static(Text(self._text)), id="why")
        frame.border_title = self._title
        yield frame
        yield Footer()


class Jobs(DataTable[Text]):
    """The table, whose key for a row is shown with the others."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Why")]


class TopApp(App[None]):
    """Nodes above, jobs below. ``sampler`` and ``why`` may block: threads call them."""

    TITLE = "cosched top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: base; }
    #summary { height: 1; text-style: bold; }
    #nodes { height: auto; max-height: 40%; }
    DataTable { height: 1fr; scrollbar-size-vertical: 1; margin-top: 1; }
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

    # -- the parts -------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Summary, nodes, jobs, legend, keys."""
        yield Static(id="summary", markup=False)
        yield Static(id="nodes", markup=False)
        yield Jobs(cell_padding=0, cursor_type="row", zebra_stripes=False)
        yield Static(LEGEND, id="legend", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Takes the first sample, and then one an interval."""
        table = self._table
        for column in COLUMNS:
            label = Text(column.place(column.title) + " ")
            table.add_column(label, width=column.width + 1, key=column.title)
        table.add_column(Text(f"{'trend':<{TREND_WIDTH}}"), width=TREND_WIDTH)
        table.focus()
        self.query_one("#summary", Static).update("asking the nodes ...")
        self.take_sample()
        self.set_interval(self._interval_s, self.take_sample)

    @property
    def _table(self) -> Jobs:
        return self.query_one(Jobs)

    # -- samples ---------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="sample")
    def take_sample(self) -> None:
        """Asks the nodes in a thread of its own; a slow one delays no key."""
        if self._paused:
            return
        try:
            sample = self._sampler()
        except CoschedError as error:
            self.call_from_thread(self._tell, str(error))
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

    def _tell(self, trouble: str) -> None:
        self._trouble = trouble
        self._recent.forget()
        self._draw()

    # -- drawing ---------------------------------------------------------------------

    def _draw(self) -> None:
        self.query_one("#summary", Static).update(self._summary())
        seen = self._seen
        if seen is None:
            return
        nodes = "\n".join(node_line(node) for node in seen.nodes)
        self.query_one("#nodes", Static).update(nodes)
        self._draw_jobs(seen)

    def _summary(self) -> str:
        if self._trouble:
            return self._trouble
        if self._seen is None:
            return "asking the nodes ..."
        order = ", reversed" if self._backwards else ""
        paused = "  PAUSED" if self._paused else ""
        title = COLUMNS[self._sorted_by].title
        return f"{summary(self._seen)}; by {title}{order}{paused}"

    def _draw_jobs(self, seen: View) -> None:
        table = self._table
        selected = self._selected()
        table.clear()
        jobs = sort_jobs(seen.jobs, self._sorted_by, backwards=self._backwards)
        for job in jobs:
            style = _STATE_STYLES.get(job.state, "yellow")
            cells = [Text(column.cell(job) + " ", style) for column in COLUMNS]
            cells.append(Text(sparkline(self._recent.trends.of(job.key)), "cyan"))
            table.add_row(*cells, key=job.key)
        rows = [job.key for job in jobs]
        if selected is not None and selected.key in rows:
            table.move_cursor(row=rows.index(selected.key))

    def _selected(self) -> JobRow | None:
        table = self._table
        if self._seen is None or not table.row_count:
            return None
        key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        return next((job for job in self._seen.jobs if job.key == key), None)

    # -- keys ------------------------------------------------------------------------

    def action_sort(self) -> None:
        """The next column."""
        self._sorted_by = (self._sorted_by + 1) % len(COLUMNS)
        self._draw()

    def action_reverse(self) -> None:
        """The other way round."""
        self._backwards = not self._backwards
        self._draw()

    def action_pause(self) -> None:
        """Stops the picture, or lets it go on with fresh samples."""
        self._paused = not self._paused
        if not self._paused:
            self._recent.forget()
            self.take_sample()
        self._draw()

    def on_data_table_row_selected(self) -> None:
        """Enter, or a click, on a job: why it runs or does not."""
        job = self._selected()
        if job is not None:
            self._ask_why(job)

    @work(thread=True, exclusive=True, group="why")
    def _ask_why(self, job: JobRow) -> None:
        try:
            text = self._why(job)
        except CoschedError as error:
            text = str(error)
        self.call_from_thread(self.push_screen, WhyScreen(job.name, text))
