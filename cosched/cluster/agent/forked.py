"""Turns a fork of the nursery into a steward, or into the keeper of a job's page."""

from __future__ import annotations

import os
import socket

from cosched.cluster.agent.frames import (
    AnyFrame,
    FrameReader,
    KeepPage,
    Prepare,
    receive_frame,
)
from cosched.cluster.agent.resizing.page_keeper import keep_page
from cosched.cluster.agent.steward.killing import JobPlace
from cosched.cluster.agent.steward.steward import run_steward

#: Comes to a spare with the socket of its job.
JOB = b"job"


def wait_for_job(
    requests: socket.socket, other: socket.socket, group: JobPlace | None
) -> None:
    """Runs in a spare: waits for an agent's socket, then runs the steward of its job.
    other: the nursery's end; a spare ends when the nursery closes it."""
    other.close()
    data, descriptors, _, _ = socket.recv_fds(requests, len(JOB), 1)
    requests.close()
    if data and descriptors:
        with received_socket(descriptors[0]) as agent:
            serve_agent(agent, group)


def serve_agent(agent: socket.socket, group: JobPlace | None) -> None:
    """Runs in a fork: becomes what the agent's first frame asks for."""
    reader = FrameReader()
    frames: list[AnyFrame] = []
    while not frames:
        received = receive_frame(agent, reader)
        if received is None:
            return
        frames = received
    first = frames.pop(0)
    if isinstance(first, KeepPage):
        keep_page(agent, reader, first, frames)
    else:
        assert isinstance(first, Prepare)
        run_steward(agent, reader, first, frames, group)


def received_socket(descriptor: int) -> socket.socket:
    """Returns the socket of a descriptor that was received. Programs do not inherit it."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)
