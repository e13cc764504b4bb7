"""Results in a file of JSON lines: written by several programs, cut by a kill."""

import fcntl
import json
import threading
from concurrent.futures import ProcessPoolExecutor

import pytest

from benchmarks.experiments.symbiosis.cells import Cell, Sample, Samples, Setting
from benchmarks.results import Results
from cosched.bench.results.store import Store
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError

LINES = 50


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def add_many(path, name):
    store = Store(path)
    for number in range(LINES):
        store.add({"name": name, "number": number, "long": "x" * 5000})


def test_lines_of_several_programs_are_all_there(path):
    with ProcessPoolExecutor(3) as pool:
        list(pool.map(add_many, [path] * 3, "abc"))
    found = Store(path).lines()
    assert sorted((line["name"], line["number"]) for line in found) == [
        (name, number) for name in "abc" for number in range(LINES)
    ]


def test_line_that_another_program_writes_now_is_not_cut(path):
    """Neither by a reader, nor by a writer, which waits for the lock."""
    with path.open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b'{"who": ')
        assert Store(path).lines() == []
        assert Results(path).left([Cell("cpu", 1)]) == [Cell("cpu", 1)]
        samples = Samples(path, Setting((0, 1), 1.0, 1))
        assert samples.left([Cell("cpu", 1)], 1) == [Cell("cpu", 1)]
        assert path.read_bytes() == b'{"who": '
        begun = threading.Event()

        def add():
            begun.set()
            samples.add(Cell("cpu", 1), Sample(1.0, 0.0, 0.0))

        writer = threading.Thread(target=add)
        writer.start()
        begun.wait()
        other.write(b'"other"}\n')
    writer.join()
    first, second = path.read_text().splitlines()
    assert json.loads(first) == {"who": "other"}
    assert json.loads(second)["result"]["rate"] == 1.0


def test_part_of_a_line_makes_room_for_the_next_one(path):
    store = Store(path)
    store.add(1)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"half')
    assert store.lines() == [1]
    assert store.torn == b'{"half'
    store.add(2)
    assert path.read_bytes() == whole + b"2\n"
    assert store.torn == b""


def test_whole_line_that_is_no_result_is_an_error(path):
    path.write_text("hello\n")
    with pytest.raises(Malformed, match=r"results\.jsonl"):
        Store(path).lines()
    assert path.read_text() == "hello\n"


@pytest.mark.parametrize("line", ["[]", '{"cell": {}, "sample": {}}'])
def test_other_lines_are_no_results(path, line):
    path.write_text(f"{line}\n")
    with pytest.raises(CoschedError, match="has no results of this kind; name another"):
        Results(path)
    assert path.read_text() == f"{line}\n"


def test_results_come_once_a_round(path):
    runs = [Cell("cpu", 1), Cell("io", 1)]
    results = Results(path)
    results.add(runs[0], {"value": 1})
    results.add(runs[0], {"value": 2})
    assert results.left(runs, 2) == [runs[1], runs[1]]
    assert results.done(runs) == [runs[0]]
    assert Results(path).last(runs[0]) == {"value": 2}
    assert Results(path).all(runs[1]) == []
