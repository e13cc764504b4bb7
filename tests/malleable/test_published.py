"""A published program, made malleable: the page shows what was changed, and both programs
give the same image, also in changes of the size."""

import difflib
import hashlib
import re

import pytest

from benchmarks.mpi import PROGRAMS
from cosched.core.cluster.resizing.agreement import ReportDone
from tests.places import ROOT
from tests.tools.malleable_agents import run_without_agents

PUBLISHED = PROGRAMS / "published"
ORIGINAL = PUBLISHED / "mandelbrot.py"
MALLEABLE = PUBLISHED / "mandelbrot_malleable.py"
#: Of demo/mandelbrot/mandelbrot.py in mpi4py 4.1.2.
DIGEST_OF_IT = "a3caa4a25417089c81ce06ea1ea99777ff6b40bfa3916b3a7635d1a5cf86e45a"
PAGE = (ROOT / "docs" / "malleable.md").read_text()
IMAGE = PROGRAMS / "image.py"
FUTURES = PROGRAMS / "image_futures.py"
SMALL = ("--width", "45", "--height", "30")
LARGE = ("--width", "60", "--height", "800")
DIGEST = re.compile(r"image \(\d+, \d+\) [0-9a-f]{64}\n")

pytestmark = pytest.mark.mpi_job


def changed():
    """Returns the lines of a diff, without the names of the files."""
    old, new = (path.read_text().splitlines() for path in (ORIGINAL, MALLEABLE))
    return list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]


def image(output):
    """Returns the line about the image; the others are times."""
    (line,) = DIGEST.findall(output)
    return line


def test_the_original_is_as_it_was_published():
    assert hashlib.sha256(ORIGINAL.read_bytes()).hexdigest() == DIGEST_OF_IT


def test_the_page_shows_what_was_changed():
    (shown,) = re.findall(r"```diff\n(.*?)```", PAGE, re.S)
    lines = [line for line in changed() if not line.startswith("@@")]
    assert [line for line in shown.splitlines() if line != "..."] == lines


@pytest.mark.one_mpi
def test_images_without_agents_agree(rigid, mpi):
    expected = image(rigid(2, IMAGE, ORIGINAL, *SMALL).stdout)
    assert image(rigid(3, IMAGE, MALLEABLE, *SMALL).stdout) == expected
    words = (mpi / "python", "-m", "mpi4py.futures", FUTURES, *SMALL)
    assert image(run_without_agents(mpi, 2, *words).stdout) == expected


@pytest.mark.one_mpi
def test_image_is_the_same_in_changes_of_the_size(rigid, agents, mpi):
    expected = image(rigid(2, IMAGE, ORIGINAL, *LARGE).stdout)
    played = agents(4)
    played.start(mpi, [0], IMAGE, MALLEABLE, *LARGE)
    assert isinstance(played.resize([], [1, 2]), ReportDone)
    assert isinstance(played.resize([0], [3]), ReportDone)
    assert isinstance(played.resize([1, 3]), ReportDone)
    status, output = played.finish()
    assert status == 0, output
    assert image(output) == expected
