"""Two coupled domains of our own: jobs of a group start together, whatever fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from cosched.cluster.keys import make_keys
from cosched.config.coupling import CouplingTable
from cosched.core.config.tables import read, write
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from tests.domain.rig import Rig
from tests.places import ROOT
from tests.tools.commands import run_command
from tests.tools.ports import free_ports

NAMES = ("intrepid", "eureka")
SCHEMES = [(one, other) for one in ("hold", "yield") for other in ("hold", "yield")]
QUICK = {
    "release": "5s",
    "release_wait": "500ms",
    "again": "300ms",
    "answer": "4s",
    "unknown": "1h",
    "when_down": "yield",
}
NOW = "date +%s.%N"
#: How far apart the first words of two shells may be, on a busy machine.
APART_S = 1.0


class Coupled(Rig):
    """A domain that is coupled with another one."""

    def __init__(self, folder, name, other, ports):
        super().__init__(folder, 2, forks=True)
        table = {
            "listen": f"127.0.0.1:{ports[name]}",
            "domains": {other: f"127.0.0.1:{ports[other]}"},
            "same_names": [other],
            **QUICK,
        }
        self.name, self.other = name, other
        self.config = replace(self.config, name=name, coupling=read(CouplingTable, table))
        self.write_config(self.config)
        make_keys(self.paths.peers, [name])

    def use(self, **coupling):
        """Restarts the controller with other settings."""
        if CONTROLLER in self.members:
            self.kill(CONTROLLER)
        table = {**write(self.config.coupling), **coupling}
        self.write_config(replace(self.config, coupling=read(CouplingTable, table)))
        self.start(CONTROLLER)
        self.until_up()

    def paired(self, group, script=NOW, **more):
        return self.shell(script, mates=f"mate={group}@{self.other}", **more)

    def time(self, number):
        """Returns when a job began that printed the time, once."""
        (line,) = self.output(self.wait(number)).splitlines()
        return float(line)

    def mates(self):
        with self.client() as client:
            return client.mates()

    def until_holds(self, number):
        self.until(
            lambda: any(each["job"] == number and each["held"] for each in self.mates()),
            f"job {number} does not hold",
        )

    def cosched(self, *words):
        environ = {**os.environ, "COSCHED_RUN_DIR": str(self.paths.run_dir)}
        return run_command(*words, cwd=self.work, env=environ)


@pytest.fixture(scope="module")
def domains(tmp_path_factory):
    ports = {name: free_ports(2) for name in NAMES}
    rigs = []
    try:
        for name, other in (NAMES, NAMES[::-1]):
            folder = tmp_path_factory.mktemp(name)
            rigs.append(Coupled(folder, name, other, ports))
        for rig, other in (rigs, rigs[::-1]):
            key = f"{rig.name}.public"
            shutil.copy(rig.paths.peers / key, other.paths.peers / key)
        for rig in rigs:
            rig.start()
        for rig in rigs:
            rig.until_up()
        yield rigs
    finally:
        for rig in rigs:
            rig.close()


@pytest.mark.parametrize(
    "schemes",
    [
        pytest.param(each, marks=[pytest.mark.long] * (each[0] == each[1]))
        for each in SCHEMES
    ],
    ids="".join,
)
def test_a_pair_starts_together_beside_other_jobs(domains, schemes):
    one, other = domains
    for rig, scheme in zip(domains, schemes, strict=True):
        rig.use(scheme=scheme)
    group = "".join(schemes)
    busy = other.shell("sleep 1", nodes=2, ppn=1)
    a = one.paired(group)
    alone = one.shell(NOW)
    b = other.paired(group)
    assert abs(one.time(a) - other.time(b)) < APART_S
    assert one.time(alone) < one.time(a)  # the wait of the pair delayed no other job
    other.wait(busy)


def test_jobs_find_each_other_and_a_killed_controller_breaks_no_pair(domains):
    one, other = domains
    one.use(scheme="hold")
    other.use(scheme="hold")
    script = f'{NOW}; echo "$COSCHED_MATES"; cat $COSCHED_MATES_FILE'
    a = one.paired("kill", script, nodes=2, ppn=1)
    one.until_holds(a)
    one.kill(CONTROLLER)
    one.start(CONTROLLER)
    b = other.paired("kill", script)
    ends = one.wait(a), other.wait(b)
    assert [end["state"] for end in ends] == ["done", "done"]
    lines = [rig.output(end).splitlines() for rig, end in zip(domains, ends, strict=True)]
    assert abs(float(lines[0][0]) - float(lines[1][0])) < APART_S
    assert f"eureka={b}@127.0.0.1" in lines[0]
    assert f"intrepid={a}@127.0.0.1,127.0.0.1" in lines[1]
    hosts = "127.0.0.1,127.0.0.1"
    assert json.loads(lines[1][2]) == {"intrepid": {"job": str(a), "hosts": hosts}}


def test_job_that_yielded_starts_once_its_mate_is_cancelled(domains):
    """Nothing else happens in its domain that would let it ask again."""
    one, other = domains
    other.use(scheme="yield")
    busy = one.shell("sleep 60", nodes=2, ppn=1)
    queued = one.paired("gone", nodes=2, ppn=1)
    waits = other.paired("gone")
    other.until(lambda: any(each["yields"] for each in other.mates()), "no job yields")
    assert one.cosched("cancel", str(queued)).returncode == 0
    assert other.wait(waits)["state"] == "done"
    assert one.cosched("cancel", str(busy)).returncode == 0
    assert one.wait(busy)["state"] == "cancelled"


def test_each_job_of_the_guide_is_taken(domains):
    one, other = domains
    make_keys(one.paths.peers, ["lens"])
    known = one.config.coupling.domains
    one.use(scheme="hold", domains={**known, "lens": "127.0.0.1:1"})
    page = (ROOT / "docs" / "coupling.md").read_text()
    form = r"^cosched (submit .*) \./(?:simulation|analysis)$"
    lines = re.findall(form, page, re.MULTILINE)
    assert len(lines) == 4
    for place, line in enumerate(lines):
        words = line.replace("climate", f"climate{place}-").split()  # a name serves once
        rig = one if "@eureka" in line else other
        done = rig.cosched(*words, "sleep", "0")
        assert done.returncode == 0, done.stderr
        number = int(done.stdout.split()[-1])
        assert number in [each["job"] for each in rig.mates()]
        assert rig.cosched("cancel", str(number)).returncode == 0
    one.use(scheme="hold")


def test_the_commands_of_the_guide_explain_pairs_and_refuse_wrong_ones(domains):
    one, other = domains
    one.use(scheme="hold")
    other.use(scheme="hold")
    page = (ROOT / "docs" / "coupling.md").read_text()
    options = re.search(r"^cosched submit (.*) \./simulation$", page, re.MULTILINE)[1]
    options = options.replace("climate7", "climate77")  # a name serves once
    done = one.cosched("submit", *options.split(), "sleep", "0")
    assert done.returncode == 0, done.stderr
    number = int(done.stdout.split()[-1])
    one.until_holds(number)
    assert "ready, holds 2 nodes since" in one.cosched("queue").stdout
    held = r"ready, holds 2 nodes since .* for climate77@eureka.*; released at \d"
    assert re.search(held, one.cosched("why", str(number)).stdout)
    wrong = [
        ("mate=g@eurka", 1, "domain 'eurka' is not coupled; known: eureka"),
        ("mate=g@intrepid", 1, "intrepid is this domain"),
        ("mate=climate77@eureka", 1, f"job {number} is in it"),
        ("mate=g@eureka", 9, "infeasible: needs 9 nodes"),
    ]
    for mates, nodes, line in wrong:
        with pytest.raises(CoschedError, match=line):
            one.shell("true", mates=mates, nodes=nodes)
    words = ("--mate=climate77@intrepid", "--within=60s", "true")
    refused = other.cosched("submit", *words)
    assert "refuses its group" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert refused.returncode != 0
    assert one.cosched("cancel", str(number)).returncode == 0
    assert one.wait(number)["state"] == "cancelled"
    assert one.mates() == []


def test_reload_changes_the_scheme_of_jobs_that_wait_later(domains):
    one, other = domains
    one.use(scheme="hold")
    table = {**write(one.config.coupling), "scheme": "yield"}
    one.write_config(replace(one.config, coupling=read(CouplingTable, table)))
    done = one.cosched("cluster", "reload")
    assert (done.returncode, done.stdout) == (0, "changed: coupling.scheme\n")
    number = one.paired("reloaded")
    one.until(lambda: any(each["yields"] for each in one.mates()), "the job does not yield")
    mate = other.paired("reloaded")
    assert abs(one.time(number) - other.time(mate)) < APART_S


def test_couple_starts_the_controller_alone(tmp_path):
    folder = tmp_path / "solo"
    folder.mkdir()
    rig = Coupled(folder, "solo", "eureka", {"solo": free_ports(2), "eureka": 1})
    make_keys(rig.paths.peers, ["eureka"])
    try:
        rig.start(*rig.config.nodes)
        done = rig.cosched("cluster", "couple", "--config", str(rig.paths.config))
        assert done.returncode == 0, done.stderr
        assert done.stdout == "domain solo is coupled with eureka\n"
        rig.until_up()
        assert rig.mates() == []
        assert rig.cosched("cluster", "down").returncode == 0
    finally:
        rig.close()


@pytest.mark.long
def test_the_demo_runs_a_simulation_beside_its_analysis():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.coupling_demo"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ready, holds 2 nodes" in done.stdout
    assert re.search(r"eureka:2\] step 500: \d+ of 1600 cells are warm", done.stdout)
    assert re.search(r"their tasks began \d+\.\d ms apart", done.stdout)
