"""Checks the dashboard in a real browser, beside a domain and daemons that are played."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.browser.test_report_page import until
from tests.tools.played_site import Played, Site, playing

HOSTILE = "<img src=x onerror=document.title='broken'>"
#: Counts the colours of the palette in a canvas.
COLOURS = """
    const canvas = document.querySelector(arguments[0]), seen = new Set();
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4)
      seen.add([data[at], data[at + 1], data[at + 2]].join());
    const part = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
    const isSeen = (hex) => seen.has([1, 3, 5].map((at) => part(hex, at)).join());
    return PALETTE.filter(isSeen).length;
"""


@pytest.fixture(scope="module")
def played():
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        run_dir = Path(name) / "run"
        run_dir.mkdir()
        site = Played(Site(nodes=4, jobs=150, at_s=time.time()), run_dir)
        site.is_coupled = True
        with playing(site):
            yield site


@pytest.fixture(scope="module")
def url(played):
    served = subprocess.Popen(
        [
            *(sys.executable, "-m", "cosched.cli.main", "dashboard", "--no-open"),
            *("--interval", "0.5", "--run-dir", str(played.run_dir)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield served.stdout.readline().strip()
    served.terminate()
    served.wait()


class Page:
    """The page and the actions of a user."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.get("about:blank")
        browser.get(url)
        self.until("document.body.dataset.state === 'drawn'")

    def run(self, script):
        return self.browser.execute_script("return " + script)

    def until(self, condition):
        until(self.browser, lambda: self.run(condition), condition)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def text(self, selector):
        from selenium.common.exceptions import StaleElementReferenceException

        with contextlib.suppress(StaleElementReferenceException):
            return self.all(selector)[0].text
        return self.all(selector)[0].text  # the page has drawn it again meanwhile

    def press(self, keys):
        self.run("(document.activeElement.blur(), 1)")
        self.all("body")[0].send_keys(keys)

    def rows(self):
        """Returns the cells of the queue's table, row by row."""
        cells = "[...row.cells].map((cell) => cell.textContent)"
        return self.run(
            f"[...document.querySelectorAll('#queue tbody tr')].map((row) => {cells})"
        )

    def colours(self, chart):
        """Returns how many colours of jobs a chart shows."""
        return self.browser.execute_script(COLOURS, f"{chart} canvas")


@pytest.fixture
def page(browser, url):
    return Page(browser, url)


def test_page_loads_from_its_server_alone_and_has_no_errors(page, browser, url):
    loaded = page.run("performance.getEntriesByType('resource').map((one) => one.name)")
    assert loaded
    assert all(name.startswith(url) for name in loaded)
    assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []


def test_nodes_jobs_queue_and_daemons_are_there(page):
    assert page.text("#totals div").split("\n") == ["4 of 4", "nodes up"]
    assert page.colours("#nodes") >= 3
    assert page.colours("#jobs") >= 3
    assert len(page.all("#health tbody tr")) == 4
    rows = page.rows()
    states = [row[5].split()[1] for row in rows]
    assert states == sorted(states, key=["running", "queued", "failed", "done"].index)
    waiting = rows[states.index("queued")]
    assert waiting[6].startswith("~")
    assert waiting[9] == f"needs {waiting[3]} nodes, 0 free"
    assert rows[states.index("queued") + 1][9].startswith("1 before; needs ")


def test_other_domains_and_jobs_with_mates_are_there(page):
    up, down = (each.text for each in page.all("#domains li"))
    assert up == "eureka ✓ answers; jobs here with a mate there: 1 waiting, 1 running"
    assert down.startswith("lens ✕ has not answered for ")
    rows = [row.text for row in page.all("#pairs tbody tr")]
    assert len(rows) == 3
    assert "holds its nodes" in rows[0]
    assert "started with eureka:812" in rows[2]


def test_halves_of_a_node_have_lanes_of_their_own(page):
    stays = (
        "[{job: '1', begin: 0, end: 9, half: 'bottom'}, "
        "{job: '2', begin: 1, end: 5, half: 'top'}, {job: '3', begin: 9, end: 12}]"
    )
    found = page.run(f"inLanes({stays}).stays.map((one) => [one.lane, one.tall])")
    assert found == [[1, 1], [0, 1], [0, 2]]
    words = page.run("beside({halves: ['top', 'top'], beside: ['7', '9']})")
    assert words == ": top, beside job 7 and job 9"
    assert page.run("beside({halves: ['bottom'], beside: []})") == ": bottom, beside no job"
    assert page.run("beside({halves: [], beside: []})") == ""


def test_page_moves(page):
    before, view = page.run("[dashboard.feed.version, dashboard.nodeChart.view[1]]")
    page.until(f"dashboard.feed.version > {before} + 1")
    assert page.run("dashboard.nodeChart.view[1]") > view


def test_pause_stops_it_and_p_lets_it_go_on(page):
    page.all("#pause")[0].click()
    page.until("!dashboard.feed.asking")
    before = page.run("dashboard.feed.version")
    assert "paused" in page.text("#live")
    page.press("p")
    page.until(f"dashboard.feed.version > {before}")


def test_a_click_explains_a_job(page):
    button = page.all("#queue tbody button")[0]
    number = button.text
    button.click()
    page.until("document.querySelector('#why pre').textContent.startsWith('job ')")
    assert page.text("#why pre").startswith(f"job {number}: running on ")
    facts = page.text("#why dl")
    assert "program" in facts
    from selenium.webdriver.common.keys import Keys

    page.all("#why")[0].send_keys(Keys.ESCAPE)
    assert page.run("!document.querySelector('#why').open")


def test_keyboard_explains_the_job_of_a_row(page):
    from selenium.webdriver.common.keys import Keys

    page.run("(document.querySelector('#jobs .rows').focus(), 1)")
    rows = page.browser.switch_to.active_element
    rows.send_keys(Keys.ARROW_DOWN + Keys.ARROW_DOWN + Keys.ENTER)
    page.until("document.querySelector('#why').open")
    assert page.text("#why-title") == page.run("dashboard.bars.label(1)")


def test_chart_follows_the_present_until_the_user_chooses_a_time(page):
    page.all("#nodes .tools button")[1].click()
    assert page.run("dashboard.nodeChart.follows") is False
    low, high = page.run("dashboard.nodeChart.view")
    assert high - low < 60
    page.all("#nodes .tools button")[4].click()
    assert page.run("dashboard.nodeChart.follows") is True


def test_chart_of_jobs_has_no_rows_for_those_that_ended_long_before(page):
    has_row = """(() => {
        const id = dashboard.queue.ids[3], job = dashboard.feed.jobs.get(id);
        const kept = {...job};
        Object.assign(job, {state: "done", began_ms: 1000, ended_ms: 2000});
        dashboard.drawJobs();
        const found = dashboard.bars.ids.includes(id);
        Object.assign(job, kept);
        return found;
    })()"""
    assert page.run(has_row) is False
    page.all("#jobs .tools button")[1].click()  # a time of the user's choice
    assert page.run(has_row) is True


def test_search_and_choices(page):
    every = page.run("dashboard.queue.ids.length")
    page.press("/")
    page.browser.switch_to.active_element.send_keys("n2")
    page.until(f"dashboard.queue.ids.length < {every}")
    assert all(
        "n2" in row
        for row in page.run(
            "dashboard.queue.ids.map((id) => dashboard.feed.jobs.get(id).nodes)"
        )
    )
    page.browser.refresh()
    page.until("document.body.dataset.state === 'drawn'")
    page.all(".choice button")[2].click()
    assert {row[5] for row in page.rows()} == {"◷ queued"}


def test_long_queue_comes_in_pieces(page):
    assert page.run("dashboard.queue.ids.length") > 100
    assert len(page.rows()) == 100
    page.all("#more")[0].click()
    assert len(page.rows()) > 100


def test_name_of_a_job_is_text(page, played):
    played.hostile = HOSTILE
    try:
        page.until("document.querySelector('#queue td.name').textContent.includes('<img')")
        page.all("#queue tbody button")[0].click()
        page.until("document.querySelector('#why pre').textContent.includes('<img')")
        assert page.all("img") == []
        assert "broken" not in page.browser.title
    finally:
        played.hostile = ""


def test_phone(page):
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.browser.refresh()
        page.until("document.body.dataset.state === 'drawn'")
        assert page.run("document.documentElement.scrollWidth") == 360
        assert (
            page.run("getComputedStyle(document.querySelector('.wide')).display") == "none"
        )
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_page_reports_that_its_server_has_ended(browser, played):
    served = subprocess.Popen(
        [
            *(sys.executable, "-m", "cosched.cli.main", "dashboard", "--no-open"),
            *("--interval", "0.5", "--run-dir", str(played.run_dir)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    page = Page(browser, served.stdout.readline().strip())
    served.terminate()
    served.wait()
    page.until("document.body.dataset.state === 'failed'")
    assert "start it again" in page.text("#troubles")
    assert browser.get_log("browser")  # of the requests that failed; none is left
