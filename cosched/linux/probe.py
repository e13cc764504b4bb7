"""Finds the best class scheduler that works on this machine.

It does not guess from versions or mount options. It makes a trial group, sets its weight,
moves a process in and out, and removes it. A separate tag keeps running classes untouched.
If a step fails, the kernel's error is the reported reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cosched.core.config.words import CLASS_SCHEDULERS
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux import proc
from cosched.linux.cgroups import cgroup1, cgroup2
from cosched.linux.cgroups.cgroup1 import Cgroup1Classes
from cosched.linux.cgroups.cgroup2 import Cgroup2Classes
from cosched.linux.cgroups.cgroupfs import PREFIX, why
from cosched.linux.cgroups.groupclasses import GroupClasses, Place
from cosched.linux.classes import ClassScheduler, check_mode
from cosched.linux.dutycycle import DutyCycle

AUTO = "auto"


class Probe(NamedTuple):
    """The chosen scheduler, and why."""

    scheduler: ClassScheduler  #: the first one that works here
    #: The name of each one tried, and why it was refused or chosen.
    tried: tuple[tuple[str, str], ...]


def probe(
    tag: str, want: str = AUTO, mode: str = "proportional", root: Path = proc.ROOT
) -> Probe:
    """Returns the best class scheduler that works here, or the one in ``want``.

    Raises CoschedError with the reasons if none works.
    """
    check_mode(mode)
    tried: list[tuple[str, str]] = []
    for name in _names(want):
        try:
            scheduler, reason = _PROBES[name](tag, mode, root)
        except CoschedError as error:
            tried.append((name, str(error)))
            continue
        return Probe(scheduler, (*tried, (name, f"chosen: {reason}")))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in tried)
    raise CoschedError(f"class scheduler {want} does not work here: {reasons}")


def attach(
    tag: str, name: str, mode: str = "proportional", root: Path = proc.ROOT
) -> ClassScheduler:
    """Returns the class scheduler ``name`` without a trial.

    For callers where it worked before: the guardian, which restores the classes of another
    process, and a restarted daemon.
    """
    check_mode(mode)
    if name == AUTO:
        raise CoschedError(
            f"class scheduler {AUTO}: name one of {', '.join(CLASS_SCHEDULERS)}"
        )
    (name,) = _names(name)
    if name == "dutycycle":
        return DutyCycle(mode)
    kind, places = _GROUPS[name]
    found = _existing_first(places(root), tag)
    if not found:
        raise CoschedError(f"class scheduler {name}: no place for classes")
    return kind(found[0], tag, mode)


def _names(want: str) -> tuple[str, ...]:
    if want == AUTO:
        return CLASS_SCHEDULERS
    if want not in CLASS_SCHEDULERS:
        known = ", ".join((AUTO, *CLASS_SCHEDULERS))
        raise CoschedError(f"class scheduler '{want}': must be one of {known}")
    return (want,)


# --- control groups -------------------------------------------------------------------

_GROUPS: dict[str, tuple[type[GroupClasses], Callable[[Path], list[Place]]]] = {
    "cgroup2": (Cgroup2Classes, cgroup2.places),
    "cgroup1": (Cgroup1Classes, cgroup1.places),
}


def _existing_first(places: list[Place], tag: str) -> list[Place]:
    """Sorts places first where a dead daemon of this tag left classes."""
    return sorted(places, key=lambda place: not (place[0][1] / f"{PREFIX}{tag}").is_dir())


def _probe_groups(name: str, tag: str, mode: str, root: Path) -> tuple[ClassScheduler, str]:
    kind, places = _GROUPS[name]
    reasons: list[str] = []
    for place in _existing_first(places(root), tag):
        try:
            _try_groups(kind(place, f"trial-{os.getpid()}-{tag}", mode), root)
        except CoschedError as error:
            reasons.append(str(error))
        else:
            scheduler = kind(place, tag, mode)
            return scheduler, f"classes in {scheduler.where()}"
    raise CoschedError("; ".join(reasons) or "no place for classes")


def _try_groups(scheduler: GroupClasses, root: Path) -> None:
    """Tries each operation of a node once. CoschedError names the one that failed."""
    job = "trial"
    try:
        scheduler.create(job, frozenset({0}))
        for percent in (1, 99):
            scheduler.set_shares({job: percent})
        # The groups of a test tree hold no real processes.
        if root == proc.ROOT:
            with _trial_process() as pid:
                scheduler.add(job, pid)
                scheduler.remove(job, pid)
        scheduler.close()
    except OSError as error:
        raise CoschedError(why(error)) from None
    finally:
        with suppress(CoschedError, OSError):
            scheduler.close()


@contextmanager
def _trial_process() -> Iterator[int]:
    """Yields a waiting process, which always ends with this one."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(write_end)
            os.read(read_end, 1)  # until the other end is closed
        finally:
            os._exit(0)
    os.close(read_end)
    try:
        yield pid
    finally:
        os.close(write_end)
        os.waitpid(pid, 0)


# --- duty cycle -----------------------------------------------------------------------


def _probe_dutycycle(tag: str, mode: str, root: Path) -> tuple[ClassScheduler, str]:
    scheduler = DutyCycle(mode)
    job = "trial"
    with _trial_process() as pid:
        scheduler.create(job, frozenset({0}))
        scheduler.create("other", frozenset({0}))
        try:
            scheduler.add(job, pid)
            scheduler.set_shares({job: 1, "other": 99})
        except OSError as error:
            raise CoschedError(f"pidfd_send_signal: {error.strerror}") from None
        finally:
            scheduler.close()
    return DutyCycle(mode), "stops and continues this user's processes"


_PROBES: dict[str, Callable[[str, str, Path], tuple[ClassScheduler, str]]] = {
    "cgroup2": lambda tag, mode, root: _probe_groups("cgroup2", tag, mode, root),
    "cgroup1": lambda tag, mode, root: _probe_groups("cgroup1", tag, mode, root),
    "dutycycle": _probe_dutycycle,
}
