"""The engine with doubles of Slurm's commands, and gates that connect to its socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from pathlib import Path

import pytest

from cosched.cluster.engines.interface import (
    Cancelled,
    GaveBack,
    Reached,
    Ready,
    Refused,
    Submitted,
    Tried,
)
from cosched.cluster.engines.slurm.engine import Names, SlurmEngine
from cosched.cluster.engines.slurm.settings import SlurmSettings

PAIRED = "cosched:mate=g@b"


class Slurm:
    """Doubles of Slurm's commands. jobs: the rows of squeue, by number."""

    def __init__(self, folder):
        self.folder = folder
        self.jobs = {}
        self.events = []
        self.log = []
        self._double("squeue", f"cat {folder}/jobs.json")
        self._double("sinfo", "echo n1 idle")
        self._double("scontrol", f'echo "$@" >> {folder}/orders')
        self._double("scancel", f'echo "$@" >> {folder}/cancelled')
        self._double("sbatch", f'echo "$@" >> {folder}/tests; cat {folder}/expected')
        (folder / "orders").touch()
        (folder / "cancelled").touch()
        (folder / "tests").touch()
        (folder / "expected").touch()
        self.show()
        environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        settings = SlurmSettings(poll_s=0.05, try_s=0.5)
        self.engine = SlurmEngine(
            Names("a", ["b"]),
            settings,
            folder / "s",
            {os.geteuid()},
            environ,
            self.log.append,
        )

    def _double(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def show(self, number=None, **fields):
        """Lets squeue print other fields of a job."""
        if number is not None:
            job = {"job_id": number, "user_name": "anna", "comment": PAIRED}
            self.jobs[number] = {**job, **self.jobs.get(number, {}), **fields}
        new = self.folder / "jobs.new"
        new.write_text(json.dumps({"jobs": list(self.jobs.values())}))
        new.rename(self.folder / "jobs.json")

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
            running = asyncio.ensure_future(double.engine.run(double.events.append))
            try:
                await double.event(Reached)
                await scenario(double)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

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


def test_nice_value_of_the_user_is_moved(slurm):
    async def scenario(slurm):
        slurm.show(7, nice=100)
        await slurm.event(Submitted)
        slurm.engine.set_priority(7, 5)
        await slurm.until(lambda: slurm.orders("Nice"), "nice is set")
        slurm.show(7, nice=95)
        await asyncio.sleep(0.3)
        slurm.engine.set_priority(7, 10)
        await slurm.until(lambda: len(slurm.orders("Nice")) == 2, "nice is set again")
        assert [line.split()[-1] for line in slurm.orders("Nice")] == ["Nice=95", "Nice=90"]

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
            await asyncio.sleep(0.5)  # squeue has shown it
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
