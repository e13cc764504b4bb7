"""The environment as both forms of the shim read it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from cosched.core.expectation import LENGTHS_MAX, Prediction
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.units import LENGTH_MAX_NS
from cosched.launch.environment import Part, task_environment
from cosched.shm._native import ffi, lib
from cosched.shm.region_values import read_expectation, read_limits
from mpi_shim.wrapper.task.environment import Environment, text

NUMBER_ENDS = "below 2^64: it is ignored"


@pytest.fixture
def read(monkeypatch):
    """Reads an environment that has these COSCHED_* variables alone."""

    def read(**values):
        for name in os.environ:
            if name.startswith("COSCHED_"):
                monkeypatch.delenv(name)
        for name, value in values.items():
            monkeypatch.setenv(f"COSCHED_{name}", value)
        return Environment()

    return read


def test_environment_without_job_takes_no_part(read):
    for environment in (read(), read(JOB=""), read(WAIT="spin"), read(WAIT="sleep")):
        assert not environment.takes_part
        assert not environment.has_job


def test_environment_defaults(read):
    environment = read(JOB="j", NODE="n")
    data = environment.data
    assert environment.takes_part
    assert text(data.task.job) == "j"
    assert text(data.socket_path) == "/run/cosched/n/register.sock"
    assert data.task.carrier == lib.COSCHED_CARRIER_NONE
    assert (data.task.memory_bytes, data.task.submitted_ns) == (0, 0)
    assert read_expectation(data.task.expectation) == UNKNOWN
    assert data.wait.kind == lib.COSCHED_WAIT_SPIN
    assert not environment.nonblocking_collectives
    assert not data.verbose
    assert environment.warnings == []


def test_environment_busy_is_in_the_registration(read):
    assert read(JOB="j", WAIT="busy").data.task.busy == 1
    assert read(JOB="j", WAIT="yield").data.task.busy == 0
    assert not read(WAIT="busy").takes_part


def test_environment_node_is_the_kernels_name(read):
    assert text(read(JOB="j").data.node) == os.uname().nodename


def test_environment_keeps_the_name_of_the_node(read):
    """Programs that set their title write over the variables that they began with."""
    data = read(JOB="j", NODE="n1").data
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    ctypes.memset(libc.getenv(b"COSCHED_NODE"), ord("x"), 2)
    assert text(data.node) == "n1"


def test_environment_reads_every_variable(read):
    environment = read(
        JOB="j",
        RUN_DIR="/r",
        NODE="n",
        STATUS="prefix",
        VERBOSE="1",
        WAIT="block:20000",
        COLLECTIVES="nonblocking",
        MEMORY="18446744073709551615",
        SUBMITTED="007",
        EXPECTED="18446744073709551615:9,8",
    )
    data = environment.data
    assert text(data.socket_path) == "/r/n/register.sock"
    assert data.task.carrier == lib.COSCHED_CARRIER_PREFIX
    assert (data.wait.kind, data.wait.spin_ns) == (lib.COSCHED_WAIT_BLOCK, 20_000)
    assert (data.task.memory_bytes, data.task.submitted_ns) == (2**64 - 1, 7)
    assert read_expectation(data.task.expectation) == Expectation(2**64 - 1, (9, 8))
    assert environment.nonblocking_collectives
    assert data.verbose
    assert environment.warnings == []


@pytest.mark.parametrize(
    ("wait", "kind"), [("yield", "YIELD"), ("block:0", "BLOCK"), ("auto:20000", "AUTO")]
)
def test_environment_with_wait_alone_takes_part(read, wait, kind):
    environment = read(WAIT=wait)
    assert environment.takes_part
    assert not environment.has_job
    assert environment.data.wait.kind == getattr(lib, f"COSCHED_WAIT_{kind}")


@pytest.mark.parametrize(
    "wait",
    ["sleep", "block", "block:", "block:-1", "block: 5", "block:5us", "auto", "yield:1"],
)
def test_environment_bad_wait_spins_and_warns(read, wait):
    environment = read(JOB="j", WAIT=wait)
    assert environment.data.wait.kind == lib.COSCHED_WAIT_SPIN
    assert environment.warnings == [
        f"COSCHED_WAIT={wait} is not spin, yield, busy, block:NANOSECONDS or "
        "auto:NANOSECONDS: spin is used"
    ]


@pytest.mark.parametrize(
    "number",
    ["-1", "+1", " 1", "1 ", "1e3", "0x10", "1.5", "٣", "100000000000000000000"],
)
@pytest.mark.parametrize("variable", ["MEMORY", "SUBMITTED"])
def test_environment_bad_number_is_ignored_and_warns(read, variable, number):
    environment = read(JOB="j", **{variable: number})
    task = environment.data.task
    assert (task.memory_bytes, task.submitted_ns) == (0, 0)
    (warning,) = environment.warnings
    assert warning.startswith(f"COSCHED_{variable}={number} is not a number of ")
    assert warning.endswith(NUMBER_ENDS)


@pytest.mark.parametrize(
    "expectation",
    [
        Expectation(1),
        Expectation(2**64 - 1, (1,)),
        Expectation(5, tuple(range(1, LENGTHS_MAX + 1))),
        Expectation(5, (LENGTH_MAX_NS,) * LENGTHS_MAX),
    ],
)
def test_environment_reads_the_expectation_of_cosched_run(read, expectation):
    prediction = Prediction(expectation.kind, expectation.lengths_ns)
    part = Part("j", Path("/r"), "none", expectation=prediction)
    added = task_environment({}, part=part, wait="spin", shim=None, verbose=False)
    environment = read(JOB="j", EXPECTED=added["COSCHED_EXPECTED"])
    assert read_expectation(environment.data.task.expectation) == expectation
    assert environment.warnings == []


@pytest.mark.parametrize(
    "text",
    [
        *("soon", "5", ":", ":5", "5:x", "x:5", "5:5:5", "5:5,,5", "5:-1", "5: 1", "5:1.5"),
        *("5:,1", "18446744073709551616:1", "5:18446744073709551616", "5:1;2", "٣:1"),
        *("5:" + "9" * 99, "5:" + ",".join("123456789"), "5:1," * 999),
    ],
)
def test_environment_bad_expectation_is_unknown_and_warns(read, text):
    environment = read(JOB="j", EXPECTED=text)
    assert environment.takes_part
    assert read_expectation(environment.data.task.expectation) == UNKNOWN
    (warning,) = environment.warnings
    assert warning == (
        f"COSCHED_EXPECTED={text:.96} is not KIND:NANOSECONDS,... with at most 8 times: "
        "it is ignored"
    )


@pytest.mark.parametrize("names", [("memory",), ("cpu", "memory", "io", "network")])
def test_environment_reads_what_limits_the_job(read, names):
    environment = read(JOB="j", LIMITED_BY=",".join(names))
    assert read_limits(environment.data.task.limited_by) == names
    assert environment.warnings == []


@pytest.mark.parametrize(
    "text", ["disk", "memory,", ",memory", "memory io", "MEMORY", "io,x"]
)
def test_environment_unknown_resource_counts_for_nothing_and_warns(read, text):
    environment = read(JOB="j", LIMITED_BY=text)
    assert environment.data.task.limited_by == 0
    assert environment.warnings == [
        f"COSCHED_LIMITED_BY={text} is not a list of cpu, memory, io and network: "
        "it is ignored"
    ]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("STATUS", "pigeon"), ("COLLECTIVES", "x"), ("STATUS", "prefix ")],
)
def test_environment_bad_choice_warns(read, variable, value):
    environment = read(JOB="j", **{variable: value})
    assert environment.data.task.carrier == lib.COSCHED_CARRIER_NONE
    assert not environment.nonblocking_collectives
    (warning,) = environment.warnings
    assert warning.startswith(f"COSCHED_{variable}={value} is n")


def test_environment_all_bad_warns_once_each(read):
    names = ("STATUS", "WAIT", "COLLECTIVES", "MEMORY", "SUBMITTED", "EXPECTED")
    bad = dict.fromkeys(names, "x" * 999)
    environment = read(JOB="j", **bad)
    assert len(environment.warnings) == len(bad)
    assert all(len(warning) < 256 for warning in environment.warnings)


def test_environment_bytes_that_are_not_utf8_are_kept(read, monkeypatch):
    environment = read(JOB=os.fsdecode(b"j\xff"), STATUS=os.fsdecode(b"\xfe"))
    assert ffi.string(environment.data.task.job) == b"j\xff"
    assert environment.warnings == [
        "COSCHED_STATUS=\ufffd is not prefix, shadow or none: none is used"
    ]


def test_environment_long_path_is_too_long_for_a_socket(read):
    data = read(JOB="j", NODE="n", RUN_DIR="/" + "d" * 4096).data
    assert len(ffi.string(data.socket_path)) == lib.COSCHED_SOCKET_PATH_BYTES - 1
