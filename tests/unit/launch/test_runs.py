"""The user's record of runs, and its use by cosched-run. No fault of it fails a job."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.expectation import Likeness, PastRun, Prediction
from cosched.core.units import LENGTH_MAX_NS, NS_PER_S
from cosched.jobs import expected
from cosched.jobs.expected import Lengths
from cosched.launch import run_record
from cosched.launch.run_record import (
    FILE_BYTES,
    add_run,
    read_runs,
    read_useful_runs,
    record_of_runs,
)
from cosched.rundir.paths import NodePaths

HEAT = Likeness("/bin/heat heat", ("--size", "4096"), 4)
LINE = {
    **{"cosched_runs": 1, "program": "/bin/heat heat", "args": ["--size", "4096"]},
    **{"ranks": 4, "length_ns": 9},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state/cosched/runs.jsonl"


@pytest.fixture
def written(path):
    """Writes the text of the file, with the mode that cosched-run gives it."""

    def write(text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        path.chmod(0o600)

    return write


def encoded(**changed):
    return json.dumps({**LINE, **changed}).encode() + b"\n"


def lengths_in(path):
    return [run.length_ns for run in read_runs(path)]


# -- the file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.local/state/cosched/runs.jsonl"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/cosched/runs.jsonl"),
        ({"HOME": "/h", "COSCHED_RUNS": "/x/mine"}, "/x/mine"),
        ({"HOME": "/h", "COSCHED_RUNS": ""}, "/h/.local/state/cosched/runs.jsonl"),
        ({"HOME": "/h", "COSCHED_RUNS": "off"}, None),
        ({}, None),
    ],
)
def test_file_follows_environment(environ, expected):
    found = record_of_runs(environ)
    assert (found and str(found)) == expected


def test_runs_are_read_back_in_order(path):
    own_launcher = Likeness("/bin/srun heat", ("-n", "4", "ä\n"), None)
    added = [PastRun(HEAT, 1), PastRun(own_launcher, 2), PastRun(HEAT, LENGTH_MAX_NS)]
    for run in added:
        add_run(path, run)
    assert read_runs(path) == added
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_missing_file_has_no_runs(path):
    assert read_runs(path) == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"\0" * 100,
        b"\xff\xfe\n",
        b"[1]\n",
        b"not json\n",
        encoded()[:30],
        encoded(cosched_runs=2),
        encoded(length_ns=0),
        encoded(length_ns=-1),
        encoded(length_ns=LENGTH_MAX_NS + 1),
        encoded(length_ns=1.5),
        encoded(args="--size"),
        encoded(program=None),
        b'{"cosched_runs":1}\n',
    ],
)
def test_invalid_line_is_ignored_and_the_others_count(path, written, line):
    written(encoded(length_ns=1) + line)
    assert lengths_in(path) == [1]
    add_run(path, PastRun(HEAT, 2))
    assert lengths_in(path) == [1, 2]


@given(st.binary(max_size=300))
def test_no_content_fails_a_job(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("state") / "runs.jsonl"
    path.write_bytes(content)
    path.chmod(0o600)
    read_runs(path)
    add_run(path, PastRun(HEAT, 7))
    assert lengths_in(path)[-1] == 7


def test_file_stays_bounded_and_keeps_the_last_runs(path, monkeypatch):
    monkeypatch.setattr(run_record, "FILE_BYTES", 2000)
    for number in range(1, 200):
        add_run(path, PastRun(HEAT, number))
        assert path.stat().st_size <= 2000
        kept = lengths_in(path)
        assert kept == list(range(kept[0], number + 1))
    assert len(kept) > 2000 / 2 / len(encoded(length_ns=100)) - 1


def test_larger_file_is_cut(path, written):
    """Another program made it larger: only its end counts."""
    written(encoded(length_ns=1) + b"x" * 2 * FILE_BYTES + b"\n" + encoded(length_ns=2))
    assert lengths_in(path) == [2]
    add_run(path, PastRun(HEAT, 3))
    assert path.stat().st_size < FILE_BYTES
    assert lengths_in(path) == [2, 3]


@pytest.mark.parametrize("arg", ["x" * FILE_BYTES, "\udcff"], ids=["long", "no text"])
def test_run_that_cannot_be_a_line_is_not_recorded(path, arg):
    add_run(path, PastRun(Likeness("/bin/heat heat", (arg,), 1), 5))
    assert read_runs(path) == []


def test_launchers_that_end_together_lose_no_run(path):
    code = (
        "import sys; from pathlib import Path\n"
        "from cosched.core.expectation import Likeness, PastRun\n"
        "from cosched.launch.run_record import add_run\n"
        "for number in range(50):\n"
        "    add_run(Path(sys.argv[1]), PastRun(Likeness('p', (sys.argv[2],), 1), 9))\n"
    )
    launchers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)])
        for number in range(4)
    ]
    assert [launcher.wait(60) for launcher in launchers] == [0] * 4
    found = [run.likeness.args[0] for run in read_runs(path)]
    assert sorted(found) == sorted("0123" * 50)


def test_locked_file_delays_no_job_for_long(path, written, monkeypatch):
    monkeypatch.setattr(run_record, "LOCK_S", 0.05)
    written(encoded())
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CoschedError, match="another process has it locked"):
            add_run(path, PastRun(HEAT, 5))
        assert lengths_in(path) == [9]


def test_file_system_without_locks_will_do(path, monkeypatch):
    def flock(_descriptor, _operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    add_run(path, PastRun(HEAT, 5))
    assert lengths_in(path) == [5]


def test_full_disk_leaves_the_file_as_it_was(path, written, monkeypatch):
    written(encoded())
    write = os.pwrite

    def pwrite(descriptor, data, offset):
        if len(data) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:-10], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(CoschedError) as caught:
        add_run(path, PastRun(HEAT, 5))
    assert str(caught.value) == f"{path}: No space left on device"
    assert path.read_bytes() == encoded()


def in_place_of_file(path):
    path.parent.mkdir(parents=True)
    path.mkdir()


def in_place_of_folder(path):
    path.parent.parent.mkdir()
    path.parent.write_text("")


def fifo(path):
    path.parent.mkdir(parents=True)
    os.mkfifo(path, 0o600)


def open_to_others(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(encoded())
    path.chmod(0o666)


def of_another_user(path):
    if os.geteuid() != 0:
        pytest.skip("gives a file away: needs root")
    open_to_others(path)
    path.chmod(0o600)
    os.chown(path, 12345, -1)


BROKEN = [
    (in_place_of_file, "runs.jsonl: "),
    (in_place_of_folder, "state/cosched"),
    (fifo, "runs.jsonl: not a regular file"),
    (open_to_others, "runs.jsonl: other users can write it; use chmod go-w"),
    (of_another_user, "runs.jsonl: belongs to another user"),
]


@pytest.mark.parametrize(("spoil", "words"), BROKEN)
def test_unusable_file_is_one_line(path, spoil, words):
    spoil(path)
    for use in (read_runs, lambda path: add_run(path, PastRun(HEAT, 5))):
        with pytest.raises(CoschedError) as caught:
            use(path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_refusal_of_the_kernel_is_one_line(path, monkeypatch, code):
    def refuse(name, *_arguments, **_options):
        raise OSError(code, os.strerror(code), str(name))

    monkeypatch.setattr(os, "open", refuse)
    for use in (read_runs, lambda path: add_run(path, PastRun(HEAT, 5))):
        with pytest.raises(CoschedError) as caught:
            use(path)
        assert str(caught.value) == f"{path}: {os.strerror(code)}"


# -- cosched-run ---------------------------------------------------------------------------


@pytest.fixture
def lengths(path, monkeypatch):
    """The record in ``path``; its warnings are in ``lengths.warnings``."""
    monkeypatch.setenv("COSCHED_RUNS", str(path))
    found = []
    lengths = Lengths(found.append)
    return SimpleNamespace(expectation=lengths.expectation, add=lengths.add, warnings=found)


def job(*args, ranks=2):
    layout = None if ranks is None else SimpleNamespace(ranks=ranks)
    return SimpleNamespace(argv=("/bin/sh", *args), label="sh", layout=layout)


def ended(monkeypatch, *lengths_s):
    """Has the daemons of three nodes report these lengths of an ended job; others have no
    complete record."""
    answers = [
        {"running": False, "length_ns": s and round(s * NS_PER_S)} for s in lengths_s
    ]

    @contextmanager
    def client(_paths):
        def request(op, **_arguments):
            assert op == "length"
            return answers.pop(0)

        if not answers:
            raise NoDaemon("node n: no scheduler daemon is up")
        yield SimpleNamespace(request=request)

    monkeypatch.setattr(expected, "ControlClient", client)


NODES = [NodePaths(Path("/run"), name) for name in ("n1", "n2", "n3")]


def test_users_estimate_comes_before_earlier_runs(lengths, monkeypatch):
    kind = lengths.expectation(job("a"), None).kind
    assert kind
    assert lengths.expectation(job("a"), None) == Prediction(kind)
    ended(monkeypatch, 2.0, 3.0)
    lengths.add(job("a"), "name", NODES, 0)
    assert lengths.expectation(job("a"), None) == Prediction(kind, (3 * NS_PER_S,))
    assert lengths.expectation(job("a"), 5) == Prediction(kind, (5,))
    assert lengths.expectation(job("b"), None).lengths_ns == ()
    assert lengths.expectation(job("a", ranks=None), None).lengths_ns == ()
    assert lengths.warnings == []


@pytest.mark.parametrize(
    "reported",
    [(), (0.0,), (None, None)],
)
def test_unknown_length_is_not_recorded(lengths, path, monkeypatch, reported):
    ended(monkeypatch, *reported)
    lengths.add(job("a"), "name", NODES, 0)
    assert not path.exists()


def test_record_that_is_off_is_neither_read_nor_written(monkeypatch):
    monkeypatch.setenv("COSCHED_RUNS", "off")
    ended(monkeypatch, 2.0)
    lengths = Lengths(pytest.fail)
    assert lengths.expectation(job(), None).kind
    lengths.add(job(), "name", NODES, 0)
    assert lengths.expectation(job(), 7).lengths_ns == (7,)


@pytest.mark.parametrize(("spoil", "words"), BROKEN)
def test_unusable_record_is_one_warning_and_the_kind_is_known(
    lengths, path, spoil, words, monkeypatch
):
    spoil(path)
    assert lengths.expectation(job(), None).kind
    ended(monkeypatch, 2.0)
    lengths.add(job(), "name", NODES, 0)
    (warning,) = lengths.warnings
    assert words in warning
    assert warning.endswith("; later runs do not learn from this one")


def test_daemon_that_answers_with_an_error_is_one_warning(lengths, monkeypatch):
    def broken(_paths):
        raise CoschedError("node n: broken")

    monkeypatch.setattr(expected, "ControlClient", broken)
    lengths.add(job(), "name", NODES, 0)
    assert lengths.warnings == ["node n: broken; later runs do not learn from this one"]
    assert expected.PATIENCE_S < 1


def test_runs_that_are_alike_are_read_without_a_decoder(path, monkeypatch):
    odd = Likeness('/a "b" \\ é', ("x\ty", "\x7f"), None)
    other = odd._replace(args=("z",))
    for run in (PastRun(odd, 5), PastRun(other, 6), PastRun(HEAT, 7), PastRun(odd, 8)):
        add_run(path, run)
    third = Likeness(odd.program, (), 3)
    assert read_useful_runs(path, third) == [
        PastRun(odd, 5),
        PastRun(other, 6),
        PastRun(odd, 8),
    ]
    monkeypatch.setattr(run_record, "_decode", pytest.fail)
    assert read_useful_runs(path, odd) == [PastRun(odd, 5), PastRun(odd, 8)]
    assert read_useful_runs(path, Likeness("/none", (), 1)) == []


def test_alike_run_with_a_length_out_of_range_is_ignored(path, written):
    written(encoded(length_ns=0) + encoded(length_ns=LENGTH_MAX_NS + 1) + encoded()[:-3])
    assert read_useful_runs(path, HEAT) == []
