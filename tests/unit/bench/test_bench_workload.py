"""The workload parser reads all keys and reports mistakes in one line."""

import collections
import itertools
import math
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.npb.classes import NAMES
from cosched.bench.workload.arrivals import Arrivals
from cosched.bench.workload.file import (
    JobSpec,
    load_workload,
    parse_workload,
)
from cosched.core.errors import CoschedError
from tests.places import WORKLOADS

FOLDER = Path("/somewhere")

FULL = """
title = "all keys"
description = "what a file may say"
[[job]]
name = "solver"
source = "../programs/solver.c"
args = "--size 'a b' -v"
ranks = 2
count = 3
[[job]]
name = "analysis"
command = ["python3", "-c", "print(1)"]
ranks = 4
ppn = 2
start = 1.5
timeout = 30
env = { OMP_NUM_THREADS = "1" }
"""


def parse(text):
    return parse_workload(text, "file.toml", FOLDER)


def job(**keys):
    """A file with one valid job, changed by ``keys`` (TOML texts; None leaves one out)."""
    table = {"name": '"ep"', "command": '"true"', "ranks": "2", **keys}
    lines = [f"{key} = {value}" for key, value in table.items() if value is not None]
    return "[[job]]\n" + "\n".join(lines)


def test_module_runs_in_the_benchs_python():
    (spec,) = parse(job(command=None, module='"a.b"', args='"x --class W"')).jobs
    assert spec.command == (sys.executable, "-m", "a.b", "x", "--class", "W")
    assert (spec.source, spec.args) == (None, ())


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("workload1", "bt.B.4 2xep.B.8 bt.A.4 sp.A.9 mg.A.2 lu.B.4"),
        ("workload2", "2xbt.A.4 2xlu.A.2 sp.B.9 sp.A.9 sp.A.4 lu.B.2"),
        ("workload3", "2xep.A.2 2xep.A.4 ep.B.8 2xep.B.4 ep.A.8"),
        ("dom2", "sp.A.16 sp.A.9"),
        ("dom3", "sp.A.16 sp.A.9 lu.A.8"),
        ("dom4", "sp.A.16 sp.A.9 lu.A.8 cg.A.16 ft.A.8"),
        ("dom5", "sp.A.16 sp.A.9 lu.A.8 cg.A.16 ft.A.8 ep.A.8"),
    ],
)
def test_paper_workloads_equal_its_tables(name, jobs):
    """Tables 2 and 3; on the lab the workloads have the same programs."""
    found = load_workload(WORKLOADS / "paper" / f"{name}.toml")
    written = [f"{spec.count}x{spec.name}" for spec in found.jobs]
    assert " ".join(written).replace(" 1x", " ").removeprefix("1x") == jobs.lower()
    for spec in found.jobs:
        program, problem, ranks = spec.name.split(".")
        assert spec.command[-3:] == (program, "--class", problem.upper())
        assert spec.ranks == int(ranks)
    if name.startswith("workload"):
        scaled = load_workload(WORKLOADS / "lab" / f"{name}.toml")
        kinds = {spec.command[-3] for spec in found.jobs}
        assert {spec.command[-3] for spec in scaled.jobs} <= kinds
        assert len(scaled.instances()) == len(found.instances())


@pytest.mark.parametrize("dom", [2, 3, 4, 5])
def test_degree_is_the_number_of_jobs_on_each_node_of_the_lab(dom):
    jobs = load_workload(WORKLOADS / "yoo" / f"dom{dom}.toml").instances()
    for node in (1, 2):
        here = [job for job in jobs if job.spec.ranks == 2 or job.spec.first == node]
        assert len(here) == dom


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*/*.toml")), ids=lambda p: p.name)
def test_every_workload_file_can_be_run(path):
    for spec in load_workload(path).jobs:
        assert spec.source is None or spec.source.exists()
        assert spec.cwd is None or spec.cwd.is_dir()
        if "benchmarks.npb" in spec.command:
            program, _, problem = spec.command[-3:]
            assert list((spec.cwd / "benchmarks/npb").rglob(f"{program}.c"))
            assert problem in NAMES


def test_streams_differ():
    streams = {
        name: load_workload(WORKLOADS / "lab" / f"stream-{name}.toml")
        for name in ("long", "heavy", "equal", "mixed")
    }
    programs = {
        name: [job.spec.command[-3:] for job in stream.instances()]
        for name, stream in streams.items()
    }
    assert programs["long"][0] == ("bt", "--class", "A")
    starts = [job.start_s for job in streams["long"].instances()]
    assert starts == [float(second) for second in range(10)]
    assert len(set(programs["equal"])) == 1
    sizes = collections.Counter(problem for _, _, problem in programs["heavy"])
    assert sizes == {"W": 19, "A": 3}
    kinds = collections.Counter(program == "ep" for program, _, _ in programs["mixed"])
    assert kinds == {True: 10, False: 12}
    for name in ("heavy", "equal", "mixed"):
        assert streams[name].arrivals is not None
        assert 20 < streams[name].instances()[-1].start_s < 40


@pytest.mark.parametrize(("folder", "count", "few"), [("yoo", 8, 1), ("paper", 100, 2)])
def test_many_has_few_long_jobs(folder, count, few):
    jobs = load_workload(WORKLOADS / folder / "many.toml").instances()
    long = [place for place, job in enumerate(jobs) if job.name.startswith("long")]
    assert len(jobs) == count
    assert len(long) == few
    assert count / 5 < long[0] < count / 2
    assert long[-1] < 3 * count / 4


def test_every_key_is_read():
    workload = parse(FULL)
    assert workload.title == "all keys"
    assert workload.description == "what a file may say"
    assert workload.jobs == (
        JobSpec(
            name="solver",
            ranks=2,
            source=FOLDER / "../programs/solver.c",
            args=("--size", "a b", "-v"),
            count=3,
        ),
        JobSpec(
            name="analysis",
            ranks=4,
            command=("python3", "-c", "print(1)"),
            ppn=2,
            start_s=1.5,
            timeout_s=30.0,
            env={"OMP_NUM_THREADS": "1"},
        ),
    )


def test_defaults():
    workload = parse(job())
    (spec,) = workload.jobs
    assert workload.title == "file"
    assert (spec.count, spec.start_s, spec.timeout_s) == (1, 0.0, 600.0)
    assert spec.command == ("true",)


def test_instances_are_numbered_and_in_order_of_submission():
    names = [instance.name for instance in parse(FULL).instances()]
    assert names == ["solver.1", "solver.2", "solver.3", "analysis"]
    late_first = job(start="2") + "\n" + job(name='"b"')
    assert [i.name for i in parse(late_first).instances()] == ["b", "ep"]


def test_first_instance_of_each_program_runs_alone():
    text = "arrivals = { poisson = 2 }\n" + job(count="3") + "\n" + job(name='"b"')
    programs = parse(text).programs()
    assert [(one.name, one.start_s) for one in programs] == [("ep.1", 0.0), ("b", 0.0)]


# --- arrivals ---

STREAM = "[arrivals]\npoisson = 1.5\nseed = 7\n"


def starts(text):
    return {one.name: one.start_s for one in parse(text).instances()}


def test_poisson_arrivals_are_in_the_order_of_the_file():
    found = starts(STREAM + job(count="4") + "\n" + job(name='"b"'))
    assert list(found) == ["ep.1", "ep.2", "ep.3", "ep.4", "b"]
    # The first numbers of Python's generator with the seed 7.
    drawn = [0.3238327648331623, 0.15084917392450192, 0.6509344730398537]
    after = [-1.5 * math.log(1 - number) for number in drawn]
    times = list(found.values())
    assert times[:4] == pytest.approx([0.0, *itertools.accumulate(after)])


def test_drawn_order_keeps_the_times():
    text = job(count="9") + "\n" + job(name='"b"')
    plain, shuffled = starts(STREAM + text), starts(STREAM + "shuffle = true\n" + text)
    assert list(shuffled.values()) == list(plain.values())
    assert sorted(shuffled) == sorted(plain)
    assert list(shuffled) != list(plain)


@given(st.integers(1, 50), st.integers(0, 2**32 - 1), st.booleans())
def test_arrivals_are_the_same_for_a_seed(jobs, seed, shuffle):
    arrivals = Arrivals(2.0, seed, shuffle)
    times = arrivals.starts_s(jobs)
    assert times == arrivals.starts_s(jobs)
    assert min(times) == 0.0
    assert len(times) == jobs


def test_arrivals_have_the_mean_interval():
    times = Arrivals(2.0, 1).starts_s(10_001)
    assert max(times) / 10_000 == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file.toml: no jobs; add at least one [[job]] table"),
        ("tile = 'x'", "file.toml:1: tile: no such key; did you mean 'title'?"),
        (job(rank="2"), "file.toml:5: job.1.rank: no such key; did you mean 'ranks'?"),
        (
            job() + "\n" + job(name='"b"', timout="3"),
            "file.toml:9: job.2.timout: no such key; did you mean 'timeout'?",
        ),
        (
            job(zzz="2"),
            "file.toml:5: job.1.zzz: no such key; the keys are name, ranks, command, "
            "source, args, count, start, ppn, env, cwd, timeout, model, first, module",
        ),
        (
            job(ranks=None),
            "file.toml:1: job.1.ranks: is missing; write ranks = ... (a whole number from "
            "1 to 1048576)",
        ),
        (
            job(name=None, ranks="0"),
            "file.toml:3: job.1.ranks: 0 is not a whole number from 1 to 1048576",
        ),
        (
            job(ranks="true"),
            "file.toml:4: job.1.ranks: true is not a whole number from 1 to 1048576",
        ),
        (
            job(start="-1"),
            "file.toml:5: job.1.start: -1 is not a number of seconds from 0 to 31622400",
        ),
        (
            job(name='"a b"'),
            "file.toml:2: job.1.name: 'a b' is not a job name: use 1 to 63 characters of "
            "letters, digits, '.', '_', '-'",
        ),
        (
            job(command='""'),
            "file.toml:3: job.1.command: '' is not a command: it is empty",
        ),
        (
            job(command='"a \'b"'),
            "file.toml:3: job.1.command: 'a 'b' is not a command line (No closing "
            "quotation)",
        ),
        (
            job(command=None),
            "file.toml:1: job.1: give exactly one of 'command' (what to run), "
            "'source' (a C file to build and run) and 'module' (of Python)",
        ),
        (
            job(args='"-v"'),
            "file.toml:5: job.1.args: belongs to 'source' and 'module'; write "
            "arguments into 'command'",
        ),
        (job(env="{ A = 1 }"), "file.toml:5: job.1.env.A: 1 is not a text"),
        (
            job(env="{ 'A=' = '1' }"),
            "file.toml:5: job.1.env: 'A=' is not the name of a variable",
        ),
        (
            job() + "\n" + job(),
            "file.toml:6: job.2.name: two jobs are called 'ep'; rename one, or use 'count' "
            "for instances",
        ),
        (
            job(count="2") + "\n" + job(name='"ep.2"'),
            "file.toml:7: job.2.name: two jobs are called 'ep.2'; rename one, or use "
            "'count' for instances",
        ),
        (
            "x = ",
            "file.toml:1: not TOML: Invalid value",
        ),
        ("job = 3", "file.toml:1: job: 3 is not a list of tables"),
        (
            STREAM + job() + "\n" + job(name='"b"', start="2"),
            "file.toml:12: job.2.start: excludes [arrivals]; leave one of them out",
        ),
        (
            "[arrivals]\nseed = 7\n" + job(),
            "file.toml:1: arrivals.poisson: is missing; write poisson = ... (a number of "
            "seconds from 0.001 to 86400)",
        ),
        (
            "[arrivals]\npoisson = 0\n" + job(),
            "file.toml:2: arrivals.poisson: 0 is not a number of seconds from 0.001 to "
            "86400",
        ),
        (
            "[arrivals]\npoison = 1\n" + job(),
            "file.toml:2: arrivals.poison: no such key; did you mean 'poisson'?",
        ),
        (
            job(rank="2", timeout="0"),
            "file.toml:5: job.1.rank: no such key; did you mean 'ranks'? "
            "(and 1 more: cosched config check FILE)",
        ),
    ],
)
def test_mistakes_get_one_line(text, message):
    with pytest.raises(CoschedError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_name_too_long_for_instances_is_refused():
    with pytest.raises(CoschedError, match="1 to 63 characters"):
        parse(job(name=f'"{"a" * 62}"', count="5"))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(CoschedError, match=r"nothing\.toml: cannot be read: No such file"):
        load_workload(tmp_path / "nothing.toml")


def test_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CoschedError, match="not text in UTF-8"):
        load_workload(path)


@given(st.text())
def test_any_text_is_parsed_or_refused_in_one_line(text):
    try:
        parse(text)
    except CoschedError as error:
        assert str(error).isprintable()  # noqa: PT017


names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=40)
words = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"])
)


@st.composite
def files(draw):
    """A valid file and the jobs that it describes."""
    jobs = []
    lines = []
    starts = names.filter(lambda name: name not in (".", ".."))
    for n, name in enumerate(draw(st.lists(starts, min_size=1, max_size=5))):
        spec = JobSpec(
            name=f"{n}{name}",
            ranks=draw(st.integers(1, 1 << 20)),
            command=("run", *draw(st.lists(words, max_size=3))),
            start_s=draw(st.floats(0, 1e6)),
            timeout_s=draw(st.floats(0.001, 1e6)),
        )
        jobs.append(spec)
        quoted = ", ".join(toml_string(word) for word in spec.command)
        lines += [
            "[[job]]",
            f'name = "{spec.name}"',
            f"ranks = {spec.ranks}",
            f"command = [{quoted}]",
            f"start = {toml_float(spec.start_s)}",
            f"timeout = {toml_float(spec.timeout_s)}",
        ]
    return "\n".join(lines), tuple(jobs)


def toml_string(text):
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def toml_float(value):
    return f"{value:.40f}" if value < 1 else repr(value)


@given(files())
def test_written_workload_is_read_back(file):
    text, jobs = file
    parsed = parse(text).jobs
    assert [spec.command for spec in parsed] == [spec.command for spec in jobs]
    assert [(s.name, s.ranks) for s in parsed] == [(s.name, s.ranks) for s in jobs]
    assert [s.start_s for s in parsed] == pytest.approx([s.start_s for s in jobs])


@given(files(), st.data())
def test_misspelt_key_is_never_ignored(file, data):
    text, _ = file
    key = data.draw(st.text(string.ascii_lowercase, min_size=1).filter(is_no_key))
    with pytest.raises(CoschedError, match=f"{key}: no such key"):
        parse(f"{text}\n{key} = 1")


def is_no_key(text):
    return text not in (
        *("name", "command", "source", "args", "ranks", "count"),
        *("start", "ppn", "env", "cwd", "timeout", "model", "first", "module"),
    )
