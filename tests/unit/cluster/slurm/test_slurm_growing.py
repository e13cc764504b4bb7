"""A domain in Slurm gives nodes back that it cannot use, and asks for others."""

import errno
import os
import signal
from unittest.mock import Mock

import pytest
from cosched_daemons import slurmagent

from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.growing import PAUSE_NS, Growing
from cosched.cluster.slurm.node_jobs import NodeJob, NodeJobs, has_ended
from cosched.core.cluster.growth import LEAST_OUT_NS, Bounds
from cosched.core.errors import CoschedError


class Site:
    """Stands for Slurm and for the domain's controller."""

    def __init__(self):
        self.jobs = [NodeJob(7, "far")]
        self.states = {"own": "up", "far": "up"}
        self.asked, self.cancelled, self.removed, self.refuses = 0, [], [], False
        self.kept, self.fixed, self.wanted, self.kept_back = [], False, 2, []

    def listed(self):
        return self.jobs

    def ask(self, _without):
        self.asked += 1

    def cancel(self, numbers):
        self.cancelled += numbers

    def shrink(self, nodes):
        if self.fixed:
            raise CoschedError("scontrol: Job resizing is disabled")
        self.kept.append(tuple(nodes))

    def nodes(self):
        return [
            {"node": name, "state": state, "reason": "", "slots": 1, "jobs": []}
            for name, state in self.states.items()
        ]

    def queue(self):
        waits = {"nodes": self.wanted, "state": "queued", "waits_for": ""}
        return [waits, *self.kept_back] if self.wanted else self.kept_back

    def remove(self, names, *, now=False):
        if self.refuses:
            raise CoschedError("the controller asks its nodes; try again")
        self.removed += [(name, now) for name in names]
        for name in names:
            del self.states[name]


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def growing(site):
    return Growing(Bounds(1, 2, 0), ["own"], "own", 1, site, lambda _line: None)


@pytest.mark.parametrize("state", ["lost", "drained", "down"])
def test_node_out_of_service_is_given_back_and_replaced(site, growing, state):
    site.states["far"] = state
    growing.step(site, 0)
    growing.step(site, LEAST_OUT_NS - 1)
    assert (site.removed, site.asked) == ([], 0)
    growing.step(site, LEAST_OUT_NS)
    assert (site.removed, site.cancelled, site.asked) == ([("far", False)], [7], 0)
    growing.step(site, LEAST_OUT_NS + 1)
    assert site.asked == 1


def test_node_that_comes_back_in_time_stays(site, growing):
    site.states["far"] = "lost"
    growing.step(site, 0)
    site.states["far"] = "up"
    growing.step(site, LEAST_OUT_NS - 1)
    site.states["far"] = "lost"
    growing.step(site, LEAST_OUT_NS)
    assert (site.removed, site.asked) == ([], 0)


def test_lost_node_is_removed_at_the_next_step_if_the_controller_refuses_it(site, growing):
    growing.step(site, 0)
    site.jobs, site.refuses = [], True
    with pytest.raises(CoschedError):
        growing.step(site, 1)
    site.refuses = False
    growing.step(site, 2)
    assert site.removed == [("far", True)]


def test_job_that_gets_the_node_of_an_ended_one_waits_for_its_removal(site, growing):
    """Slurm gives the node of a job whose time is over to the next one at once."""
    growing.step(site, 0)
    site.jobs = [NodeJob(8, "far")]
    growing.step(site, 1)
    assert (site.removed, site.cancelled, site.asked) == ([("far", True)], [], 0)
    added = []
    site.add = lambda nodes: added.append(nodes) or site.states.update({"far": "up"})
    site.states["far"] = "leaving"
    growing.step(site, 2)
    assert added == []
    del site.states["far"]
    growing.step(site, 3)
    assert (added, site.cancelled, site.asked) == ([{"far": "far:1"}], [], 0)


def test_job_with_a_node_of_the_domain_is_cancelled(site, growing):
    site.jobs, site.wanted = [NodeJob(9, "own")], 0
    del site.states["far"]
    growing.step(site, 0)
    assert set(site.cancelled) == {9}
    assert site.removed == []


def test_command_that_cannot_be_started_is_one_line(tmp_path, monkeypatch):
    """The process that grows the domain tries again."""
    error = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    monkeypatch.setattr("subprocess.run", Mock(side_effect=error))
    jobs = NodeJobs(DomainPaths(tmp_path), 7, 1, (), {})
    with pytest.raises(CoschedError, match="squeue: Resource temporarily unavailable"):
        jobs.listed()


@pytest.fixture
def squeue(tmp_path):
    """Makes the command of a script; returns the paths of a domain and an environment."""

    def make(script):
        command = tmp_path / "squeue"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        paths = DomainPaths(tmp_path)
        paths.directory.mkdir()
        return paths, {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_CONF": "c"}

    return make


def test_settings_of_a_user_for_squeue_hide_no_job(squeue):
    paths, environ = squeue(
        '[ -z "$SQUEUE_PARTITION$SLURM_CLUSTERS" ] && [ "$SLURM_CONF" = c ] || exit 0\n'
        'echo "8|RUNNING|far"'
    )
    environ |= {"SQUEUE_PARTITION": "debug", "SLURM_CLUSTERS": "other"}
    assert NodeJobs(paths, 7, 1, (), environ).listed() == [NodeJob(8, "far")]
    assert not has_ended(7, paths, environ)


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("true", True),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", True),
        ('case "$*" in *SUSPENDED*) echo 7 ;; esac', False),
    ],
)
def test_job_with_the_controller_has_ended_if_slurm_reports_that(squeue, script, ended):
    paths, environ = squeue(script)
    assert has_ended(7, paths, environ) == ended


def test_slurm_that_does_not_answer_ends_no_job(squeue):
    paths, environ = squeue("echo Unable to contact slurm controller >&2; exit 1")
    with pytest.raises(CoschedError, match="squeue: Unable to contact"):
        has_ended(7, paths, environ)


@pytest.fixture
def wide(site):
    """A domain whose own job has three nodes; no job waits."""
    site.jobs, site.wanted = [], 0
    site.states = {"n1": "up", "n2": "up", "n3": "up"}
    lines = []
    made = Growing(Bounds(1, 3, 10), ["n1", "n2", "n3"], "n2", 1, site, lines.append)
    made.lines = lines
    return made


def test_own_job_gives_idle_nodes_back_and_keeps_one(site, wide):
    wide.step(site, 0)
    wide.step(site, 9)
    assert site.removed == []
    wide.step(site, 10)
    assert site.removed == [("n3", False), ("n1", False)]
    wide.step(site, 11)
    wide.step(site, 100)
    assert site.kept == [("n2",)]
    assert list(site.states) == ["n2"]


def test_own_node_that_was_given_back_may_come_again(site, wide):
    added = []
    site.add = lambda nodes: added.append(nodes) or site.states.update({"n3": "up"})
    for now_ns in (0, 10, 11):
        wide.step(site, now_ns)
    site.jobs = [NodeJob(8, "n3")]
    wide.step(site, 12)
    assert (added, site.cancelled) == ([{"n3": "n3:1"}], [])


def test_node_that_leaves_stays_in_the_job_until_it_has_gone(site, wide):
    site.remove = lambda names, **_: site.states.update(dict.fromkeys(names, "leaving"))
    for now_ns in (0, 10, 11):
        wide.step(site, now_ns)
    assert site.kept == []
    del site.states["n1"]
    wide.step(site, 12)
    assert site.kept == [("n2", "n3")]


def test_job_that_slurm_does_not_shrink_keeps_its_other_nodes(site, wide):
    site.fixed = True
    del site.states["n3"]  # an operator has removed it
    for now_ns in (0, 10, 100, PAUSE_NS):
        wide.step(site, now_ns)
    assert (site.removed, site.kept) == ([], [])
    (line,) = wide.lines
    assert line.startswith("the job keeps n3, which the domain does not use: scontrol: ")


def test_slurm_that_did_not_answer_gets_the_node_later(site, wide):
    """Otherwise neither the domain nor Slurm would use it as long as the job lasts."""
    site.fixed = True
    for now_ns in (0, 10, 11):
        wide.step(site, now_ns)
    assert site.removed == [("n3", False), ("n1", False)]
    site.fixed = False
    wide.step(site, 11 + PAUSE_NS - 1)
    assert site.kept == []
    wide.step(site, 11 + PAUSE_NS)
    assert site.kept == [("n2",)]


@pytest.mark.parametrize("state", ["lost", "down"])
def test_lost_node_of_the_own_job_is_replaced(site, wide, state):
    """Two nodes are needed; the one that is lost does not count."""
    site.wanted = 3
    site.states["n3"] = state
    wide.step(site, 0)
    wide.step(site, LEAST_OUT_NS)
    assert (site.removed, site.asked) == ([("n3", False)], 0)
    wide.step(site, LEAST_OUT_NS + 1)
    assert (site.kept, site.asked) == ([("n1", "n2")], 1)


def test_lost_node_that_stays_in_the_own_job_does_not_count(site, wide):
    site.wanted = 3
    site.states["n2"] = "lost"
    wide.step(site, 0)
    assert site.asked == 1


def test_job_that_is_kept_back_needs_no_node_yet(site, growing):
    """Its node would be idle, and cost the user time at the site, until job 3 has ended."""
    site.wanted = 0
    site.kept_back = [{"nodes": 2, "state": "queued", "waits_for": "after 3"}]
    growing.step(site, 0)
    assert (site.asked, site.removed) == (0, [("far", False)])


def test_agent_asks_again_until_slurm_reports_the_end_of_the_domain(tmp_path, monkeypatch):
    """Otherwise its job of Slurm would go on to its time limit."""
    silent = CoschedError("squeue: no answer within 60 s")
    look, kill = Mock(side_effect=[silent, False, silent, True]), Mock()
    monkeypatch.setattr(slurmagent, "has_ended", look)
    monkeypatch.setattr("time.sleep", lambda _s: None)
    monkeypatch.setattr("os.kill", kill)
    slurmagent._end_with(7, DomainPaths(tmp_path))
    kill.assert_called_once_with(os.getpid(), signal.SIGTERM)
    assert look.call_count == 4
