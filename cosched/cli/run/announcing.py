"""Announces to this node's daemon that a job will start, before the other imports.

Beside a running job this command and the launcher get the share of any process until their
job takes part. So ``cosched-run`` reports itself as soon as it can name the job; most of
its own work comes later. Only a plain start is announced: its launcher or a rank runs on
this node, and its ranks report at their start, too. The daemon lets this process leave the
job when the launcher or a rank registers (``core.node.launchers``).
"""

from __future__ import annotations

import os

from cosched.cli.run.given import Given
from cosched.launch.environment import (
    RANK_VARIABLES,
    command_ns,
    default_job_name,
    submission_ns,
)
from cosched.launch.given.batch_job import engine_job
from cosched.launch.given.first_word import is_launcher, label_of
from cosched.launch.given.wrapping_programs import split_front
from cosched.linux.here import this_node
from cosched.rundir.paths import NodePaths

_NOISE_BYTES = 4


def announce(given: Given) -> str | None:
    """Returns the name of the job that was announced; None: none was.

    It is a name that no other job has."""
    if given.name is not None or not _is_plain(given):
        return None
    socket_path = NodePaths(given.run_dir, this_node(os.environ)).register_socket
    if not os.path.exists(socket_path):  # also in a folder that this user may not enter
        return None
    from cosched.shm._native import ffi, lib  # only beside a daemon

    name = default_job_name(label_of(given.argv), os.urandom(_NOISE_BYTES))
    job = ffi.new("char[]", name.encode())
    task = ffi.new("struct cosched_registration *")
    task.job, task.carrier = job, lib.COSCHED_CARRIER_SHADOW
    task.memory_bytes = given.memory_bytes
    task.submitted_ns = submission_ns(os.environ, command_ns())
    error = lib.cosched_announce_command(bytes(socket_path), task)
    return None if error else name


def _is_plain(given: Given) -> bool:
    """Returns whether ranks run on this node, by a launcher that is not yet chosen."""
    front, rest = split_front(given.argv)
    return (
        given.asked.coschedules
        and given.register == "start"
        and (not given.hosts or this_node(os.environ) in given.hosts)
        and not (front or is_launcher(rest[0]))
        and not any(name in os.environ for name in RANK_VARIABLES)
        and engine_job(os.environ) is None
    )
