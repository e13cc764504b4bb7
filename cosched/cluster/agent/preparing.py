"""Prepares this node's part of a job: its slots, its directory and its steward."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.cluster.agent.frames import AnyFrame, KeepPage, Prepare, encode_frame
from cosched.cluster.agent.node_parts import NodePart, NodeParts
from cosched.cluster.agent.route import Route
from cosched.cluster.agent.stewards import Nursery, Steward
from cosched.cluster.paths import DomainPaths
from cosched.core.cluster.startup.assignment import Inventory, Units
from cosched.core.cluster.startup.ends import WORK_S, end_limit_s
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.errors import CoschedError
from cosched.linux.identity import give
from cosched.linux.system_text import to_wire
from cosched.shm.boundaries import VARIABLE

#: Begins the name of a directory that is being removed.
_REMOVED = "removed."
#: The resource of which each task of a job gets one.
SLOTS = "slots"


@dataclass(frozen=True, slots=True)
class PageSpot:
    """The page of a malleable job on this node."""

    start: tuple[int, int]  #: of the job
    place: int  #: of the node in the job
    uid: int  #: the job's user
    gid: int  #: the user's group


class Stewards:
    """The stewards of the jobs on the node ``name``. Removes the files of an earlier life
    of the agent. Makes the nursery write the hardware's file; jobs do not wait for it.

    slots: their number on this node. spawn: runs a steward's connection beside the agent.
    log: takes one line about a steward. parts: those of this node.
    """

    def __init__(
        self,
        name: str,
        paths: DomainPaths,
        slots: int,
        nursery: Nursery,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        log: Callable[[str], None],
        parts: NodeParts,
    ) -> None:
        self._name = name
        self._parts = parts
        self._paths = paths
        self._spool = paths.spool(name)
        self._topology = paths.topology(name)
        self._cpus = sorted(os.sched_getaffinity(0))
        self._slots = slots
        self._inventory = Inventory({SLOTS: Units(tuple(range(slots)))})
        self._nursery = nursery
        self._spawn = spawn
        self._log = log
        self._running: dict[int, Steward] = {}  # by the nursery's number
        self._topology.unlink(missing_ok=True)
        nursery.write_topology(self._topology)
        for left in self._spool.parent.glob(f"{_REMOVED}*"):
            nursery.remove_tree(left)
        self._remove(self._spool)

    def make(
        self,
        route: Route,
        found: JobObject,
        environ: Mapping[str, str],
        on_frame: Callable[[AnyFrame], None],
        on_end: Callable[[], None],
    ) -> Steward:
        """Assigns slots to one world of a job and starts its steward, which prepares the
        tasks. Raises CoschedError if the node cannot.

        environ: variables of the tasks that this node adds. on_frame: gets the steward's
        frames. on_end: called when the steward is gone, and its slots are free.
        """
        if len(found.counts) != route.tree.size:
            raise CoschedError("the job object does not fit its tree")
        start = route.job, route.start
        part = self._parts.enter(start, route.world, found, route.place)
        try:
            slots = self._assign(route, found, part)
        except CoschedError:
            self._parts.leave(start, route.world)
            raise
        directory = self._spool / f"{route.job}.{route.start}.{route.world}"

        def ended() -> None:
            del self._running[steward.number]
            self._release(route)
            self._remove(directory)
            on_end()

        cpus = self._cpus_of(found, route.place, slots, part)
        variables = {**self._environ(), **environ}
        try:
            order = _prepare(route, found, directory, cpus, variables, self._topology)
            frame = encode_frame(order)
            _make_directory(directory, found.uid, found.gid)
            limit_s = end_limit_s(found.grace_s)
            steward = self._start(route.job, frame, on_frame, ended, limit_s)
        except Exception:  # the node is as before, whatever is wrong with the job
            self._release(route)
            self._remove(directory)
            raise
        return steward

    def _cpus_of(
        self, found: JobObject, place: int, slots: Sequence[int], part: NodePart | None
    ) -> tuple[tuple[int, ...], ...]:
        """Returns the CPUs of each task; () for any."""
        tasks = found.counts[place]
        if found.bind and slots:
            dealt = (slots[task % len(slots)] for task in range(tasks))
            return tuple((self._cpus[slot % len(self._cpus)],) for slot in dealt)
        return () if part is None else (part.cpus,) * tasks

    def path_of_page(self, spot: PageSpot) -> Path:
        """Returns where the page of a malleable job is."""
        job, start = spot.start
        return self._spool / f"{job}.{start}.page{spot.place}" / "page"

    def keep_page(
        self,
        spot: PageSpot,
        on_frame: Callable[[AnyFrame], None],
        on_end: Callable[[], None],
        *,
        again: bool,
    ) -> Steward:
        """Starts the keeper of a page, which is a steward without tasks. Raises
        CoschedError if the node cannot. again: the page is there."""
        path = self.path_of_page(spot)
        place = to_wire(str(path))
        order = KeepPage(spot.uid, spot.gid, place, spot.place, self._name, again)
        if not again:
            _make_directory(path.parent, spot.uid, spot.gid)

        def ended() -> None:
            del self._running[keeper.number]
            on_end()

        frame = encode_frame(order)
        keeper = self._start(spot.start[0], frame, on_frame, ended, WORK_S)
        return keeper

    def drop_page(self, spot: PageSpot) -> None:
        """Removes a page that no process keeps any more."""
        self._remove(self.path_of_page(spot).parent)

    def _remove(self, directory: Path) -> None:
        """Frees the name of a directory at once; the nursery removes what is in it. A user
        may have made a tree there that is too large for this process. Raises nothing: the
        next life of the agent removes what is left."""
        removed = directory.with_name(_REMOVED + secrets.token_hex(8))
        try:
            directory.rename(removed)
            self._nursery.remove_tree(removed)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._log(f"cannot remove {directory}: {error.strerror}")
        except CoschedError as error:
            self._log(f"cannot remove {removed}: {error}")

    def _start(
        self,
        job: int,
        frame: bytes,
        on_frame: Callable[[AnyFrame], None],
        on_end: Callable[[], None],
        limit_s: float,
    ) -> Steward:
        made = self._nursery.make(limit_s)
        steward = Steward(self._nursery, *made, job, on_frame, on_end, self._log, frame)
        self._running[steward.number] = steward
        self._spawn(steward.run())
        return steward

    def close(self) -> None:
        """Closes the connections to all stewards: the agent ends."""
        for steward in self._running.values():
            steward.connection.close()

    def _assign(self, route: Route, found: JobObject, part: NodePart | None) -> list[int]:
        """Assigns slots to the tasks of a submitted job: of its part, if it has one, and
        all of them to a job with more tasks. Tasks that it spawns use its nodes without
        slots of their own: the controller does not count them."""
        if route.world:
            return []
        self._inventory.share(found.jobs_per_node)
        wanted = min(found.cpus or found.counts[route.place], self._slots)
        among = None if part is None else part.slots
        uses = found.jobs_per_node if found.alone else 1
        number = _number(route.job, route.start)
        assigned = self._inventory.assign(number, wanted, {SLOTS: 1}, among, uses)
        return [task[SLOTS][0] for task in assigned]

    def _release(self, route: Route) -> None:
        self._parts.leave((route.job, route.start), route.world)
        if not route.world:
            self._inventory.release(_number(route.job, route.start))

    def lend_slots(self, start: tuple[int, int]) -> None:
        """Lets other jobs have the slots of a suspended start."""
        self._inventory.lend(_number(*start))

    def take_slots_back(self, start: tuple[int, int]) -> None:
        """Ends that."""
        self._inventory.take_back(_number(*start))

    def _environ(self) -> dict[str, str]:
        """Returns the node's name for its tasks where its scheduler daemon has it, too.
        Otherwise they look for a daemon by the host's name."""
        daemon = self._paths.node(self._name) / "register.sock"
        return {"COSCHED_NODE": self._name} if daemon.exists() else {}


def _number(job: int, start: int) -> int:
    """Returns a number for the inventory: a job may be started again while its former
    start still ends."""
    return job << 20 | start


def _make_directory(directory: Path, uid: int, gid: int) -> None:
    """Makes a directory for a job's user. Raises CoschedError if that fails."""
    try:
        directory.parent.mkdir(mode=0o711, exist_ok=True)
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            give(directory, uid, gid)
    except OSError as error:
        raise CoschedError(f"{directory}: {error.strerror}") from None


def _prepare(
    route: Route,
    found: JobObject,
    directory: Path,
    cpus: tuple[tuple[int, ...], ...],
    environ_of_node: Mapping[str, str],
    topology: Path,
) -> Prepare:
    """Returns the frame with which the job's steward makes this node's tasks. A job that
    was submitted in a malleable one is not a rank of that."""
    own = {name: value for name, value in found.environ.items() if name != VARIABLE}
    return Prepare(
        name=f"{found.name}.{route.job}.{route.start}",
        uid=found.uid,
        gid=found.gid,
        world=route.world,
        commands=found.commands,
        given=found.spawned.given if found.spawned else {},
        environ={**own, **environ_of_node},
        cwd=found.cwd,
        umask=found.umask,
        place=route.place,
        hosts=route.hosts,
        counts=found.counts,
        cpus=cpus,
        pmi=found.pmi,
        pmix_library=found.pmix_library,
        directory=to_wire(str(directory)),
        topology=to_wire(str(topology)),
        input=found.input,
        output=found.output,
        error=found.error,
        label=found.label,
        grace_s=found.grace_s,
        limits=found.limits,
        script="" if route.world else found.script,
    )
