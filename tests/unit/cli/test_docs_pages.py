"""Checks the docs: links have targets, every page is linked, quoted errors exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.bench.workload.file import parse_workload
from tests.places import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
SOURCES = [
    path
    for folder, pattern in (
        ("cosched", "*.py"),
        ("daemons", "*.py"),
        ("mpi_shim", "*.py"),
        ("mpi_shim", "*.c"),
        ("cosched/shm", "*.c"),
    )
    for path in (ROOT / folder).rglob(pattern)
]


def links_of(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return [link for link in LINK.findall(text) if not link.startswith("http")]


def anchors_of(page):
    """Returns the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page):
    for link in links_of(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name}: {link}"


def test_index_links_every_page():
    index = DOCS / "README.md"
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(index)}
    assert {page for page in DOCS.rglob("*.md") if page != index} <= listed
    assert "docs/README.md" in links_of(ROOT / "README.md")


def test_every_picture_is_on_a_page():
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in links_of(page)
        if "figures/" in link
    }
    assert {*DOCS.glob("figures/*"), *DOCS.glob("results/figures/*")} <= shown


def fragments(quoted):
    """Returns the fixed parts of a message: between ``...``, names and numbers."""
    parts = re.split(r"\.\.\.|'[^']*'|\(.*?\)|\b[A-Z]+\b|\d+", quoted)
    return [part.strip(" :,;") for part in parts if len(part.strip(" :,;")) > 6]


def test_troubleshooting_quotes_existing_messages():
    text = "\n".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in SOURCES)
    text = re.sub(r"\\?\"\s*\n\s*\"", "", text)
    rows = re.findall(r"^\| `([^`]*)` \|", (DOCS / "troubleshooting.md").read_text(), re.M)
    assert len(rows) > 15
    for quoted in rows:
        found = fragments(quoted)
        assert found, quoted
        for fragment in found:
            assert fragment in text, f"'{quoted}': '{fragment}' is not in any source"


def test_systemd_accepts_the_unit_as_it_is_installed(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine")
    assert "/usr/local/bin/coschedd" in (ROOT / "daemons/cosched.service").read_text()
    (block,) = re.findall(
        r"^```sh\n(sed .*?)^```", (DOCS / "cluster.md").read_text(), re.M | re.S
    )
    for theirs, ours in (
        ("/opt/cosched/lib/systemd/system", ROOT / "daemons"),
        ("/etc/systemd/system", tmp_path),
        ("/opt/cosched/bin", Path(sys.executable).parent),
        ("systemctl ", ": "),
    ):
        assert theirs in block
        block = block.replace(theirs, str(ours))
    (tmp_path / "work").mkdir()
    subprocess.run(["sh", "-ec", block], check=True, cwd=tmp_path / "work", timeout=60)
    run = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "cosched.service"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # systemd before 254 does not have this key, and ignores it.
    lines = [line for line in run.stderr.splitlines() if "DelegateSubgroup" not in line]
    assert (run.returncode, lines) == (0, [])


def test_workload_page_example_is_valid():
    jobs, arrivals = re.findall(
        r"^```toml\n(.*?)^```", (DOCS / "workload-file.md").read_text(), re.M | re.S
    )
    names = [job.name for job in parse_workload(jobs, "w.toml", ROOT).instances()]
    assert names == ["solver.1", "solver.2", "solver.3", "analysis"]
    jobs = re.sub(r"^start = .*", "", jobs, flags=re.M)
    assert parse_workload(f"{jobs}\n{arrivals}", "w.toml", ROOT).arrivals is not None
