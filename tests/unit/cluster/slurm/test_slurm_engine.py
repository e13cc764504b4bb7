"""The engine with doubles of Slurm's commands, and gates that connect to its socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import time
from pathlib import Path

import pytest

from cosched.cluster.engines.slurm.events import (
    Cancelled,
    GaveBack,
    Reached,
    Ready,
    Refused,
    Submitted,
    Tried,
)
from cosched.cluster.engines.slurm.steering import Names, SlurmSteering
from cosched.config.slurm import SlurmSettings

PAIRED = "cosched:mate=g@b"


class Slurm:
    """Doubles of Slurm's commands. jobs: the rows of squeue, by number."""

    def __init__(self, folder):
        self.folder = folder
        self.jobs = {}
        self.events = []
        self.log = []
        self.try_s, self.longest_hold_s, self.cannot_yield = 0.5, 3600.0, "refuse"
        # Slurm 24.11 prints jobs that are over only if all states are asked for.
        over = f'case "$*" in *--states=all*) cat {folder}/jobs.json ;; *) exit 1 ;; esac'
        self.double("squeue", f"echo >> {folder}/polls; {over}")
        self.show_nodes("idle")
        self.double("scontrol", f'echo "$@" >> {folder}/orders')
        self.double("scancel", f'echo "$@" >> {folder}/cancelled')
        self.double("sbatch", f'echo "$@" >> {folder}/tests; cat {folder}/expected')
        (folder / "polls").touch()
        (folder / "orders").touch()
        (folder / "cancelled").touch()
        (folder / "tests").touch()
        (folder / "expected").touch()
        self.show()

    @property
    def settings(self):
        return SlurmSettings(
            poll_s=0.05,
            try_s=self.try_s,
            longest_hold_s=self.longest_hold_s,
            cannot_yield=self.cannot_yield,
        )

    async def start(self):
        """Starts an engine, as a new controller does."""
        self.events.clear()
        environ = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.engine = SlurmSteering(
            Names("a", ["b"]),
            self.settings,
            self.folder / "s",
            {os.geteuid()},
            environ,
            self.log.append,
        )
        self._running = asyncio.ensure_future(self.engine.run(self.events.append))
        await self.event(Reached)

    async def with_long_tries(self):
        """Starts the engine again; a job may now take an hour until it has nodes."""
        await self.stop()
        self.try_s = 3600.0
        await self.start()

    async def only_hold(self, longest_hold_s=3600.0):
        """Starts the engine again; it takes jobs that cannot yield."""
        await self.stop()
        self.longest_hold_s, self.cannot_yield = longest_hold_s, "hold"
        await self.start()

    async def stop(self):
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def double(self, name, script):
        """Lets a command run another script. The command itself is written only once,
        before the engine starts children: the kernel executes no file that a child, forked
        while it was written, still has open."""
        path, body = self.folder / name, self.folder / f"{name}.sh"
        new = self.folder / f"{name}.new"
        new.write_text(f"{script}\n")
        new.rename(body)
        if not path.exists():
            path.write_text(f"#!/bin/sh\n. {shlex.quote(str(body))}\n")
            path.chmod(0o755)

    def show(self, number=None, **fields):
        """Lets squeue print other fields of a job."""
        if number is not None:
            job = {"job_id": number, "user_name": "anna", "comment": PAIRED}
            job["partition"] = "main"
            self.jobs[number] = {**job, **self.jobs.get(number, {}), **fields}
        new = self.folder / "jobs.new"
        new.write_text(json.dumps({"jobs": list(self.jobs.values())}))
        new.rename(self.folder / "jobs.json")

    def show_nodes(self, *states, shared="NO"):
        """Lets sinfo print nodes in these states."""
        lines = [f"n{at} {state} {shared} main" for at, state in enumerate(states, 1)]
        self.double("sinfo", "\n".join(f"echo '{line}'" for line in lines))

    def obey(self):
        """Lets squeue print what the orders have changed."""
        for line in self.orders("update"):
            number = re.search(r"JobId=(\d+)", line)[1]
            if nice := re.search(r"Nice=(\S+)", line):
                self.show(int(number), nice=int(nice[1]))
            if comment := re.search(r"AdminComment=(.*)", line):
                self.show(int(number), admin_comment=comment[1])

    async def moved(self, number, places):
        """Moves a job; returns the nice value that it gets."""
        before = len(self.orders("Nice"))
        self.engine.set_priority(number, places)
        await self.until(lambda: len(self.orders("Nice")) > before, "nice is set")
        self.obey()
        await self.polled()
        return self.jobs[number]["nice"]

    async def polled(self):
        """Waits until the engine has read what squeue prints from now on. It has read one
        answer when squeue begins the next time."""
        polls = self.folder / "polls"
        begun = polls.stat().st_size
        await self.until(lambda: polls.stat().st_size >= begun + 2, "squeue runs twice")

    def orders(self, word=""):
        """Returns the lines of scontrol that contain a word."""
        lines = (self.folder / "orders").read_text().splitlines()
        return [line for line in lines if word in line]

    def cancelled(self):
        return (self.folder / "cancelled").read_text().split()

    def seen(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition, what):
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, (what, self.events, self.orders(), self.log)
            await asyncio.sleep(0.01)

    async def event(self, kind, times=1):
        """Waits for an event of this kind; returns it."""
        await self.until(lambda: len(self.seen(kind)) >= times, kind.__name__)
        return self.seen(kind)[times - 1]

    @contextlib.asynccontextmanager
    async def gate(self, number, restarts=0, life="life"):
        """Lets a gate wait; yields the stream from which it reads its order."""
        reader, writer = await asyncio.open_unix_connection(self.folder / "s")
        hello = {"job": number, "uid": 1, "restarts": restarts, "nodes": "n1", "life": life}
        writer.write(json.dumps(hello).encode() + b"\n")
        try:
            yield reader
        finally:
            writer.close()


@pytest.fixture
def slurm(tmp_path):
    """Returns a function that runs an async scenario with a Slurm."""

    def run(scenario):
        async def live():
            double = Slurm(Path(tmp_path))
            try:
                await double.start()
                await scenario(double)
            finally:
                await double.stop()

        asyncio.run(live())

    return run


def test_order_about_a_job_does_not_wait_for_one_that_was_taken_back(slurm):
    """The job's comment changes while its gate has the order to yield."""

    async def scenario(slurm):
        slurm.show(7)
        await slurm.event(Submitted)
        async with slurm.gate(7):
            await slurm.event(Ready)
            slurm.engine.give_back(7, 30.0)
            slurm.show(7, comment="cosched:mate=h@b")
            await slurm.event(Cancelled)
            await slurm.event(Submitted, times=2)
            slurm.engine.try_now(7)
            await slurm.event(Tried)

    slurm(scenario)


def test_begin_time_of_the_user_is_kept(slurm):
    async def scenario(slurm):
        slurm.show(7, eligible_time=int(time.time()) + 3600)
        await slurm.event(Submitted)
        slurm.engine.try_now(7)
        tried = await slurm.event(Tried)
        assert (tried.ready, tried.reason) == (False, "its begin time has not come")
        assert slurm.orders("StartTime") == []

    slurm(scenario)


@pytest.mark.parametrize("fields", [{"restart_cnt": 1}, {}])
def test_wait_after_a_yield_ends_at_a_try(slurm, fields):
    """Slurm itself lets a requeued job wait; one that is eligible may start anyway."""

    async def scenario(slurm):
        wait_s = 3600 if fields else -5
        slurm.show(7, eligible_time=int(time.time()) + wait_s, **fields)
        await slurm.event(Submitted)
        slurm.engine.try_now(7)
        await slurm.event(Tried)
        assert slurm.orders("StartTime") == ["update JobId=7 StartTime=now"]

    slurm(scenario)


@pytest.mark.parametrize("states", [("allocated",), ("idle", "allocated", "down")])
def test_try_ends_at_once_if_nodes_are_lacking(slurm, states):
    async def scenario(slurm):
        await slurm.with_long_tries()
        slurm.show_nodes(*states)
        slurm.show(7, node_count=2, eligible_time=int(time.time()) + 3600, restart_cnt=1)
        await slurm.event(Submitted)
        slurm.engine.try_now(7)
        tried = await slurm.event(Tried)
        assert (tried.ready, tried.reason) == (False, "its nodes are not free")
        await slurm.until(lambda: slurm.orders("StartTime"), "it may start")
        assert slurm.orders("StartTime") == ["update JobId=7 StartTime=now"]

    slurm(scenario)


@pytest.mark.parametrize("why", ["free", "shared", "preempts", "unknown", "has some"])
def test_try_waits_if_nodes_may_come(slurm, why):
    async def scenario(slurm):
        await slurm.with_long_tries()
        slurm.show_nodes("allocated")
        if why == "free":
            slurm.show_nodes("idle")
        elif why == "shared":
            slurm.show_nodes("allocated", shared="FORCE:4")
        elif why == "preempts":
            config = "echo PreemptType = preempt/qos"
            slurm.double("scontrol", f'echo "$@" >> {slurm.folder}/orders; {config}')
        elif why == "unknown":
            slurm.double("sinfo", "exit 1")
        slurm.show(7)
        await slurm.event(Submitted)
        if why == "has some":
            slurm.show(7, job_state="CONFIGURING")
        slurm.engine.try_now(7)
        await slurm.until(lambda: slurm.orders("StartTime"), "it may start")
        async with slurm.gate(7):
            tried = await slurm.event(Tried)
        assert tried.ready
        problems = [line for line in slurm.log if line.startswith("cannot count")]
        assert len(problems) == (why == "unknown")

    slurm(scenario)


def test_nice_value_of_the_user_is_moved(slurm):
    async def scenario(slurm):
        slurm.show(7, nice=100)
        await slurm.event(Submitted)
        assert [await slurm.moved(7, places) for places in (5, 10)] == [95, 90]

    slurm(scenario)


def test_next_controller_moves_a_job_from_where_its_user_put_it(slurm):
    async def scenario(slurm):
        slurm.show(7, nice=100)
        await slurm.event(Submitted)
        assert await slurm.moved(7, 5) == 95
        for places, nice in ((10, 90), (12, 88)):
            await slurm.stop()
            await slurm.start()
            await slurm.event(Submitted)
            assert await slurm.moved(7, places) == nice

    slurm(scenario)


@pytest.mark.parametrize("restarts", [False, True])
def test_nice_value_that_a_user_gives_a_moved_job_counts(slurm, restarts):
    async def scenario(slurm):
        slurm.show(7)
        await slurm.event(Submitted)
        assert await slurm.moved(7, 5) == -5
        slurm.show(7, nice=500)
        await slurm.polled()
        if restarts:
            await slurm.stop()
            await slurm.start()
            await slurm.event(Submitted)
        assert await slurm.moved(7, 10) == 490
        assert await slurm.moved(7, 15) == 485

    slurm(scenario)


def test_move_that_slurm_ignored_is_not_taken_back(slurm):
    """It ignores the nice value of a job whose priority an administrator has set."""

    async def scenario(slurm):
        slurm.show(7)
        await slurm.event(Submitted)
        await slurm.moved(7, 5)
        slurm.show(7, nice=0)
        await slurm.polled()
        assert await slurm.moved(7, 10) == -10

    slurm(scenario)


def test_moved_job_that_is_refused_gets_its_nice_value_back_before_it_is_held(slurm):
    """A change of the nice value would release it: priority/basic does so."""

    async def scenario(slurm):
        slurm.show(7, nice=100)
        await slurm.event(Submitted)
        slurm.engine.set_priority(7, 5)
        await slurm.until(lambda: slurm.orders("Nice"), "nice is set")
        slurm.obey()
        slurm.engine.refuse(7, "b refuses its group")  # squeue has not shown the move
        await slurm.until(lambda: slurm.orders("refuses"), "the reason is shown")
        assert slurm.orders("7")[1:] == [
            "update JobId=7 Nice=100",
            "uhold 7",
            "update JobId=7 AdminComment=cosched: b refuses its group",
        ]

    slurm(scenario)


def test_moved_job_whose_comment_turns_wrong_gets_its_nice_value_back(slurm):
    async def scenario(slurm):
        slurm.show(7, nice=100)
        await slurm.event(Submitted)
        await slurm.moved(7, 5)
        slurm.show(7, comment="cosched:x")
        await slurm.until(lambda: slurm.orders("none of"), "the reason is shown")
        assert slurm.orders("7")[1:3] == ["update JobId=7 Nice=100", "uhold 7"]

    slurm(scenario)


def test_moved_job_that_starts_gets_its_nice_value_back_with_its_mates(slurm):
    async def scenario(slurm):
        slurm.show(7, nice=100)
        await slurm.event(Submitted)
        await slurm.moved(7, 5)
        async with slurm.gate(7):
            await slurm.event(Ready)
            slurm.engine.go(7, [("b", "8@b1")])
            await slurm.until(lambda: slurm.orders("mates"), "the mates are shown")
        assert slurm.orders("mates") == [
            "update JobId=7 Nice=100 AdminComment=cosched: mates b=8@b1"
        ]

    slurm(scenario)


def test_mates_are_shown_after_a_slow_move(slurm):
    async def scenario(slurm):
        slow = f'case "$*" in *Nice*) sleep 0.5 ;; esac; echo "$@" >> {slurm.folder}/orders'
        slurm.double("scontrol", slow)
        slurm.show(7)
        await slurm.event(Submitted)
        async with slurm.gate(7):
            await slurm.event(Ready)
            slurm.engine.set_priority(7, 5)
            await asyncio.sleep(0.1)  # it is under way
            slurm.engine.go(7, [("b", "8@b1")])
            await slurm.until(lambda: len(slurm.orders("7")) == 2, "both are set")
        assert slurm.orders("7")[1].endswith("AdminComment=cosched: mates b=8@b1")

    slurm(scenario)


def test_long_addresses_in_the_record_end_after_a_whole_node(slurm):
    async def scenario(slurm):
        slurm.show(7)
        await slurm.event(Submitted)
        nodes = ",".join(f"node{n}" for n in range(200))
        async with slurm.gate(7) as gate:
            await slurm.event(Ready)
            slurm.engine.go(7, [("b", f"812@{nodes}"), ("c", "9@c1")])
            assert json.loads(await gate.readline()) == {"ok": "go"}
        await slurm.until(lambda: slurm.orders("AdminComment"), "the mates are shown")
        (order,) = slurm.orders("AdminComment")
        text = order.partition("AdminComment=")[2]
        assert len(text) <= 1000
        assert re.fullmatch(r"cosched: mates b=812@(node\d+,)+node(\d+) c=9@c1", text)
        kept = re.search(r"@(.*) c=", text)[1]
        assert nodes.startswith(f"{kept},")

    slurm(scenario)


def test_job_that_must_not_be_requeued_any_more_gets_no_order_to_yield(slurm):
    async def scenario(slurm):
        slurm.show(7)
        await slurm.event(Submitted)
        async with slurm.gate(7) as gate:
            await slurm.event(Ready)
            slurm.show(7, job_state="CONFIGURING", requeue=False)
            await slurm.polled()
            slurm.engine.give_back(7, 0.1)
            await slurm.event(GaveBack)
            await slurm.event(Ready, times=2)  # it has kept its nodes
            slurm.engine.go(7)
            assert json.loads(await gate.readline()) == {"ok": "go"}

    slurm(scenario)


def test_job_that_is_turned_away_at_its_gate_shows_the_reason(slurm):
    async def scenario(slurm):
        slurm.show(7, job_state="CONFIGURING", requeue=False)
        await slurm.event(Refused)
        await slurm.until(lambda: slurm.cancelled() == ["7"], "it is cancelled")
        (order,) = slurm.orders("AdminComment")
        assert "use sbatch, with --requeue" in order

    async def at_gate(slurm):
        async with slurm.gate(7) as gate:
            await scenario(slurm)
            assert json.loads(await gate.readline()) == {"ok": "yield"}

    slurm(at_gate)


@pytest.mark.parametrize(
    ("fields", "expected", "reason"),
    [
        ({"state_reason": "Resources"}, True, "its nodes are not free"),
        ({"state_reason": "Priority"}, True, "its nodes are not free"),
        ({"state_reason": "Dependency"}, False, "Slurm does not start it: Dependency"),
        ({"state_reason": None}, False, "Slurm does not start it: no reason"),
        (
            {"state_reason": "Resources", "tres_per_job": "gres:gpu:4"},
            False,
            "its nodes are not free",
        ),
    ],
)
def test_start_is_expected_only_of_a_job_that_waits_for_nodes(
    slurm, fields, expected, reason
):
    async def scenario(slurm):
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 100))
        (slurm.folder / "expected").write_text(f"Job 8 to start at {at} using 1\n")
        slurm.show(7, state_reason="Resources", comment=f"{PAIRED},within=60s")
        await slurm.event(Submitted)
        slurm.engine.try_now(7)
        await slurm.until(lambda: slurm.orders("StartTime"), "it may start")
        slurm.show(7, memory_per_node=512, **fields)
        tried = await slurm.event(Tried)
        assert (tried.ready, tried.reason) == (False, reason)
        assert (tried.expected_s is not None) == expected
        if expected:
            assert 50 < tried.expected_s <= 100
            assert "--mem=512M" in (slurm.folder / "tests").read_text()

    slurm(scenario)


def test_refusal_does_not_touch_a_job_that_has_begun(slurm):
    async def scenario(slurm):
        await slurm.only_hold()
        for number, fields in ((7, {}), (8, {"batch_flag": False})):
            slurm.show(number, **fields)
            await slurm.event(Submitted, times=number - 6)
            async with slurm.gate(number, life=f"life{number}"):
                await slurm.event(Ready, times=number - 6)
                slurm.engine.go(number)
                slurm.engine.refuse(number, "b refuses its group")
        await slurm.polled()
        assert slurm.orders("hold") == []
        assert slurm.cancelled() == []

    slurm(scenario)


def test_many_orders_to_try_are_two_tries_at_most(slurm):
    async def scenario(slurm):
        await slurm.with_long_tries()
        slurm.show(7)
        await slurm.event(Submitted)
        slurm.engine.try_now(7)
        await slurm.until(lambda: slurm.orders("StartTime"), "the first try is under way")
        for _ in range(20):
            slurm.engine.try_now(7)
        async with slurm.gate(7):
            await slurm.event(Tried, times=2)
            await slurm.polled()
            assert len(slurm.seen(Tried)) == 2

    slurm(scenario)


def test_job_that_cannot_yield_starts_before_its_lease_ends(slurm):
    async def scenario(slurm):
        await slurm.only_hold(longest_hold_s=2.0)
        slurm.show(7, batch_flag=False)
        await slurm.event(Submitted)
        async with slurm.gate(7) as gate:
            slurm.show(7, job_state="CONFIGURING")
            await slurm.event(Ready)
            order = await asyncio.wait_for(gate.readline(), 2.0)
            assert json.loads(order) == {"ok": "go"}
        (line,) = [line for line in slurm.log if line.startswith("job 7")]
        assert line == "job 7: its lease ends and it cannot yield, so it starts"

    slurm(scenario)


def test_job_that_only_holds_and_is_over_is_not_ready_again(slurm):
    async def scenario(slurm):
        await slurm.only_hold()
        slurm.show(7, batch_flag=False)
        await slurm.event(Submitted)
        async with slurm.gate(7):
            await slurm.event(Ready)
            tracked = slurm.engine._tracker.get(7)
            slurm.show(7, job_state="CANCELLED")
            await slurm.event(Cancelled)
            await slurm.engine._only_hold(tracked, 0.0)  # its wait ends after the job
        assert len(slurm.seen(Ready)) == 1

    slurm(scenario)


def test_strangers_at_the_gates_socket_do_not_fill_the_log(slurm):
    async def scenario(slurm):
        slurm.engine._gates.users = frozenset()
        for number in range(3):
            async with slurm.gate(number) as gate:
                assert b"only SlurmUser" in await gate.readline()
        lines = [line for line in slurm.log if "is not Slurm" in line]
        assert lines == [
            f"user {os.geteuid()}: is not Slurm; refused at the socket of its gates"
        ]

    slurm(scenario)
