"""The shared-memory layout, the ring and the regions, in C and in Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.node.messages import OrderTimer
from cosched.rundir.paths import NodePaths, check_job_name, default_run_dir
from cosched.shm._build import HERE, INCLUDE, declarations
from cosched.shm._native import ffi, lib
from cosched.shm.objects import remove_object
from cosched.shm.region import JobRegion, NodeRegion
from tests.places import ROOT

C_TESTS = ROOT / "tests/c"
STRUCTS = [
    "cosched_header",
    "cosched_heartbeat",
    "cosched_status",
    "cosched_expectation",
    "cosched_ring",
    "cosched_task_identity",
    "cosched_task_counters",
    "cosched_task",
    "cosched_job_region",
    "cosched_timer_orders",
    "cosched_timer_report",
    "cosched_node_region",
    "cosched_hello",
    "cosched_welcome",
]


@pytest.fixture
def name():
    region = f"/cosched-test-{os.getpid()}"
    remove_object(region)
    yield region
    remove_object(region)


@pytest.fixture
def job(name):
    region = JobRegion.create(name, "job", os.geteuid(), os.getegid())
    yield region
    region.close()


def compile_c(tmp_path, source, *flags):
    binary = tmp_path / Path(source).stem
    subprocess.run(
        [
            "gcc",
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{INCLUDE}",
            str(source),
            "-o",
            str(binary),
            "-pthread",
            *flags,
        ],
        check=True,
    )
    return binary


def test_structs_have_same_layout_in_c_and_cffi(tmp_path):
    """Compares the offsets of a C compiler with those that cffi derived from the header."""
    lines = []
    for struct in STRUCTS:
        lines.append(f'printf("{struct} %zu\\n", sizeof(struct {struct}));')
        for field, _ in ffi.typeof(f"struct {struct}").fields:
            lines.append(
                f'printf("{struct}.{field} %zu\\n", offsetof(struct {struct}, {field}));'
            )
    source = tmp_path / "layout.c"
    source.write_text(
        '#include <stdio.h>\n#include "cosched/layout.h"\nint main(void) {\n'
        + "\n".join(lines)
        + "\nreturn 0; }\n"
    )
    binary = compile_c(tmp_path, source)
    output = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    seen = dict(line.split() for line in output.splitlines())
    for struct in STRUCTS:
        assert int(seen[struct]) == ffi.sizeof(f"struct {struct}")
        for field, info in ffi.typeof(f"struct {struct}").fields:
            assert int(seen[f"{struct}.{field}"]) == info.offset


def test_list_of_structs_is_complete():
    assert declarations("layout.h").count("\nstruct ") == len(STRUCTS)


@pytest.mark.parametrize("flags", [(), ("-fsanitize=thread",)], ids=["plain", "tsan"])
def test_ring_under_contention_gives_each_request_once(tmp_path, flags):
    binary = compile_c(tmp_path, C_TESTS / "ring_stress.c", *flags)
    run = subprocess.run(
        [binary, "4", "20000"], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "wrong 0" in run.stdout


def test_ring_survives_producer_killed_in_post(tmp_path):
    binary = compile_c(tmp_path, C_TESTS / "ring_stress.c")
    run = subprocess.run(
        [binary, "kill", "300"], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout


def test_wait_is_no_cancellation_point(tmp_path):
    parts = ("spin_or_sleep", "arrivals", "sharing", "spin_limit", "task", "register")
    sources = [HERE / f"{part}.c" for part in (*parts, "guard")]
    binary = compile_c(tmp_path, C_TESTS / "cancelled.c", *map(str, sources))
    run = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "passed\n"


def test_full_ring_drops_and_counts(job):
    accepted = sum(job.post(lib.COSCHED_CMDSCH, slot=i) for i in range(100))
    assert accepted == lib.COSCHED_RING_CELLS
    assert job.data.ring.dropped == 100 - accepted
    taken = list(job.take_requests())
    assert [request.slot for request in taken] == list(range(accepted))
    assert job.post(lib.COSCHED_CMDOUT)


@given(st.lists(st.integers(0, 100), max_size=40))
def test_ring_is_a_bounded_queue(batches):
    ring = ffi.new("struct cosched_ring *")
    code, slot, epoch = ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.new("uint64_t *")
    model, number = [], 0
    for batch in batches:
        for _ in range(batch):
            posted = lib.cosched_request_post(
                ring, lib.COSCHED_CMDSCH, number % 512, number
            )
            assert (posted == 0) == (len(model) < lib.COSCHED_RING_CELLS)
            if posted == 0:
                model.append(number)
            number += 1
        for _ in range(batch // 2 + 1):
            if lib.cosched_request_take(ring, code, slot, epoch):
                expected = model.pop(0)
                assert (slot[0], epoch[0]) == (expected % 512, expected)
            else:
                assert not model


def test_overwritten_ring_does_not_block_daemon(job):
    cells = ffi.addressof(job.data.ring)
    for index in range(lib.COSCHED_RING_CELLS):
        cells.cells[index] = 2**64 - 1
    assert len(list(job.take_requests())) == lib.COSCHED_RING_CELLS


def test_attach_checks_the_region(name, job):
    other = JobRegion.attach(name)
    other.close()
    with pytest.raises(CoschedError, match="not a cosched region"):
        NodeRegion.attach(name, timeout_s=0)
    job.data.header.abi += 1
    with pytest.raises(CoschedError, match="another version"):
        JobRegion.attach(name, timeout_s=0)
    job.data.header.abi -= 1
    job.data.header.ready = 0
    with pytest.raises(CoschedError, match="did not finish"):
        JobRegion.attach(name, timeout_s=0.02)


def test_attach_to_missing_region_is_reported(name):
    with pytest.raises(CoschedError, match="does not exist"):
        JobRegion.attach(name)


def test_regions_are_private(name, job):
    assert os.stat(f"/dev/shm{name}").st_mode & 0o777 == 0o600


def test_status_is_read_by_other_mapping(name, job):
    other = JobRegion.attach(name)
    job.publish_status(7, True)
    assert other.status() == (7, True)
    job.publish_status(8, False)
    assert other.status() == (8, False)
    other.close()


def test_slots_are_reused_and_cleared(job):
    job.occupy(0, pid=11, start_ticks=5, rank=0, world=2, carrier=1)
    job.occupy(1, pid=12, start_ticks=6, rank=1, world=2, carrier=1)
    job.data.tasks[0].counters.sent = 9
    assert job.free_slot() == 2
    job.vacate(0)
    assert job.live_slots() == [1]
    assert job.free_slot() == 0
    job.occupy(0, pid=13, start_ticks=7, rank=0, world=2, carrier=1)
    assert job.counters(0)["sent"] == 0


def test_timer_orders_are_read_as_written(name):
    region = NodeRegion.create(name)
    orders = OrderTimer(idle=False, align=True, slice_ns=5, deadline_ns=6)
    region.give_orders(orders)
    assert region.orders() == orders
    region.close()


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "x" * 64, "a b", "é"])
def test_bad_job_names_are_refused(bad):
    with pytest.raises(CoschedError, match="job name"):
        check_job_name(bad)


def test_default_run_directories():
    assert default_run_dir({}, 0) == Path("/run/cosched")
    assert default_run_dir({}, 1000) == Path("/tmp/cosched-1000")
    assert default_run_dir({"COSCHED_RUN_DIR": "/x"}, 0) == Path("/x")


def test_run_directories_get_distinct_region_names():
    first, second = NodePaths(Path("/a"), "n"), NodePaths(Path("/b"), "n")
    assert first.node_region != second.node_region
    assert first.job_region("0.x").startswith(first.job_region_prefix)


TEAR = """
import os, sys
from cosched.shm.region import JobRegion, survive_torn_regions
survive_torn_regions()
region = JobRegion.create(sys.argv[1], "job", os.geteuid(), os.getegid())
other = JobRegion.create(sys.argv[1] + "-other", "other", os.geteuid(), os.getegid())
other.publish_status(7, True)
try:
    os.ftruncate(region.fd, 0)
    assert not region.torn
    region.beat()
    assert region.torn and not other.torn
    assert region.take_requests() == [] and region.live_slots() == []
    assert other.status() == (7, True)
    region.close()
finally:
    region.unlink()
    other.unlink()
print("alive")
if sys.argv[2] == "elsewhere":
    import mmap
    memory = mmap.mmap(-1, 4096)
    fd = os.memfd_create("x")
    os.ftruncate(fd, 4096)
    memory = mmap.mmap(fd, 4096)
    os.ftruncate(fd, 0)
    memory[0]
"""


@pytest.mark.parametrize(
    ("where", "status"), [("nowhere", 0), ("elsewhere", -signal.SIGBUS)]
)
def test_truncated_region_does_not_end_guarded_process(name, where, status):
    done = subprocess.run(
        [sys.executable, "-c", TEAR, name, where],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "alive\n", done.stderr
    assert done.returncode == status


def test_run_directory_too_long_for_socket_is_refused():
    NodePaths(Path("/") / ("d" * 88), "n").check_length()
    with pytest.raises(CoschedError, match=r"1 characters too long .*--run-dir"):
        NodePaths(Path("/") / ("d" * 91), "n").check_length()
