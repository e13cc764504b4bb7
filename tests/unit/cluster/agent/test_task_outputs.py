"""The outputs of tasks: credit, and what follows without it."""

import os
from types import SimpleNamespace

import pytest

from cosched.cluster.agent.steward.outputs import TaskOutputs
from cosched.cluster.agent.steward.streams import CREDIT_BYTES, READ_BYTES
from cosched.cluster.agent.steward.task_process import STDOUT
from cosched.service.loop import Watch

PIECE = b"x" * READ_BYTES


class Outputs:
    """A task that has written all that its node has credit for."""

    def __init__(self):
        self.watch = Watch()
        self.bytes = 0
        self.outputs = TaskOutputs(self.watch, self.take)
        reader, self.writer = os.pipe()
        os.set_blocking(reader, False)
        self.task = SimpleNamespace(outputs={reader: STDOUT})
        self.outputs.watch(self.task, "")
        for _ in range(CREDIT_BYTES // READ_BYTES):
            self.write()

    def take(self, frame):
        self.bytes += len(frame.data)

    def write(self):
        os.write(self.writer, PIECE)
        self.watch.wait(0)

    def end(self):
        os.close(self.writer)
        for _ in range(3):
            self.watch.wait(0)


@pytest.fixture
def outputs():
    return Outputs()


def test_output_without_credit_waits(outputs):
    outputs.write()
    outputs.end()
    assert outputs.bytes == CREDIT_BYTES
    assert outputs.task.outputs
    outputs.outputs.add_credit(len(PIECE))
    outputs.watch.wait(0)
    assert outputs.bytes == CREDIT_BYTES + len(PIECE)


def test_output_that_gets_no_credit_any_more_is_read_and_lost(outputs):
    outputs.write()
    outputs.outputs.lose_rest()
    outputs.watch.wait(0)
    outputs.write()
    outputs.end()
    assert outputs.bytes == CREDIT_BYTES
    assert not outputs.task.outputs
