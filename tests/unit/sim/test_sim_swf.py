"""Reads and writes logs, good and bad lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import Fault, read_swf, seconds, write_swf

HEADER = "; Version: 2.2\n; MaxNodes: 50\n; MaxProcs: 100 and some\n;\n"


def line(number=1, submit=0, run=10, used=4, asked=4, walltime=20, status=1):
    return (
        f"{number} {submit} 7 {run} {used} -1 -1 {asked} {walltime} -1 {status} "
        "3 4 5 1 -1 -1 -1"
    )


@pytest.fixture
def log(tmp_path):
    def write(*lines, header=HEADER, name="log.swf"):
        path = tmp_path / name
        text = (header + "\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_fields_are_read(log, name):
    path = log(
        line(15, 5), "", line(16, 5, run=0, used=3, asked=-1, walltime=-1), name=name
    )
    found = read_swf(path)
    workload = found.workload
    assert not found.skipped
    assert (workload.name, workload.machine, len(workload)) == (name, 100, 2)
    assert list(workload.number) == [15, 16]
    assert list(workload.submit_ns) == [5 * NS_PER_S] * 2
    assert list(workload.run_ns) == [10 * NS_PER_S, 0]
    assert list(workload.size) == [4, 3]
    assert list(workload.walltime_ns) == [20 * NS_PER_S, 0]
    assert list(workload.user) == [3, 3]
    assert list(workload.executable) == [5, 5]


BAD = [
    (Fault.FEW_FIELDS, "1 2 3", "3 where the format has 18"),
    (Fault.NOT_A_NUMBER, line(submit="soon"), "field 2 is 'soon'"),
    (Fault.NOT_A_NUMBER, line(submit="nan"), "field 2 is 'nan'"),
    (Fault.NOT_A_NUMBER, line(run="inf"), "field 4 is 'inf'"),
    (Fault.NOT_A_NUMBER, line(number=10**30), "out of range"),
    (Fault.NOT_A_NUMBER, line(walltime=-(10**12)), "out of range"),
    (Fault.NEGATIVE_SUBMIT, line(submit=-5), "-5 s"),
    (Fault.UNSORTED, line(7, submit=99), "job 7 was submitted before the job above it"),
    (Fault.NO_RUN_TIME, line(7, submit=200, run=-1), "job 7 says -1"),
    (Fault.NEGATIVE_SIZE, line(7, submit=200, asked=-4), "job 7 has -4"),
    (Fault.NEGATIVE_SIZE, line(7, submit=200, used=-2), "job 7 has -2"),
    (Fault.NO_SIZE, line(7, submit=200, used=-1, asked=-1), "job 7 has none"),
    (Fault.NO_SIZE, line(7, submit=200, used=0, asked=0), "job 7 has none"),
    (Fault.TOO_LARGE, line(7, 200, asked=101), "job 7 has size 101, the machine 100"),
]
bad_lines = pytest.mark.parametrize(
    ("fault", "bad", "words"), BAD, ids=[f"{words}" for _, _, words in BAD]
)


@bad_lines
def test_a_bad_line_is_named_by_file_and_line(log, fault, bad, words):
    path = log(line(1, 100), bad)
    with pytest.raises(CoschedError) as error:
        read_swf(path, strict=True)
    text = str(error.value)
    assert text.startswith(f"{path}:6: {fault.value}: ")
    assert words in text
    assert "--strict" in text
    assert "\n" not in text


@bad_lines
def test_bad_lines_are_counted(log, fault, bad, words):
    found = read_swf(log(line(1, 100), bad, bad, line(2, 300)))
    if fault is Fault.UNSORTED:
        assert list(found.workload.number) == [7, 7, 1, 2]
        return
    assert list(found.workload.number) == [1, 2]
    assert found.skipped == {fault: 2}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("last", [3, 4])
def test_a_job_that_was_swapped_out_counts_once(log, last, strict):
    """Its parts come after the line of the whole, and only the first says when it was
    submitted."""
    parts = [
        line(1, 100, run=4, status=2),
        line(1, -1, run=4, status=2),
        line(1, -1, run=2, status=last),
    ]
    whole = line(1, 100, status=4 - last)
    found = read_swf(log(whole, *parts, line(2, 300, status=5)), strict=strict)
    assert list(found.workload.number) == [1, 2]
    assert found.skipped == {Fault.PARTIAL: 3}


def test_fractions_of_seconds(log):
    workload = read_swf(log(line(1, "1.5", run="0.25"), line(2, "2"))).workload
    assert list(workload.submit_ns) == [1_500_000_000, 2 * NS_PER_S]
    assert list(workload.run_ns) == [250_000_000, 10 * NS_PER_S]


@pytest.mark.parametrize(
    ("header", "machine", "size"),
    [("; MaxNodes: 8\n", None, 8), (HEADER, None, 100), (HEADER, 64, 64), ("", 5, 5)],
)
def test_machine_size_comes_from_the_header(log, header, machine, size):
    assert read_swf(log(line(), header=header), machine=machine).workload.machine == size


@pytest.mark.parametrize(
    ("header", "zone_s"),
    [
        ("; TimeZone: -28800\n", -28800),
        ("; TimeZone: 3600 (CET)\n", 3600),
        ("; TimeZone: 864000\n", None),
        ("; TimeZone: unknown\n", None),
        ("; TimeZoneString: US/Pacific\n", None),
    ],
)
def test_time_zone_comes_from_the_header(log, header, zone_s):
    assert read_swf(log(line(), header=HEADER + header)).zone_s == zone_s


def test_a_log_must_say_how_large_its_machine_is(log):
    with pytest.raises(
        CoschedError, match=r"no number as MaxProcs: 'unknown'; give .* --m"
    ):
        read_swf(log(line(), header="; MaxProcs: unknown\n"))


def test_a_log_without_jobs(log):
    with pytest.raises(CoschedError, match=r"no jobs in it \(0 lines"):
        read_swf(log(header="; nothing\n"))
    with pytest.raises(CoschedError, match=r"no jobs in it \(1 lines"):
        read_swf(log("1 2 3"))


@pytest.mark.parametrize("machine", [None, 8])
@pytest.mark.parametrize(
    "text",
    [
        "# A heading\n\nThis page describes a program.\nIt has two lines.\n",
        "a line with as many words as the line of a job has numbers is no line of a job\n",
    ],
)
def test_a_file_without_a_line_of_a_job_is_no_log(tmp_path, text, machine):
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(CoschedError, match=r"README\.md: no log in .*: no line has the 18"):
        read_swf(path, machine=machine)


def test_a_line_before_the_jobs_does_not_hide_that_the_size_is_missing(log):
    with pytest.raises(CoschedError, match="has no MaxProcs before the first job"):
        read_swf(log("some words", line(), header=""))


def test_files_that_cannot_be_read(log, tmp_path):
    with pytest.raises(CoschedError, match="cannot be read"):
        read_swf(tmp_path / "absent.swf")
    with pytest.raises(CoschedError, match="cannot be read"):
        read_swf(tmp_path)
    path = log(*(line(number) for number in range(500)), name="cut.swf.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CoschedError, match="the compressed data is damaged"):
        read_swf(path)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_rubbish_raises_an_error(tmp_path_factory, rubbish):
    path = tmp_path_factory.mktemp("rubbish") / "log.swf"
    path.write_bytes(HEADER.encode() + rubbish)
    with pytest.raises(CoschedError):
        read_swf(path)


def test_written_log_is_read_again(tmp_path):
    workload = generate(Recipe(jobs=200, machine=64, seed=5))
    path = tmp_path / "again.swf"
    with path.open("w") as stream:
        write_swf(workload, stream, ["made here"])
    again = read_swf(path).workload
    again.name = workload.name
    assert again == workload
    assert "; Note: made here\n" in path.read_text()


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0"), (NS_PER_S, "1"), (1, "0.000000001"), (2_500_000_000, "2.5")]
)
def test_seconds_are_exact(ns, text):
    assert seconds(ns) == text


def test_writing_to_a_stream():
    stream = io.StringIO()
    write_swf(generate(Recipe(jobs=1, machine=4)), stream)
    assert len(stream.getvalue().splitlines()[-1].split()) == 18


def test_jobs_out_of_order_are_sorted(log):
    """Jobs of one second stay in the order of the log."""
    path = log(line(1, 300), line(2, 100), line(3, 300), line(4, 100))
    found = read_swf(path)
    assert list(found.workload.number) == [2, 4, 1, 3]
    assert list(found.workload.submit_ns) == [at * NS_PER_S for at in (100, 100, 300, 300)]
    assert not found.skipped


GOOD = "; MaxProcs: 1,024 processors\n" + line(1, 100) + "\n" + line(2, 200) + "\n"


@pytest.mark.parametrize(
    "data",
    [
        bz2.compress(GOOD.encode()),
        lzma.compress(GOOD.encode()),
        b"\xef\xbb\xbf" + GOOD.encode(),
        gzip.compress(b"\xef\xbb\xbf" + GOOD.encode(), mtime=0),
        GOOD.replace("\n", "\r").encode(),
        GOOD.replace(";", "#").encode(),
        GOOD.replace("processors", "caf\xe9").encode("latin-1"),
    ],
)
def test_forms_of_logs(tmp_path, data):
    path = tmp_path / "log"
    path.write_bytes(data)
    found = read_swf(path)
    assert found.workload.machine == 1024
    assert list(found.workload.number) == [1, 2]
    assert not found.skipped


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_log_may_come_through_a_pipe(pack):
    reader, writer = os.pipe()

    def write():
        with open(writer, "wb", buffering=0) as file:
            data = pack(GOOD.encode())
            file.write(data[:1])  # the first bytes may come one by one
            file.write(data[1:])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        found = read_swf(Path(f"/dev/fd/{reader}"))
    finally:
        thread.join()
        os.close(reader)
    assert list(found.workload.number) == [1, 2]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD.encode("utf-16"), "is text in UTF-16; convert it with: iconv"),
        (gzip.compress(GOOD.encode("utf-16-be"), mtime=0), "is not text"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 20, "is compressed by zstd; pipe it: zstd -dc"),
        (b"PK\x03\x04" + b"x" * 20, "is a zip archive"),
        (bz2.compress(GOOD.encode())[:-9], "the compressed data is damaged"),
        (lzma.compress(GOOD.encode())[:-9], "the compressed data is damaged"),
        (b"BZh9" + b"x" * 40, "the compressed data is damaged"),
    ],
)
def test_logs_in_another_form_are_refused_by_one_line(tmp_path, data, words):
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises(CoschedError) as error:
        read_swf(path)
    assert str(error.value).startswith(f"{path}: {words}")
    assert "\n" not in str(error.value)
