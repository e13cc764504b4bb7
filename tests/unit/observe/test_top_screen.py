"""Drives the screen of cosched top with textual's pilot."""

from __future__ import annotations

import asyncio
import re

import pytest
from rich.style import Style
from textual.widgets import Static

from cosched.core.errors import CoschedError
from cosched.observe.top.job_columns import LEGEND
from cosched.observe.top.row_list import Row, Rows
from cosched.observe.top.screen import TopApp, WhyScreen
from tests.unit.observe.top_samples import job, sample, status, task

#: Colours of the frame that textual draws around an exported screen.
FRAME = {"c5c8c6", "ff5f57", "febc2e", "28c840"}


class Nodes:
    """Returns samples one second apart; in each second job b has the CPUs for 0.75 s."""

    def __init__(self, names=("a", "b")):
        self.names = names
        self.asked = 0
        self.trouble = ""

    def __call__(self):
        if self.trouble:
            raise CoschedError(self.trouble)
        self.asked += 1
        shares = {"a": 0.25, "b": 0.75}
        jobs = [
            job(name, [task(n)], scheduled_s=shares.get(name, 0.1) * self.asked)
            for n, name in enumerate(self.names)
        ]
        return sample(float(self.asked), status("n1", jobs))


def drive(scenario, nodes=None, why=lambda row: f"because of {row.name}", size=(80, 24)):
    nodes = nodes or Nodes()

    async def run():
        app = TopApp(nodes, 3600, why)  # samples only when the test asks for them
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            app.take_sample()
            await settle(app, pilot)
            return await scenario(app, pilot, nodes)

    return asyncio.run(run())


async def settle(app, pilot):
    await app.workers.wait_for_complete()
    await pilot.pause()


def text_of(app, name):
    return str(app.query_one(f"#{name}", Static).render())


def rows(app):
    return [line.split()[0] for line in lines(app)[1:] if line.strip()]


def lines(app):
    """Returns the drawn lines: the heading and the visible rows."""
    table = app.query_one(Rows)
    return [table.render_line(y).text for y in range(table.size.height)]


def test_screen_shows_nodes_and_jobs():
    async def scenario(app, pilot, nodes):
        assert rows(app) == ["a", "b"]
        assert "1 node, 2 jobs; by job" in text_of(app, "summary")
        assert text_of(app, "nodes").startswith("n1: a, b ")
        assert lines(app)[0].split()[:4] == ["job", "rk", "on", "ran/exp"]
        assert lines(app)[2].split()[:4] == ["b", "1", "1/1", "1.5s/?"]
        assert "agree: on all nodes at once" in text_of(app, "legend")
        assert app.query_one("#legend").size.height == len(LEGEND.splitlines())

    drive(scenario)


def test_keys_sort_and_reverse_jobs():
    async def scenario(app, pilot, nodes):
        await pilot.press("s", "s", "s", "s")
        assert "by share" in text_of(app, "summary")
        assert rows(app) == ["b", "a"]
        await pilot.press("r")
        assert "by share, reversed" in text_of(app, "summary")
        assert rows(app) == ["a", "b"]

    drive(scenario)


def test_pause_freezes_screen_and_takes_no_sample():
    async def scenario(app, pilot, nodes):
        await pilot.press("p")
        asked = nodes.asked
        app.take_sample()
        await settle(app, pilot)
        assert nodes.asked == asked
        assert "PAUSED" in text_of(app, "summary")
        await pilot.press("p")
        await settle(app, pilot)
        assert nodes.asked == asked + 1
        assert "PAUSED" not in text_of(app, "summary")

    drive(scenario)


def test_enter_shows_why_for_job_under_cursor():
    async def scenario(app, pilot, nodes):
        await pilot.press("down", "enter")
        await settle(app, pilot)
        assert isinstance(app.screen, WhyScreen)
        assert "because of b" in str(app.screen.query_one(Static).render())
        await pilot.press("escape")
        assert not isinstance(app.screen, WhyScreen)

    drive(scenario)


def test_cursor_stays_with_its_job():
    async def scenario(app, pilot, nodes):
        await pilot.press("down")
        nodes.names = ("0", "a", "b")
        for _ in range(2):
            app.take_sample()
            await settle(app, pilot)
        assert rows(app) == ["0", "a", "b"]
        assert app.query_one(Rows).cursor == 2
        nodes.names = ("0", "a")
        for _ in range(2):
            app.take_sample()
            await settle(app, pilot)
        assert rows(app) == ["0", "a"]
        assert app.query_one(Rows).chosen == "7.a"

    drive(scenario)


def test_long_table_scrolls_below_its_heading():
    async def scenario(app, pilot, nodes):
        for key, top, chosen in (
            ("end", "job-0", "job-079"),
            ("home", "job-000", "job-000"),
            ("pagedown", "job-0", None),
        ):
            await pilot.press(key)
            await settle(app, pilot)
            table = app.query_one(Rows)
            assert lines(app)[0].startswith("job ")
            assert rows(app)[0].startswith(top)
            assert table.chosen.removeprefix("7.") in rows(app)
            assert chosen is None or table.chosen == f"7.{chosen}"
            assert max(map(len, lines(app))) <= 80
        assert 0 < table.cursor < 79

    drive(scenario, Nodes([f"job-{i:03}" for i in range(80)]))


def test_click_chooses_its_row():
    async def scenario(app, pilot, nodes):
        await pilot.click(Rows, offset=(3, 2))
        await settle(app, pilot)
        assert isinstance(app.screen, WhyScreen)
        assert "because of b" in str(app.screen.query_one(Static).render())

    drive(scenario)


def test_update_draws_only_changed_lines():
    async def scenario(app, pilot, nodes):
        table = app.query_one(Rows)
        drawn = []
        draw = table.render_line
        table.render_line = lambda y: drawn.append(y) or draw(y)
        held = table.rows
        table.show(held)
        await settle(app, pilot)
        assert drawn == []
        table.show([held[0], Row("7.b", (("other", Style()),))])
        await settle(app, pilot)
        assert drawn == [2]

    drive(scenario)


def test_error_is_shown_and_screen_continues():
    async def scenario(app, pilot, nodes):
        nodes.trouble = "no daemons are up"
        app.take_sample()
        await settle(app, pilot)
        assert text_of(app, "summary") == "no daemons are up"
        nodes.trouble = ""
        for _ in range(2):
            app.take_sample()
            await settle(app, pilot)
        assert "2 jobs" in text_of(app, "summary")

    drive(scenario)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (200, 60)])
def test_screen_works_at_any_terminal_size(size):
    async def scenario(app, pilot, nodes):
        return app.export_screenshot()

    picture = drive(scenario, Nodes([f"job-{i:03}" for i in range(80)]), size=size)
    assert "job-000" in picture


def test_no_color_removes_colours(monkeypatch):
    async def scenario(app, pilot, nodes):
        return app.export_screenshot()

    def colours():
        found = set(re.findall(r"fill: #([0-9a-f]{6})", drive(scenario))) - FRAME
        return {c for c in found if len({c[:2], c[2:4], c[4:]}) > 1}

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours()
