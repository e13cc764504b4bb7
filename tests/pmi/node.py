"""Plays the steward of one node: serves PMIx to the tasks of a job and reports to the test.

Its standard input takes the tables of an exchange, one JSON list a line; its standard
output has one JSON list for each report. Tasks write into files of their own.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import subprocess
import sys
from pathlib import Path

from cosched.cluster.agent.topology import write_topology
from cosched.cluster.pmi.pmix import PmixService
from cosched.cluster.pmi.service import JobLayout, NodeTasks
from cosched.core.cluster.startup.questions import RootAnswer


class Reporter:
    """Writes each event of the service as a line, and answers each question with "no"."""

    service = None

    def asked(self, number, question):
        self.report("asked", type(question).__name__)
        self.service.answer(number, RootAnswer("no"))

    def refused(self, rank, what):
        self.report("refused", rank, what)

    def report(self, *words):
        print(json.dumps(words), flush=True)

    def table_ready(self, table):
        self.report("table", base64.b64encode(table).decode())

    def aborted(self, rank, status, message):
        self.report("aborted", rank, status, message)

    def finalized(self, rank):
        self.report("finalized", rank)

    def unsupported(self, rank, what):
        self.report("unsupported", rank, what)


def main():
    library, name, nodes, place, directory, *argv = sys.argv[1:]
    topology = Path(directory) / "topology.xml"
    write_topology(topology)
    layout = JobLayout(name, tuple(NodeTasks(*n) for n in json.loads(nodes)), int(place))
    reporter = Reporter()
    service = PmixService(Path(library), layout, reporter, Path(directory), topology)
    reporter.service = service
    selector = selectors.DefaultSelector()
    tasks = {}

    def deliver():
        line = sys.stdin.buffer.readline()
        if not line:  # the test has ended
            for process in tasks.values():
                process.kill()
            selector.unregister(0)
            return
        service.deliver([base64.b64decode(table) for table in json.loads(line)])

    def reap(rank, pidfd):
        selector.unregister(pidfd)
        os.close(pidfd)
        status = tasks.pop(rank).wait()
        service.ended(rank)
        reporter.report("ended", rank, status)

    for descriptor, call in service.watched().items():
        selector.register(descriptor, selectors.EVENT_READ, call)
    selector.register(0, selectors.EVENT_READ, deliver)
    for rank in layout.ranks:
        with (
            Path(directory, f"{rank}.out").open("wb") as out,
            Path(directory, f"{rank}.err").open("wb") as err,
        ):
            tasks[rank] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **service.environment(rank)},
            )
        service.started(rank, tasks[rank].pid)
        pidfd = os.pidfd_open(tasks[rank].pid)
        selector.register(pidfd, selectors.EVENT_READ, lambda r=rank, fd=pidfd: reap(r, fd))
    while tasks:
        for key, _ in selector.select():
            key.data()
    service.close()
    reporter.report("closed")
    os._exit(0)  # as a steward: libpmix's thread still runs


if __name__ == "__main__":
    main()
