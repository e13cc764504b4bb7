"""Finished runs kept in a file: continued, refused, cut in two, failed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from cosched.bench.results.results import Activity, Failure, JobResult, Run
from cosched.bench.results.run_store import open_run_store
from cosched.bench.run.arms import Arm
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError
from tests.unit.bench.bench_samples import BATCH, COSCHED, failed_run, load

MADE_WITH = {"mpi": "MPICH 5.0.2", "hosts": ("lab1", "lab2"), "CPUs": 2}

seconds = st.floats(0, 1e6)
node_s = st.dictionaries(st.text(max_size=5), seconds, max_size=2)
jobs = st.builds(JobResult, st.text(max_size=9), seconds, seconds, seconds, seconds, node_s)
counts = st.integers(0, 10**9)
runs = st.builds(
    Run,
    st.sampled_from(Arm),
    st.integers(1, 99),
    st.lists(jobs, max_size=3).map(tuple),
    st.none() | st.just(load(0.02)),
    st.none() | st.builds(Activity, counts, counts, counts),
    st.none() | st.builds(Failure, st.text(), st.lists(st.text()).map(tuple)),
    st.none() | st.floats(1.0, 1e6),
)


@given(runs)
def test_run_survives_json(run):
    assert convert(json.loads(json.dumps(to_builtins(run))), Run, "a run") == run


def test_run_of_an_older_version_is_read():
    run = Run(Arm.BATCH, 1, (JobResult("a", 0.0, 0.0, 1.0, 1.0),))
    kept = to_builtins(run)
    del kept["probe_us"], kept["jobs"][0]["node_s"]
    assert convert(kept, Run, "a run") == run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


def keep(path, *entries, made_with=MADE_WITH):
    with open_run_store(path, made_with) as store:
        for setup, run in entries:
            store.add("twins", setup, run)


def test_kept_runs_are_found(path):
    keep(path, ("batch", BATCH[0]), ("cosched gmet=1s", COSCHED[1]))
    keep(path, ("batch", BATCH[1]))
    with open_run_store(path, MADE_WITH) as store:
        assert store.find("twins", "batch", 1) == BATCH[0]
        assert store.find("twins", "batch", 2) == BATCH[1]
        assert store.find("twins", "cosched gmet=1s", 2) == COSCHED[1]
        assert store.find("twins", "batch", 3) is None
        assert store.find("others", "batch", 1) is None
    assert len(path.read_text().splitlines()) == 4


def test_each_run_is_on_disk_as_soon_as_it_is_added(path):
    with open_run_store(path, MADE_WITH) as store:
        store.add("twins", "batch", BATCH[0])
        assert json.loads(path.read_text().splitlines()[1])["cell"] == "batch"


def test_cut_last_line_is_dropped(path):
    keep(path, ("batch", BATCH[0]), ("batch", BATCH[1]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with open_run_store(path, MADE_WITH) as store:
        assert store.find("twins", "batch", 1) == BATCH[0]
        assert store.find("twins", "batch", 2) is None
        store.add("twins", "batch", BATCH[1])
    assert path.read_bytes() == whole


@pytest.mark.parametrize("kept", [0, 10])
def test_file_cut_in_first_line_is_rewritten(path, kept):
    keep(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    keep(path)
    assert path.read_bytes() == whole


def test_run_that_failed_is_made_again(path):
    keep(path, ("batch", failed_run(Arm.BATCH, 1)))
    with open_run_store(path, MADE_WITH) as store:
        assert store.find("twins", "batch", 1) is None
        store.add("twins", "batch", BATCH[0])
    with open_run_store(path, MADE_WITH) as store:
        assert store.find("twins", "batch", 1) == BATCH[0]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"mpi": "Open MPI 5"}, '\'mpi\' was "MPICH 5.0.2", now it is "Open MPI 5"'),
        ({"CPUs": 64}, "'CPUs' was 2, now it is 64"),
        ({"hosts": ["a" * 60]}, "'hosts' differs from today's"),
        ({"more": 1}, "'more' was null, now it is 1"),
    ],
)
def test_runs_of_other_conditions_are_refused(path, changed, what):
    keep(path, ("batch", BATCH[0]))
    before = path.read_bytes()
    with pytest.raises(CoschedError) as caught:
        keep(path, made_with={**MADE_WITH, **changed})
    assert str(caught.value) == (
        f"'{path}' cannot be continued: {what}; go on as it was begun, or name another file"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["hello\n", '{"format": "x"}\n', "[]\n"])
def test_another_file_is_not_touched(path, text):
    path.write_text(text)
    with pytest.raises(CoschedError, match="is no list of finished runs of a bench"):
        keep(path)
    assert path.read_text() == text


def test_another_file_without_an_end_of_line_is_not_touched(path):
    path.write_text("my thesis")
    with pytest.raises(CoschedError, match="is no list of finished runs of a bench"):
        keep(path)
    assert path.read_text() == "my thesis"


def test_second_bench_on_a_file_is_refused(path):
    with (
        open_run_store(path, MADE_WITH),
        pytest.raises(CoschedError, match="being written by another bench"),
        open_run_store(path, MADE_WITH),
    ):
        pytest.fail("opened twice")


def test_missing_folder_is_an_error(path):
    with pytest.raises(CoschedError, match=r"cannot write '.*': No such file"):
        keep(path / "x")


def test_without_a_path_runs_are_kept_in_memory():
    with open_run_store(None, MADE_WITH) as store:
        store.add("twins", "batch", BATCH[0])
        assert store.find("twins", "batch", 1) == BATCH[0]
