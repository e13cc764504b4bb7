"""Holds how a job takes part in coscheduling, within the operator's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cosched.config.cosched_toml import load
from cosched.core.config.limits import limits_for, refuse_task, refuse_wait
from cosched.core.config.schema import Limits
from cosched.core.errors import CoschedError
from cosched.launch.environment import wait_policy


class Choices(NamedTuple):
    """The choices for a job."""

    policy: str  #: how ranks wait, as the shim reads it
    #: The carrier of the sender's status as the user wants it, ``auto`` included.
    carrier: str
    limits: Limits  #: the operator's limits for the job's user
    #: The job does not run unless each of its nodes coschedules it.
    needs_all: bool = False

    def check_carrier(self, carrier: str) -> None:
        """Raises CoschedError unless the operator allows the chosen carrier."""
        refusal = refuse_task(self.limits, carrier, 0)
        if refusal is not None:
            raise CoschedError(refusal)


def configured_choices(environ: Mapping[str, str], euid: int) -> Choices:
    """Returns the choices of the user's configuration. Raises CoschedError at a limit."""
    config, _ = load(environ)
    limits = limits_for(config.limits, euid)
    policy = wait_policy(config.run.wait)
    refusal = refuse_wait(limits, policy)
    if refusal is not None:
        raise CoschedError(refusal)
    return Choices(policy, config.run.status, limits, config.run.require == "all")
