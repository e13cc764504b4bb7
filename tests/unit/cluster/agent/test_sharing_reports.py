"""An agent reports jobs that share its node; the scheduler daemon is played."""

import asyncio
import json
import os
import time

import msgspec
import pytest

from cosched.cluster.agent import sharing_reports
from cosched.cluster.agent.sharing_reports import (
    ANSWER_BYTES,
    JOBS_MOST,
    LATE_ANSWERS,
    SharingReports,
)
from cosched.cluster.sharing_messages import BesideJob, JobShared
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.symbiosis.limited import Spending
from cosched.core.symbiosis.speeds import LEAST_TRIALS, Measure
from cosched.core.trace.neighbours import Neighbour, Sharing

SPENT = Spending(9.0, 1.0, 0.5, 7.0, 0.25, None, 3, 4)
FIRST, SECOND = (7, 1), (8, 1)


def job_object(name, uid=5, label="cpu"):
    environ = {"COSCHED_JOB": name, "COSCHED_LIMITED_BY": label}
    if label is None:
        del environ["COSCHED_LIMITED_BY"]
    return JobObject(
        *("job", uid, 6, ("./app",), environ, "/", 0o22, (1,), "pmi1", "", False),
        *("/dev/null", "out", "", False, 1.0),
    )


def neighbour(*keys, trials=LEAST_TRIALS, slowdown=1.25, at_least=1.1):
    return Neighbour(
        keys,
        (0,) * len(keys),
        (("cpu",),) * len(keys),
        Measure.ITERATIONS,
        trials,
        10.0,
        8.0,
        slowdown,
        at_least,
    )


def shown(key, *beside, began_ns=None):
    sharing = Sharing(("cpu",), SPENT, beside=tuple(beside))
    began_ns = time.time_ns() if began_ns is None else began_ns
    return {"key": key, "began_wall_ns": began_ns, "sharing": msgspec.to_builtins(sharing)}


class Daemon:
    """A scheduler daemon that answers one question with ``answer``."""

    def __init__(self, path):
        self.path = path
        self.answer = {"running": [], "ended": []}
        self.asked = []

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_error):
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self.asked.append(json.loads(await reader.readline()))
        answer = self.answer
        writer.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        writer.write(b"\n")
        await writer.drain()
        writer.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control.sock"


@pytest.fixture
def lines():
    return []


@pytest.fixture
def sent():
    return []


@pytest.fixture
def reports(path, sent, lines):
    return SharingReports((path.with_name("none"), path), sent.append, lines.append)


def play(path, scenario):
    async def whole():
        async with Daemon(path) as daemon:
            await scenario(daemon)

    asyncio.run(whole())


def test_speeds_are_reported_when_they_change(path, reports, sent):
    async def scenario(daemon):
        reports.begin(FIRST, job_object("lu-7"))
        reports.begin(SECOND, job_object("ep-8"))
        await reports.look()
        assert sent == []  # its tasks have not registered
        daemon.answer["running"] = [shown("5.lu-7", neighbour("5.ep-8")), shown("5.ep-8")]
        await reports.look()
        await reports.look()
        first = JobShared(*FIRST, (BesideJob(8, LEAST_TRIALS, 1250, 1100),))
        assert sent == [first]
        stood = neighbour("5.ep-8", trials=6, slowdown=None, at_least=1000.0)
        daemon.answer["running"][0] = shown("5.lu-7", stood)
        await reports.look()
        assert sent[1:] == [JobShared(*FIRST, (BesideJob(8, 6, 1_000_000, 1_000_000),))]
        reports.report_again()
        await reports.look()
        assert sent[2:] == sent[1:2]
        since_ns = daemon.asked[0]["since_wall_ns"]
        assert 0 <= time.time_ns() - since_ns < 60e9

    play(path, scenario)


def test_last_report_has_the_account_of_the_ended_job(path, reports, sent):
    async def scenario(daemon):
        reports.begin(FIRST, job_object("lu-7"))
        daemon.answer["running"] = [shown("5.lu-7")]
        reports.end(FIRST)
        await reports.look()  # the daemon has not noticed the end yet
        assert sent == []
        daemon.answer = {"running": [], "ended": [shown("5.lu-7")]}
        await reports.look()
        (report,) = sent
        assert report.over
        assert report.spent.time_ns == 9_000_000_000
        assert (report.spent.stalled_io_ns, report.spent.stalled_memory_ns) == (
            250_000_000,
            None,
        )
        await reports.look()
        assert len(sent) == 1

    play(path, scenario)


def test_end_that_the_daemon_never_shows_is_reported_all_the_same(path, reports, sent):
    async def scenario(daemon):
        reports.begin(FIRST, job_object("lu-7"))
        daemon.answer["running"] = [shown("5.lu-7")]
        await reports.look()
        daemon.answer["running"] = []
        reports.end(FIRST)
        for _ in range(LATE_ANSWERS):
            assert not any(report.over for report in sent)
            await reports.look()
        assert [report.over for report in sent] == [True]

    play(path, scenario)


def test_jobs_of_others_are_reported_nowhere(path, reports, sent):
    async def scenario(daemon):
        reports.begin(FIRST, job_object("lu-7"))
        reports.begin(SECOND, job_object("ep-8", label=None))
        others = (
            neighbour("5.ep-8"),  # its user has named no limit
            neighbour("6.lu-7"),  # another user's
            neighbour("5.lu-7", "5.a"),
            neighbour("5.lu-7", trials=LEAST_TRIALS - 1),
        )
        earlier = shown("5.lu-7", neighbour("5.lu-7"), began_ns=1)  # an earlier start
        daemon.answer = {
            "running": [shown("5.lu-7", *others), shown("6.lu-7", neighbour("5.lu-7"))],
            "ended": [earlier],
        }
        await reports.look()
        assert sent == []

    play(path, scenario)


def test_number_of_remembered_jobs_is_bounded(path, reports, sent):
    async def scenario(daemon):
        for number in range(1, JOBS_MOST + 2):
            reports.begin((number, 1), job_object(f"a-{number}"))
        key = f"5.a-{JOBS_MOST + 1}"
        beside = [neighbour(f"5.a-{number}") for number in (1, 2)]
        daemon.answer["running"] = [shown(key, *beside)]
        await reports.look()
        (report,) = sent
        assert [each.job for each in report.beside] == [2]

    play(path, scenario)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"running": [{"key": 1}], "ended": []}',
        b"x" * (ANSWER_BYTES + 10),
        b'{"error": "not a request"}',
    ],
    ids=["ends", "lacks", "other", "endless", "error"],
)
def test_wrong_answer_costs_one_line(path, reports, sent, lines, answer):
    async def scenario(daemon):
        reports.begin(FIRST, job_object("lu-7"))
        daemon.answer = answer
        for _ in range(3):
            await reports.look()
        assert sent == []
        assert len(lines) == 1
        assert "the scheduler daemon" in lines[0]

    play(path, scenario)


def test_daemon_that_does_not_answer_is_left(path, reports, lines, monkeypatch):
    async def scenario():
        monkeypatch.setattr(sharing_reports, "ANSWER_S", 0.05)
        server = await asyncio.start_unix_server(lambda _reader, _writer: None, path)
        reports.begin(FIRST, job_object("lu-7"))
        await reports.look()
        assert "does not answer in time" in lines[0]
        server.close()

    asyncio.run(scenario())


def test_socket_of_another_user_is_not_believed(path, reports, sent, lines, monkeypatch):
    async def scenario(daemon):
        monkeypatch.setattr(sharing_reports, "peer_ids", lambda _: (1, os.geteuid() + 7, 1))
        reports.begin(FIRST, job_object("lu-7"))
        reports.begin(SECOND, job_object("ep-8"))
        daemon.answer["running"] = [shown("5.lu-7", neighbour("5.ep-8"))]
        await reports.look()
        assert sent == []
        assert "listens there" in lines[0]

    play(path, scenario)


def test_node_without_a_daemon_reports_nothing(path, reports, sent, lines):
    async def scenario():
        reports.begin(FIRST, job_object("lu-7"))
        reports.end(FIRST)
        for _ in range(LATE_ANSWERS):
            await reports.look()
        assert (sent, lines) == ([], [])

    asyncio.run(scenario())
