"""Holds how a job takes part in coscheduling, within the operator's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cosched.config.config_files import is_configured
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch.environment import wait_policy

if TYPE_CHECKING:
    from cosched.core.config.schema import Limits


class Choices(NamedTuple):
    """The choices for a job."""

    policy: str  #: how ranks wait, as the shim reads it
    #: The carrier of the sender's status as the user wants it, ``auto`` included.
    carrier: str
    #: The operator's limits for the job's user; None: there are none.
    limits: Limits | None
    #: The job does not run unless each of its nodes coschedules it.
    needs_all: bool = False

    @property
    def jobs_per_user(self) -> int | None:
        """The most jobs that the user may have on a node; None: any number."""
        return None if self.limits is None else self.limits.jobs_per_user

    def check_carrier(self, carrier: str) -> None:
        """Raises CoschedError unless the operator allows the chosen carrier."""
        if self.limits is None:
            return
        from cosched.core.config.limits import refuse_task

        refusal = refuse_task(self.limits, carrier, 0)
        if refusal is not None:
            raise CoschedError(refusal)

    def check_wait(self) -> None:
        """Raises CoschedError unless the operator allows this way to wait."""
        if self.limits is None:
            return
        from cosched.core.config.limits import refuse_wait

        refusal = refuse_wait(self.limits, self.policy)
        if refusal is not None:
            raise CoschedError(refusal)


def configured_choices(environ: Mapping[str, str], euid: int) -> Choices:
    """Returns the choices of the user's configuration. Raises CoschedError at a limit."""
    choices = usual_choices(environ, euid)
    choices.check_wait()
    return choices


def usual_choices(environ: Mapping[str, str], euid: int) -> Choices:
    """Does the same, but checks no limit, since options may replace the choices."""
    if not is_configured(environ):
        # The defaults of the keys: most users set none, and the keys are slow to import.
        return Choices("spin", "auto", None)
    from cosched.config.cosched_toml import load
    from cosched.core.config.limits import limits_for

    config, _ = load(environ)
    limits = limits_for(config.limits, euid)
    policy = wait_policy(config.run.wait)
    return Choices(policy, config.run.status, limits, config.run.require == "all")
