"""Serves PMI-1 over the sockets of tasks."""

import os
import socket
from dataclasses import replace

import pytest

from cosched.cluster.pmi.pmi1 import LONG_VALUE_BYTES, VALUE_BYTES, Pmi1Service
from cosched.cluster.pmi.service import JobLayout, NodeTasks
from cosched.core.cluster.startup.questions import Joined

LAYOUT = JobLayout("job", (NodeTasks("a", 0, 1), NodeTasks("b", 1, 1)), 0)


class Task:
    """The only task of this node: its socket, and the service that answers."""

    def __init__(self, tmp_path, *value_bytes, layout=LAYOUT):
        self.tables = []
        self.questions = []
        self.service = Pmi1Service(layout, self, tmp_path / "none", *value_bytes)
        (number,) = self.service.inherited(0)
        self.socket = socket.socket(fileno=os.dup(number))
        self.socket.setblocking(False)
        self.service.started(0, 1)

    def table_ready(self, table):
        self.tables.append(table)

    def asked(self, number, question):
        self.questions.append((number, question))

    def ask(self, line):
        self.socket.sendall(f"{line}\n".encode())
        for call in self.service.watched().values():
            call()
        try:
            return self.socket.recv(1 << 20).decode()
        except BlockingIOError:
            return ""

    def exchange(self):
        """Returns the answer to the barrier, at which the nodes exchange their tables."""
        self.ask("cmd=barrier_in")
        self.service.deliver(self.tables)
        return self.socket.recv(1 << 20).decode()

    def close(self):
        self.socket.close()
        self.service.close()


@pytest.mark.parametrize(
    ("given", "longest"), [((), VALUE_BYTES), ((LONG_VALUE_BYTES,), LONG_VALUE_BYTES)]
)
def test_a_value_of_the_longest_length_passes(tmp_path, given, longest):
    task = Task(tmp_path, *given)
    maxes = task.ask("cmd=get_maxes")
    assert f" vallen_max={longest}\n" in maxes
    value = "v" * (longest - 1)
    assert "rc=0" in task.ask(f"cmd=put kvsname=job@0 key=k value={value}")
    assert task.exchange() == "cmd=barrier_out rc=0\n"
    answer = task.ask("cmd=get kvsname=job@0 key=k")
    assert answer == f"cmd=get_result rc=0 msg=success value={value}\n"
    task.close()


def test_reading_what_the_parents_gave_shows_once_that_mpi_has_begun(tmp_path):
    task = Task(tmp_path, layout=replace(LAYOUT, given={"port": "tag#0"}))
    assert "rc=-1" in task.ask("cmd=get kvsname=job@0 key=other")
    assert task.questions == []
    for _ in range(2):
        answer = task.ask("cmd=get kvsname=job@0 key=port")
        assert answer == "cmd=get_result rc=0 msg=success value=tag#0\n"
    assert task.questions == [(0, Joined())]
    task.close()
