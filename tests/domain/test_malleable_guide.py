"""Runs the commands of docs/malleable.md in a real domain, in their order, while the page's
own program runs."""

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest

from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.units import NS_PER_S
from tests.places import ROOT

pytestmark = pytest.mark.mpi_job

PAGE = (ROOT / "docs" / "malleable.md").read_text()
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
#: How root makes the domain on one machine, and how it ends.
LAB_UP, LAB_DOWN = re.findall(r"```sh lab\n(.*?)```", PAGE, re.DOTALL)
(PROGRAM,) = [
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if "malleable.Job" in block and "import" in block
]
LOOP = "    for step in job.steps(200):\n"
QUEUE = QueueSettings(
    "fcfs",
    grace_ns=NS_PER_S,
    size="malleable",
    changes=ChangeSettings(spared_ns=NS_PER_S),
)


class Shell:
    """Runs commands of the page in a domain of four nodes."""

    def __init__(self, rig, bin_folder):
        self.rig = rig
        assert LOOP in PROGRAM
        slow = PROGRAM.replace(
            LOOP, "    for step in job.steps(10**6):\n        time.sleep(0.02)\n"
        )
        (rig.work / "loop.py").write_text(f"import time\n{slow}")
        mine = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
        self._environ = {
            **mine,
            **rig.mark,
            "PATH": f"{bin_folder}:{mine['PATH']}",
            "COSCHED_RUN_DIR": str(rig.paths.run_dir),
            "COSCHED_NODE": "n1",
        }

    def __call__(self, line, **more):
        return subprocess.run(
            line,
            shell=True,
            cwd=self.rig.work,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **more,
        )

    def good(self, line):
        done = self(line)
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    def refused(self, line):
        done = self(line)
        assert (done.returncode, done.stdout) == (1, ""), (line, done)
        assert done.stderr.count("\n") == 1
        return done.stderr

    def until_nodes(self, number, nodes):
        def found():
            with self.rig.client() as client:
                job = client.job(number)
            return job["state"] == "running" and len(job["hosts"]) == nodes

        self.rig.until(found, f"job {number}: want {nodes} nodes", 120)


@pytest.fixture
def shell(make_rig, bin_folder):
    rig = make_rig(4, queue=QUEUE)
    rig.start()
    rig.until_up()
    return Shell(rig, bin_folder)


@pytest.mark.one_mpi
def test_the_commands_of_the_page_do_what_it_says(shell):
    submit, queue, other, why, narrow, widen, prefer, *as_json = COMMANDS.splitlines()
    why_json, queue_json = as_json
    assert shell.good(submit) == "job 1\n"
    shell.until_nodes(1, 4)
    assert " 4 of 1-4 " in shell.good(queue)

    assert shell.good(other) == "job 2\n"
    shell.until_nodes(1, 2)
    lines = shell.good(why).split("\n\n")[0].splitlines()
    assert lines[0].startswith("job 1: running on n1, n2: 2 nodes of 1-4; ")
    text = " ".join(" ".join(lines[1:]).split())
    assert re.match(
        r"\d\d:\d\d:\d\d\.\d{3} gave 2 nodes to job 2: its minimum was 2, 0 were free "
        r"\(4 to 2 nodes; it stood still for \d+\.\d\d s",
        text,
    )

    shell.good("cosched cancel 2")
    shell.until_nodes(1, 4)
    assert shell.good(narrow) == "job 1: 2-3 nodes\n"
    shell.until_nodes(1, 3)
    assert shell.good(widen) == "job 1: 2-4 nodes\n"
    shell.until_nodes(1, 4)
    assert shell.good(prefer) == "job 1: 2-3-4 nodes\n"
    assert " 4 of 2-3-4 " in shell.good(queue)

    changes = json.loads(shell.good(why_json))["changes"]
    done = [each for each in changes if each["ended_ns"] and not each["refused"]]
    assert [(each["before"], each["after"]) for each in done] == [
        (4, 2), (2, 4), (4, 3), (3, 4),
    ]  # fmt: skip
    assert done[2]["reason"] == "gave 1 node: it wants 3 at most"

    def costs():
        found = json.loads(shell.good(why_json))["changes"]
        return [each["slower"] for each in found if not each["refused"]]

    shell.rig.until(lambda: None not in costs(), "no two sizes were measured", 60)
    give, get, *_ = costs()
    assert (1 + give) * (1 + get) == pytest.approx(1)
    (job,) = json.loads(shell.good(queue_json))["jobs"]
    assert (job["nodes"], job["minimum"], job["ideal"], job["resized"]) == (4, 2, 4, 4)
    began_ns, ended_ns = job["started_ns"], done[-1]["ended_ns"]
    assert 2 * (ended_ns - began_ns) < job["node_s"] * NS_PER_S
    assert "an ideal" not in shell.refused("cosched resize 1 2..5")
    assert shell.refused("cosched resize 1 5..4").startswith("cosched: job 1: minimum 5")
    assert "has ended (cancelled)" in shell.refused("cosched resize 2 1")
    assert shell.good("cosched submit --nodes 1 --hold true") == "job 3\n"
    assert "job 3: is rigid" in shell.refused("cosched resize 3 1")
    shell.until_nodes(1, 4)


@pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")
def test_lab_of_the_page_resizes_jobs(lab_command, tmp_path):
    (tmp_path / "loop.py").write_text(PROGRAM)
    submit, *_ = COMMANDS.splitlines()
    command, words = submit.replace("submit", "submit --wait").split(" python ")
    with contextlib.ExitStack() as end:
        for line in reversed(LAB_DOWN.splitlines()):
            end.callback(lab_command, *line.split()[1:])
        for line in LAB_UP.splitlines():
            lab_command(*line.split()[1:])
        printed = lab_command(*command.split()[1:], sys.executable, words)
    assert re.fullmatch(r"\d+\.\d{6}\n", printed)


@pytest.mark.one_mpi
def test_bounds_survive_a_killed_controller(shell):
    shell.good(COMMANDS.splitlines()[0])
    shell.until_nodes(1, 4)
    shell.good("cosched resize 1 1..2")
    shell.rig.kill("controller")
    shell.rig.start("controller")
    shell.rig.until_up()
    shell.until_nodes(1, 2)
    (job,) = json.loads(shell.good("cosched queue --json"))["jobs"]
    assert (job["minimum"], job["ideal"]) == (1, 2)


#: Commands that are refused while job 1 runs on 4 nodes, and what their line has.
REFUSED = {
    "cosched submit --min 3 --ideal 2 true": "--min 3 is above --ideal 2",
    "cosched submit --min 0 true": "'--min': '0' is not a whole number of 1 or more",
    "cosched submit --min 5 --ideal 5 true": "needs 5 nodes, the domain has 4",
    "cosched submit --min 1 --nodes 2 true": "--nodes is not for jobs with --min",
    "cosched resize 1 3..2": "job 1: minimum 3 is above ideal 2",
    "cosched resize 1 1..9..4": "job 1: preferred 9: is not between",
    "cosched resize 1 0": "job 1: minimum 0: must be 1 or more",
    "cosched resize 1 1..9": "job 1: ideal 9: the domain has 4 nodes",
    "cosched resize 2 1": "job 2: is rigid",
    "cosched resize 99 1": "job 99: there is no such job",
}
#: Programs that use the job wrongly, and their line.
MISUSES = {
    "malleable.Job(3, 2)": "minimum 3 is more than ideal 2",
    "malleable.Job(0)": "minimum 0: is not a number of nodes from 1 to 1048576",
    "malleable.Job(); malleable.Job()": "this program has made its malleable.Job already: "
    "use that one",
    "MPI.Finalize(); malleable.Job()": "MPI has been finalized: make the malleable.Job "
    "before that",
}
#: A program that needs more nodes than the domain has, and no threads of MPI.
ABOVE = """
import mpi4py
mpi4py.rc.thread_level = "single"
import numpy as np
from mpi4py import MPI
from cosched import malleable
with malleable.Job(minimum=9, ideal=9) as job:
    for step in job.steps(20):
        if job.resized:
            job.redistribute(np.zeros(0))
    if job.rank == 0:
        print("done", MPI.Query_thread() == MPI.THREAD_SINGLE)
"""


@pytest.mark.one_mpi
def test_bad_input_is_one_line_and_the_job_goes_on(shell):
    shell.good("cosched submit --min 1 --ideal 2 --name heat python loop.py")
    shell.good("cosched submit --nodes 1 --hold true")
    shell.until_nodes(1, 2)
    for command, line in REFUSED.items():
        done = shell(command)
        assert done.returncode in (1, 2), command
        assert line in done.stderr, command
        assert (done.stdout, done.stderr.count("\n")) == ("", 1), command
    wrong = shell.rig.work / "wrong.py"
    submit = "cosched submit --wait --min 1 --ideal 1 python wrong.py"
    for call, line in MISUSES.items():
        wrong.write_text(f"from mpi4py import MPI; from cosched import malleable; {call}")
        done = shell(submit)
        of_rank, of_submit = done.stderr.splitlines()
        assert (done.returncode, of_rank) == (1, f"cosched: {line}")
        assert "failed: rank 0 ended with status 1" in of_submit
    wrong.write_text(ABOVE)
    assert shell.good(submit) == "done True\n"
    shell.until_nodes(1, 2)
    assert json.loads(shell.good("cosched why 1 --json"))["changes"] == []


@pytest.mark.one_mpi
def test_domain_of_fixed_sizes_refuses_in_one_line_and_the_job_goes_on(
    make_rig, bin_folder
):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    shell = Shell(rig, bin_folder)
    shell.good("cosched submit --nodes 2 --ppn 1 python loop.py")
    shell.until_nodes(1, 2)
    assert "this domain keeps the sizes of jobs" in shell.refused(
        "cosched submit --min 1 python loop.py"
    )
    assert "job 1: is rigid" in shell.refused("cosched resize 1 1")
    shell.until_nodes(1, 2)
