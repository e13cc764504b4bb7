"""Checks the report's page in a real browser: its content and its controls."""

from __future__ import annotations

import re

import pytest

from cosched.bench.results.document import document
from cosched.bench.run.arms import Arm
from cosched.bench.workload.file import Workload
from cosched.observe.report.contents import report_data
from cosched.observe.report.page import render_page
from cosched.observe.report.simulations import FIGURES
from cosched.observe.timeline.timeline import timelines
from tests.unit.bench.bench_samples import BATCH, COSCHED, KERNEL, run, summaries
from tests.unit.observe.timeline_samples import TracedNode, two_nodes

WAIT_S = 30
LENGTH_S = 0.2
FIRST_COLOUR = [60, 120, 180]
BOUND = (run(Arm.BOUND, 1, (1.5, 2.0)),)
BENCH = document(
    Workload("two wavefronts", "", ()), summaries(BATCH, KERNEL, COSCHED, BOUND), {}
)
SIMULATION = {
    "command": "cosched sim queue log.swf",
    "version": "1",
    "runs": [
        {
            "trace": "log.swf",
            "policy": policy,
            "estimates": "log",
            "machine": 4,
            "figures": dict.fromkeys(FIGURES, 0.5) | {"jobs": 40, "load": 0.9},
            "course": {
                "step_s": 60.0,
                "used": [0.5, 1.0, 0.25],
                "waits_s": [*range(n, n + 101)],
            },
        }
        for n, policy in enumerate(("fcfs", "easy"))
    ],
}


def until(browser, condition, what):
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(browser, WAIT_S, poll_frequency=0.05).until(
        lambda _: condition(), what
    )


class Page:
    """The page and the actions of a user."""

    def __init__(self, browser, path):
        self.browser = browser
        self.url = path.as_uri()

    def open(self, part=""):
        self.browser.get("about:blank")
        self.browser.get(self.url + part)
        state = "return document.body.dataset.state"
        until(self.browser, lambda: self.browser.execute_script(state), "the page is drawn")
        return self

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def text(self, selector):
        return self.all(selector)[0].text

    @property
    def view(self):
        """Returns the visible interval in seconds, and the number of spans."""
        found = re.fullmatch(r"(\S+ \S+) to (\S+ \S+): (\S+) spans", self.text("#view"))
        return _seconds(found[1]), _seconds(found[2]), int(found[3])

    def at(self, second, height=10):
        """Moves the pointer to a time of the timeline."""
        from selenium.webdriver import ActionChains

        over = self.all(".u-over")[0]
        size = over.size
        x = round((second / LENGTH_S - 0.5) * size["width"])
        y = round(height - size["height"] / 2)
        return ActionChains(self.browser).move_to_element_with_offset(over, x, y)

    def press(self, words):
        (button,) = [one for one in self.all("button") if one.text == words]
        button.click()

    def errors(self):
        return [
            entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"
        ]


def _seconds(text):
    value, unit = text.split()
    return float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    nodes = timelines(node.trace(folder) for node in two_nodes())
    path = folder / "report.html"
    data = report_data(nodes, [BENCH], [SIMULATION])
    path.write_text(render_page("two nodes", data))
    return Page(browser, path)


def test_page_draws_without_errors_and_network(page):
    page.open()
    assert page.text("h1") == "two nodes"
    resources = "return performance.getEntriesByType('resource').length"
    assert page.browser.execute_script(resources) == 0
    assert page.errors() == []


def test_page_shows_figures(page):
    page.open()
    figures = [tile.text.split("\n") for tile in page.all(".figures div")]
    assert ["6", "times a job was scheduled"] in figures
    assert ["1", "pulled by a message"] in figures
    assert ["73.9%", "of the running time on all nodes"] in figures
    rows = [
        row.text.split() for row in page.all("tbody")[0].find_elements("tag name", "tr")
    ]
    assert rows[0][:2] == ["a", "n1,"]
    assert "80.0%" in rows[0]
    assert [value.text for value in page.all(".responses .value")] == [
        "200.0 ms, alone about 150.0 ms: 1.3 times",
        "175.0 ms, alone about 80.00 ms: 2.2 times",
    ]


def test_span_has_colour_of_its_job(page):
    page.open()
    script = """
        const canvas = document.querySelector(".timeline canvas");
        const over = document.querySelector(".timeline .u-over");
        const box = canvas.getBoundingClientRect(), place = over.getBoundingClientRect();
        const scale = canvas.width / box.width;
        const x = (place.left - box.left + place.width * arguments[0]) * scale;
        const pixel = canvas.getContext("2d").getImageData(x, 10 * scale, 1, 1);
        return [...pixel.data].slice(0, 3);
    """
    colours = [page.browser.execute_script(script, part) for part in (0.1, 0.7, 0.95)]
    assert colours[0] == colours[2] == FIRST_COLOUR
    assert colours[1] not in (FIRST_COLOUR, [255, 255, 255])


def test_drag_zooms_and_double_click_shows_all(page):
    page.open()
    assert page.view == (0, pytest.approx(LENGTH_S), 6)
    page.at(0.05).click_and_hold().perform()
    page.at(0.09).release().perform()
    low, high, spans = page.view
    assert (low, high) == (pytest.approx(0.05, abs=0.002), pytest.approx(0.09, abs=0.002))
    assert spans == 2
    hash_ = "return location.hash"
    zoomed = re.compile(r"#0\.0[45]\d+-0\.0[89]\d+")
    until(
        page.browser,
        lambda: zoomed.fullmatch(page.browser.execute_script(hash_)),
        "the address has the view",
    )
    page.at(0.1).double_click().perform()
    assert page.view[:2] == (0, pytest.approx(LENGTH_S))


def test_address_has_visible_interval(page):
    page.open("#0.110-0.120")
    assert page.view == (pytest.approx(0.11), pytest.approx(0.12), 2)


def test_keys_and_buttons_move_the_view(page):
    from selenium.webdriver.common.keys import Keys

    page.open()
    page.press("in")
    assert page.view[:2] == (pytest.approx(0.05), pytest.approx(0.15))
    page.press("right")
    assert page.view[:2] == (pytest.approx(0.075), pytest.approx(0.175))
    host = page.all(".timeline")[0]
    host.send_keys(Keys.ARROW_LEFT)
    host.send_keys("+")
    assert page.view[:2] == (pytest.approx(0.075), pytest.approx(0.125))
    page.press("out")
    page.press("out")
    page.press("out")
    assert page.view[:2] == (0, pytest.approx(LENGTH_S))


def test_wheel_zooms_at_pointer(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    page.open()
    over = page.all(".u-over")[0]
    origin = ScrollOrigin.from_element(over)
    ActionChains(page.browser).scroll_from_origin(origin, 0, -200).perform()
    low, high, _ = page.view
    assert 0.01 < low < 0.1 < high < 0.19
    assert (low + high) / 2 == pytest.approx(0.1, abs=0.002)


def test_pointer_shows_tooltip(page):
    page.open()
    rows = {"n1": 16, "n2": 16 + 26 + 16}
    page.at(0.15, rows["n2"]).perform()
    assert page.text(".tip") == "n2: b\nfrom 130.0 ms for 50.00 ms\npulled by a message"
    page.at(0.15, rows["n1"]).perform()
    assert page.text(".tip").startswith("n1: b\nfrom 100.0 ms for 80.00 ms\nits turn")
    page.at(0.105, rows["n2"] + 14).perform()
    assert page.text(".tip").startswith("n2, a: refused (scheduled)\nat 105.0 ms")
    page.at(0.19, 16 + 2 * 42).perform()
    assert page.text(".tip") == "on all nodes: a\nfrom 180.0 ms for 20.00 ms"


def test_job_can_be_highlighted(page):
    page.open()
    first, second = page.all(".bar .job")[:2]
    first.click()
    pressed = [job.get_attribute("aria-pressed") for job in (first, second)]
    assert pressed == ["true", "false"]
    first.click()
    assert second.get_attribute("aria-pressed") == "true"


def test_page_shows_bench(page):
    page.open()
    values = [value.text for value in page.all(".arms:not(.responses) .value")]
    assert values[:3] == ["2.40 s", "4.22 s", "3.15 s"]
    assert len(page.all(".arms u.left-out")) == 2  # one run, response and makespan
    lines = page.all(".arms b")  # the bound, in the row of each arm
    assert len(lines) == 2 * 4
    left = "return parseFloat(arguments[0].style.left)"
    places = [page.browser.execute_script(left, line) for line in lines[:4]]
    assert places == pytest.approx([1.75 / 9.45 * 98] * 4, rel=1e-4)


def test_page_draws_simulated_queues(page):
    page.open()
    assert (len(page.all(".used canvas")), len(page.all(".waits canvas"))) == (2, 1)
    script = """
        const found = new Set();
        for (const canvas of document.querySelectorAll(arguments[0] + " canvas")) {
          const {width, height} = canvas;
          const pixels = canvas.getContext("2d").getImageData(0, 0, width, height);
          for (let at = 0; at < pixels.data.length; at += 4)
            found.add(pixels.data.slice(at, at + 3).join());
        }
        return [...found];
    """
    for place in (".used", ".waits"):
        colours = page.browser.execute_script(script, place)
        assert {"60,120,180", "217,130,43"} <= set(colours), "the lines of both policies"
    assert page.errors() == []


def test_page_follows_dark_and_light(page):
    page.open()
    colour = "return getComputedStyle(document.body).backgroundColor"
    found = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        found[scheme] = page.browser.execute_script(colour)
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    light, dark = (sum(map(int, re.findall(r"\d+", found[s])[:3])) for s in found)
    assert dark < 150
    assert light > 600
    assert page.errors() == []


def test_damaged_page_shows_error(browser, tmp_path):
    whole = render_page("t", {"timeline": None, "benches": [], "simulations": []})
    path = tmp_path / "r.html"
    path.write_text(re.sub(r'(id="data">.{20}).*?</script>', r"\1</script>", whole))
    page = Page(browser, path).open()
    assert "cannot be drawn" in page.text("main")


def test_halves_have_rows_and_a_job_its_neighbour(browser, tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1, 0)
    node.register(0, "0.b", 2, 1)
    for job, task in (("0.a", 1), ("0.b", 2)):
        node.exit(200, job, task)
    path = tmp_path / "report.html"
    path.write_text(
        render_page("halves", report_data(timelines([node.trace(tmp_path)]), []))
    )
    page = Page(browser, path).open()
    page.at(0.1).perform()
    assert page.text(".tip").startswith("n1: a, beside b\n")
    page.at(0.1, height=36).perform()
    assert page.text(".tip").startswith("n1: b, beside a\n")
    assert page.errors() == []
