"""A program predicts its time, in Python and in C: what it is asked, what is refused, and
what the queue makes of it."""

import errno
import math
import subprocess

import cffi
import numpy as np
import pytest

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.prediction import predicted
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun, Wants
from cosched.core.cluster.resizing.asked_sizes import asked_sizes
from cosched.core.cluster.resizing.page_records import PREDICTED_MOST
from cosched.malleable.prediction import ask
from cosched.shm.page import Page
from tests.places import ROOT

NATIVE = ROOT / "cosched" / "malleable" / "native"
INCLUDES = (NATIVE / "include", ROOT / "cosched" / "shm" / "include")
#: Stands in for mpi.h: the function needs no MPI.
NO_MPI = "typedef int MPI_Comm; typedef int MPI_Fint;\n"
ffi = cffi.FFI()
ffi.cdef("""
    struct cosched_page_prediction {
        uint32_t count; uint32_t pad0; uint8_t pad1[56]; uint32_t nodes[64];
        uint64_t exec_ns[64];
    };
    int cosched_prediction_ask(struct cosched_page_prediction *,
                               double (*)(int32_t, void *), void *, int32_t, int32_t,
                               char *, size_t);
""")


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    (folder / "mpi.h").write_text(NO_MPI)
    paths = [f"-I{path}" for path in (folder, *INCLUDES)]
    flags = ("-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
    made = folder / "prediction.so"
    source = NATIVE / "prediction.c"
    subprocess.run(["gcc", *flags, *paths, source, "-o", made], check=True)
    return ffi.dlopen(str(made))


def ask_in_c(lib, predict, minimum, ideal):
    """Returns the points, or the line of a refused prediction."""
    prediction = ffi.new("struct cosched_page_prediction *")
    why = ffi.new("char[256]")
    called = ffi.callback("double(int32_t, void *)", lambda nodes, _: predict(nodes))
    error = lib.cosched_prediction_ask(
        *(prediction, called, ffi.NULL, minimum, ideal or 0, why, 256)
    )
    if error:
        assert error == -errno.EINVAL
        return ffi.string(why).decode()
    return tuple(
        (prediction.nodes[place], prediction.exec_ns[place])
        for place in range(prediction.count)
    )


def parabola(nodes):
    """Fastest on 4 nodes."""
    return 0.008 / nodes + 0.0005 * nodes


@pytest.mark.parametrize(
    ("minimum", "ideal"),
    [(1, 8), (1, None), (3, 3), (5, 1000), (100, None), (5000, None), (1, 1 << 20)],
)
def test_both_languages_ask_for_the_same_sizes(lib, minimum, ideal):
    asked = asked_sizes(minimum, ideal)
    assert len(asked) <= PREDICTED_MOST
    assert (asked[0], asked[-1]) == (minimum, ideal or max(minimum, 4096))
    assert asked == sorted(set(asked))
    points = ask(parabola, minimum, ideal)
    assert [nodes for nodes, _ in points] == asked
    assert ask_in_c(lib, parabola, minimum, ideal) == points


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 0.0, 1e12])
def test_wrong_times_are_one_line_in_both_languages(lib, wrong):
    def predict(nodes):
        return 1.0 if nodes < 3 else wrong

    found = ask(predict, 1, 8)
    assert found.startswith("with 3 nodes it is ")
    assert found.endswith(", not a time in seconds")
    assert ask_in_c(lib, predict, 1, 8).partition(" it is ")[0] == "with 3 nodes"


@pytest.mark.parametrize("wrong", [None, "soon", 1j, [0.1]])
def test_a_value_that_is_no_number_is_one_line(wrong):
    assert ask(lambda _: wrong, 1, 8) == (
        f"with 1 nodes it is {wrong!r}, not a time in seconds"
    )


def test_an_exception_of_the_program_is_one_line():
    def predict(nodes):
        return 1 / (nodes - 2) if nodes == 2 else np.float32(nodes)

    assert (
        ask(predict, 1, 4) == "with 2 nodes it raised ZeroDivisionError: division by zero"
    )

    def loud(nodes):
        raise ValueError("a\nb" * 1000)

    assert "\n" not in ask(loud, 1, 4)


def test_prediction_passes_through_the_page(tmp_path):
    page = Page.create(tmp_path / "page", 0, "")
    assert page.prediction() == ()
    points = ask(parabola, 1, 1 << 20)
    page.predict(points)
    assert page.prediction() == points
    page.data.prediction.count = 1 << 31
    assert len(page.prediction()) == PREDICTED_MOST


@pytest.mark.parametrize(
    "points", [(), ((0, 5),), ((2, 5), (2, 4)), ((3, 5), (1, 9)), ((1, 0),)]
)
def test_points_that_cannot_be_right_are_no_model(points):
    assert predicted(points) is None


def run_of(minimum, ideal):
    run = ResizableRun(MalleableJob(0, ideal, 1000, 0, minimum=minimum), ideal, 0)
    run.settle(0)
    return run


def test_prediction_takes_the_place_of_the_fit():
    run = run_of(1, 8)
    points = ask(parabola, 1, 8)
    run.want(Wants(1, 8, 0, points))
    for size in (8, 4):
        run.sense(size, 10, 10 * 8_000_000 // size)  # linear
    assert run.execution(2, 4) == pytest.approx(parabola(2) / parabola(4))
    assert run.end_with_ns(4, 0) == pytest.approx(1000 * parabola(4) / parabola(8), abs=1)
    run.want(Wants(1, 8, 0))
    assert run.execution(2, 4) == pytest.approx(2.0), "the fit holds again"


def test_ideal_follows_from_the_prediction_if_the_program_names_none():
    run = run_of(1, 8)
    run.want(Wants(1, 0, 0, ask(parabola, 1, None)))
    assert (run.minimum, run.ideal) == (1, 4)
    run.want(Wants(5, 0, 0, ask(parabola, 5, None)))
    assert (run.minimum, run.ideal) == (5, 5)
    run.want(Wants(1, 6, 0, ask(parabola, 1, 6)))
    assert (run.minimum, run.ideal) == (1, 6)


def test_time_between_points_is_interpolated():
    model = predicted(((2, 100), (4, 60), (8, 40)))
    times = [model.time_ns(size) for size in (1, 2, 3, 4, 6, 8, 99)]
    assert times == [100, 100, 80, 60, 50, 40, 40]
    assert model.fastest(1, 20) == 8
    assert model.fastest(2, 3) == 3
    assert predicted(((1, 9), (2, 5), (3, 5))).fastest(1, 3) == 2


def test_prediction_of_a_rigid_job_changes_no_bounds():
    run = ResizableRun(Job(0, 3, 9, 0), 3, 0)
    run.want(Wants(1, 0, 0, ((1, 5), (3, 9))))
    assert (run.minimum, run.ideal) == (3, 3)
