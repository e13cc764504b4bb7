"""The screen of cosched top, driven by its library's pilot."""

from __future__ import annotations

import asyncio
import re

import pytest
from textual.widgets import DataTable, Static

from cosched.core.errors import CoschedError
from cosched.observe.top_screen import TopApp, WhyScreen
from tests.unit.top_samples import job, sample, status, task

#: Colours of the frame that the export draws around the screen: not ours.
FRAME = {"c5c8c6", "ff5f57", "febc2e", "28c840"}


class Nodes:
    """Samples a second apart; in each second job b has had the CPUs for 0.75 s."""

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
    table = app.query_one(DataTable)
    return [str(table.get_row_at(i)[0]).strip() for i in range(table.row_count)]


def test_nodes_and_jobs_are_shown():
    async def scenario(app, pilot, nodes):
        assert rows(app) == ["a", "b"]
        assert "1 node, 2 jobs; by job" in text_of(app, "summary")
        assert text_of(app, "nodes").startswith("n1: a, b ")
        shown = str(app.query_one(DataTable).get_row_at(1)[3])
        assert shown.strip() == "75%"

    drive(scenario)


def test_keys_sort_and_reverse():
    async def scenario(app, pilot, nodes):
        await pilot.press("s", "s", "s")
        assert "by share" in text_of(app, "summary")
        assert rows(app) == ["b", "a"]
        await pilot.press("r")
        assert "by share, reversed" in text_of(app, "summary")
        assert rows(app) == ["a", "b"]

    drive(scenario)


def test_a_pause_holds_the_picture_and_asks_nobody():
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


def test_enter_opens_the_why_of_the_job_under_the_cursor():
    async def scenario(app, pilot, nodes):
        await pilot.press("down", "enter")
        await settle(app, pilot)
        assert isinstance(app.screen, WhyScreen)
        assert "because of b" in str(app.screen.query_one(Static).render())
        await pilot.press("escape")
        assert not isinstance(app.screen, WhyScreen)

    drive(scenario)


def test_the_cursor_stays_with_its_job():
    async def scenario(app, pilot, nodes):
        await pilot.press("down")
        nodes.names = ("0", "a", "b")
        for _ in range(2):
            app.take_sample()
            await settle(app, pilot)
        assert rows(app) == ["0", "a", "b"]
        assert app.query_one(DataTable).cursor_row == 2

    drive(scenario)


def test_trouble_is_told_and_does_not_end_the_screen():
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
def test_any_size_of_terminal_will_do(size):
    async def scenario(app, pilot, nodes):
        return app.export_screenshot()

    picture = drive(scenario, Nodes([f"job-{i:03}" for i in range(80)]), size=size)
    assert "job-000" in picture


def test_without_colour_there_is_none(monkeypatch):
    async def scenario(app, pilot, nodes):
        return app.export_screenshot()

    def colours():
        found = set(re.findall(r"fill: #([0-9a-f]{6})", drive(scenario))) - FRAME
        return {c for c in found if len({c[:2], c[2:4], c[4:]}) > 1}

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours()
