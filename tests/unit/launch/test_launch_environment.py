"""The tasks' environment and the default names of jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.expectation import Prediction
from cosched.launch.environment import (
    LAUNCHER,
    RANK_VARIABLES,
    Part,
    carrier_for,
    default_job_name,
    is_run_of,
    launcher_environment,
    submission_ns,
    task_environment,
    wait_policy,
)
from cosched.launch.given.preloads import join_preloads
from cosched.rundir.paths import check_job_name
from tests.places import ROOT

SHIM = Path("/cache/shim.so")


@given(label=st.text(max_size=100), noise=st.binary(min_size=4, max_size=4))
def test_default_name_is_always_a_valid_one(label, noise):
    name = default_job_name(label, noise)
    assert check_job_name(name) == name


def test_default_name_has_program_and_differs_by_run():
    assert default_job_name("my app.py", bytes(4)) == "my-app.py-00000"
    assert default_job_name("app", b"\1\0\0\0") != default_job_name("app", b"\2\0\0\0")
    assert default_job_name("...", bytes(4)).startswith("job-")


@pytest.mark.parametrize(
    ("existing", "merged"),
    [
        ("", "/cache/shim.so"),
        ("/a.so", "/a.so:/cache/shim.so"),
        ("/a.so /b.so", "/a.so:/b.so:/cache/shim.so"),
        (":/a.so:", "/a.so:/cache/shim.so"),
        ("/cache/shim.so:/a.so", "/cache/shim.so:/a.so"),
    ],
)
def test_preload_follows_the_users_preload_once(existing, merged):
    assert join_preloads(existing, [str(SHIM)]) == merged


def environment(**changed):
    chosen = {
        "part": Part("j", Path("/run/cosched"), "prefix"),
        "wait": "spin",
        "shim": SHIM,
        "verbose": False,
        **changed,
    }
    return task_environment({"LD_PRELOAD": "/a.so", "HOME": "/root"}, **chosen)


def test_launcher_inside_a_rank_is_not_a_rank():
    part = Part("inner", Path("/run/cosched"), "shadow")
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        outer = {name: "0", "COSCHED_LAUNCHED": "outer:12"}
        added = task_environment(outer, part=part, wait="spin", shim=SHIM, verbose=False)
        assert added["COSCHED_LAUNCHED"] == "inner:0"


def test_ranks_that_register_in_init_do_not_report_their_start():
    part = Part("j", Path("/run/cosched"), "prefix", registers_in_init=True)
    assert environment(part=part)["COSCHED_LAUNCHED"] == "j:0"
    assert "COSCHED_LAUNCHED" not in environment()


def test_launcher_reports_its_job_if_the_ranks_report_their_start():
    tasks = environment()
    assert launcher_environment(tasks, inside=False) == {**tasks, LAUNCHER: "1"}
    assert launcher_environment(tasks, inside=True) == tasks, "the lab sets the variable"
    in_init = {**tasks, "COSCHED_LAUNCHED": "j:0"}
    for others in ({}, {"COSCHED_WAIT": "block:1"}, in_init):
        assert launcher_environment(others, inside=False) == {}


def test_tasks_environment():
    assert environment() == {
        "COSCHED_JOB": "j",
        "COSCHED_RUN_DIR": "/run/cosched",
        "COSCHED_STATUS": "prefix",
        "COSCHED_WAIT": "spin",
        "LD_PRELOAD": "/a.so:/cache/shim.so",
    }
    assert environment(verbose=True)["COSCHED_VERBOSE"] == "1"
    needy = Part("j", Path("/run/cosched"), "prefix", memory_bytes=8 << 30)
    assert environment(part=needy)["COSCHED_MEMORY"] == "8589934592"
    dated = Part("j", Path("/run/cosched"), "prefix", submitted_ns=17)
    assert environment(part=dated)["COSCHED_SUBMITTED"] == "17"
    for lengths_ns, text in (((), "5:"), ((7,), "5:7"), ((7, 8), "5:7,8")):
        alike = Part("j", Path("/r"), "prefix", expectation=Prediction(5, lengths_ns))
        assert environment(part=alike)["COSCHED_EXPECTED"] == text


def test_submission_time_is_read_from_environment():
    assert submission_ns({}, 5) == 5
    assert submission_ns({"COSCHED_SUBMITTED": "3"}, 5) == 3
    for wrong in ("yesterday", "-1", "1.5", str(1 << 63)):
        with pytest.raises(CoschedError, match="COSCHED_SUBMITTED"):
            submission_ns({"COSCHED_SUBMITTED": wrong}, 5)


def test_wrapper_without_shim_gets_the_job_name():
    assert "LD_PRELOAD" not in environment(shim=None)
    assert environment(shim=None)["COSCHED_JOB"] == "j"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("spin", "spin"),
        ("yield", "yield"),
        ("block", "block:20000"),
        ("block:0us", "block:0"),
        ("block:1.5ms", "block:1500000"),
        ("auto", "auto:20000"),
        ("auto:50us", "auto:50000"),
        ("busy", "busy"),
    ],
)
def test_wait_policy_is_written_for_the_shim(text, policy):
    assert wait_policy(text) == policy


@pytest.mark.parametrize(
    "text", ["", "sleep", "block:", "block:20", "spin:1us", "yield:", "auto:", "busy:1us"]
)
def test_wrong_wait_policy_is_refused(text):
    with pytest.raises(CoschedError, match=r"^wait( '|: ')"):
        wait_policy(text)


@pytest.mark.parametrize(
    ("asked", "interposer", "wrapped", "carrier"),
    [
        ("auto", True, False, "shadow"),
        ("auto", True, True, "shadow"),
        ("auto", False, False, "shadow"),
        ("auto", False, True, "none"),
        ("prefix", True, True, "prefix"),
        ("shadow", False, True, "shadow"),
        ("none", False, False, "none"),
    ],
)
def test_auto_carrier_depends_on_the_shim(asked, interposer, wrapped, carrier):
    assert carrier_for(asked, interposer=interposer, wrapped=wrapped) == carrier


def test_waits_only_sets_no_job():
    assert environment(part=None, wait="yield") == {
        "COSCHED_WAIT": "yield",
        "LD_PRELOAD": "/a.so:/cache/shim.so",
    }


@pytest.mark.parametrize(
    ("name", "asked", "is_run"),
    [
        ("night", "night", True),
        ("night-12", "night", True),
        ("my-job-12", "my job", True),
        ("wavefront-54uqa", "wavefront", True),
        ("wavefront-54uqa", "wavefront-54uqa", True),
        ("wavefront-large", "wavefront", False),
        ("night-12", "nigh", False),
        ("12", "night", False),
    ],
)
def test_name_on_nodes_is_found_by_the_name_that_the_user_gave(name, asked, is_run):
    assert is_run_of(name, asked) is is_run


def test_launcher_and_shim_recognise_a_rank_by_the_same_variables():
    text = (ROOT / "mpi_shim/interposer/launch.c").read_text()
    (names,) = re.findall(r"\branks\[\] = \{([^}]*)\}", text)
    assert tuple(re.findall(r'"(\w+)"', names)) == RANK_VARIABLES
    assert re.findall(r'#define LAUNCHER "(\w+)"', text) == [LAUNCHER]
