"""Jobs of an ordinary user on a Slurm whose nodes have root's daemons: ranks find them
where they run, rank 0 names the nodes without one, and one command acts on all nodes.

Each node has a /run/cosched of its own, so nodes reach each other through Slurm alone.
"""

from __future__ import annotations

import json
import time

import pytest

from cosched.launch.shim import LIBRARY_NAME
from tests.live.conftest import eventually
from tests.live.test_slurm_live import (
    BIN,
    HOME,
    MISSING,
    ROOT,
    USER,
    Site,
    alone,
    skip_in_tmp,
)

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not found"),
]

#: Slurm's nodes are on one machine here, and shared memory would bypass their network.
PLAIN = "export UCX_TLS=tcp,self\n"
PROLOG = ROOT / "daemons/slurm-taskprolog"


class Cluster(Site):
    """The lab with Slurm, and a private /run/cosched on each node."""

    def __init__(self, size):
        super().__init__(size)
        self.with_daemons = set()
        self.one_rank_a_node = (f"--nodes={size.nodes}", "--ntasks-per-node=1")
        self.ring_said = f"{size.nodes} ranks, sum {sum(range(size.nodes))}"
        some = f"{size.nodes - 1} of {size.nodes} nodes"
        self.line_without_last = (
            f"cosched: coscheduled on {some}; no daemon on {self.last}\n"
        )
        for node in self.names:
            mount = "mount -t tmpfs -o mode=755 n /run/cosched"
            self.on(node, f"mkdir -p /run/cosched; {mount}")

    def on(self, node, script):
        """Runs a script of root on a node."""
        words = ("cosched", "lab", "exec", node, "env", "-u", "COSCHED_RUN_DIR")
        return self.root(*words, "sh", "-ec", script)

    def up(self, *nodes):
        """Starts the daemons of these nodes, and ends those of others."""
        for node in self.with_daemons - set(nodes):
            self.on(node, "cosched down")
        for node in set(nodes) - self.with_daemons:
            self.on(node, "cosched up")
        self.with_daemons = set(nodes)

    def has_jobs(self, node):
        nodes = json.loads(self.on(node, "cosched status --json"))["nodes"]
        return any(one["jobs"] for one in nodes)

    def run(self, script):
        """Runs a batch script on all nodes; returns its output."""
        text = f"#!/bin/sh\n{PLAIN}{script}"
        return self.wait(self.sbatch(text, *self.one_rank_a_node))

    def cosched(self, node, *words):
        """Runs a command of the user on a node; returns its output."""
        return self.user(node, "cosched", *words)

    def close(self):
        try:
            self.up()
        finally:
            super().close()


@pytest.fixture(scope="module")
def site(crowded_lab_size):
    skip_in_tmp()
    with alone():
        made = Cluster(crowded_lab_size)
        yield made
        made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(site):
    yield
    site.until_nothing_runs()


def test_ranks_find_daemons_where_they_run(site):
    """The command is typed on the last node, which has none; the ranks run on lab1."""
    site.up("lab1")
    script = f"{PLAIN}cosched-run -v --job far -- srun ./ring 2>&1"
    words = ("salloc", "--quiet", "-w", "lab1", "-n2", "sh", "-c", script)
    said = site.user(site.last, *words)
    assert said.count("of job far on lab1, status by shadow") == 2, said
    assert "2 ranks, sum 1" in said
    assert "coscheduled on" not in said
    assert site.root("sh", "-c", f"ls -d /tmp/cosched-{USER} || true") == ""


def test_nodes_without_daemons_are_named(site):
    site.up(*site.names[:-1])
    said = site.run("cosched-run -- srun ./ring 2>&1; echo status $?\n")
    assert site.line_without_last in said
    assert said.endswith("status 0\n")
    assert f"{site.ring_said}\n" in said
    site.up()
    said = site.run("cosched-run ./ring 2>&1; echo status $?\n")
    named = ", ".join(site.names[:8])  # the line names so many, and counts the rest
    assert f"cosched: not coscheduled; no daemon on {named}" in said
    assert said.endswith("status 0\n")
    assert f"{site.ring_said}\n" in said


def test_job_that_needs_all_nodes_ends_without_them(site):
    site.up(*site.names[:-1])
    said = site.run(
        "cosched-run --require-all -- srun ./ring 2>&1; [ $? = 0 ] || echo failed\n"
    )
    assert site.line_without_last in said
    assert "ranks, sum" not in said
    assert said.endswith("failed\n")


def test_wrapper_script_of_srun_is_trapped(site):
    site.up(*site.names)
    site.write("run.sh", "#!/bin/sh\nexport A=b\n./ring\n")
    said = site.run("cosched-run -v -- time srun ./run.sh 2>&1\n")
    assert said.count("status by shadow") == len(site.names), said
    assert site.ring_said in said


def test_commands_act_on_all_nodes_of_a_job(site):
    """Also after the end: the records of all nodes make one account."""
    site.up(*site.names)
    job = site.sbatch(
        f"#!/bin/sh\n{PLAIN}cosched-run --job wide -- srun ./app -i 1000000\n",
        *site.one_rank_a_node,
    )
    try:
        eventually(
            lambda: all(site.has_jobs(node) for node in site.names) or time.sleep(0.2),
            "the job runs on all nodes",
        )
        said = site.cosched("lab1", "suspend", "wide")
        names = list(site.names)
        assert said == "".join(
            f"node {name}: job {USER}.wide: suspended\n" for name in names
        )
        found = json.loads(site.cosched(site.last, "status", "wide", "--json"))["nodes"]
        assert [(one["node"], one["jobs"][0]["state"]) for one in found] == [
            (name, "suspended") for name in names
        ]
        said = site.cosched("lab1", "resume", "wide")
        assert all(f"node {name}: " in said for name in names)
        told = json.loads(site.cosched("lab1", "why", "wide", "--json"))["nodes"]
        assert [one["node"] for one in told] == names
        text = site.cosched("lab1", "why", "wide")
        assert all(f"{USER}.wide on {name}: " in text for name in names)
        site.up("lab1")
        words = "cosched suspend wide 2>&1; cosched resume wide || true"
        half = site.user("lab1", "sh", "-c", words)
        assert half.startswith(f"node lab1: job {USER}.wide: suspended\n")
        for name in names[1:]:
            assert f"cosched: node {name}: no scheduler daemon is up" in half
    finally:
        site.user("lab1", "scancel", job)
        site.up(*site.names)


def test_account_covers_all_nodes(site):
    site.up(*site.names)
    said = site.run(
        "cosched-run --account --job short -- srun ./ring 2>&1\n"
        "cosched history --job short --format job,nodes,ranks\n"
    )
    assert "cosched-run: job short: response " in said
    assert "without" not in said
    count = str(len(site.names))
    assert said.split()[-3:] == ["short", count, count]


def test_partition_opts_in_by_its_task_prolog(site):
    """The script starts srun alone, also without the user's environment."""
    site.up(*site.names)
    shim = json.loads(
        site.user("lab1", "cosched", "shim", "build", "--json", f"{HOME}/ring")
    )["shim"]
    assert shim.endswith(LIBRARY_NAME)
    conf = site.environ["SLURM_CONF"]
    site.root("sh", "-c", f"echo 'partitions=shared shim={shim}' > {HOME}/prolog.conf")
    script = f"#!/bin/sh\nCOSCHED_SLURM_CONF={HOME}/prolog.conf exec {PROLOG}\n"
    site.write("prolog", script)
    site.root("sh", "-c", f"echo 'TaskProlog={HOME}/prolog' >> {conf}")
    site.on("lab1", "scontrol reconfigure")
    try:
        script = (
            "srun env | grep -E '^COSCHED_(JOB|STATUS)' | sort -u\nsrun ./ring\n"
            "COSCHED=off srun env | grep COSCHED_JOB; srun --export=NONE ./ring\n"
        )
        text = f"#!/bin/sh\n{PLAIN}{script}"
        job = site.sbatch(text, *site.one_rank_a_node)
        lines = site.wait(job).splitlines()
        assert lines[:2] == [f"COSCHED_JOB=slurm-{job}.0", "COSCHED_STATUS=shadow"]
        assert lines[2:] == [site.ring_said] * 2
        for node in site.names:
            words = "cosched history --json --since 5m"
            names = {one["name"] for one in json.loads(site.on(node, words))["jobs"]}
            assert {f"slurm-{job}.1", f"slurm-{job}.3"} <= names
            assert f"slurm-{job}.2" not in names
    finally:
        site.root("sed", "-i", "/^TaskProlog=/d", conf)
        site.on("lab1", "scontrol reconfigure")


def test_bad_lists_of_hosts_are_one_line(site):
    site.write("hosts", "lab1:2\nlab1=3\n")
    cosched_run = f"{BIN}/cosched-run"
    for option, value, line in (
        ("--hostfile", "hosts", "hostfile hosts:2: 'lab1=3' is not a host, such as"),
        ("--hosts", "lab[1-2],lab2", "'lab[1-2],lab2' names lab2 twice"),
    ):
        words = f"{cosched_run} {option} '{value}' ./ring 2>&1 || true"
        said = site.user("lab1", "sh", "-c", words)
        assert line in said.splitlines()[-1]
        assert "Traceback" not in said


def test_node_that_does_not_answer_is_named(site):
    """The remote shell of this user reaches no node."""
    words = "COSCHED_REMOTE_SHELL=false cosched status --hosts lab1,none 2>&1 || true"
    site.up("lab1")
    said = site.user("lab1", "sh", "-c", words)
    assert "cosched: node none: no answer (exit status 1)\n" in said
    assert said.splitlines()[-1] == "  no jobs"
