"""Creates, attaches, reads and writes shared-memory regions, for the daemons.

A region is a POSIX shared-memory object of mode 0600 that holds one of the two structures
of ``include/cosched/layout.h``. The scheduler daemon creates it. Other processes attach:
that checks magic, kind, ABI version and size, within a time limit.

Limits: a job region belongs to the job's user, and the user can write anything into it.
Its values are hints: slots are checked against the bounds, and identities come from the
kernel. The user can also truncate it. A process that called ``survive_torn_regions`` then
reads zeros, and ``Region.torn`` is true.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from cosched.core.errors import CoschedError
from cosched.core.node.knowledge import Expectation
from cosched.core.node.messages import Mode, OrderTimer
from cosched.shm._native import ffi, lib
from cosched.shm.objects import make_object, open_object, remove_object
from cosched.shm.region_values import RESOURCES, Phase, read_expectation, read_limits

ATTACH_TIMEOUT_S = 2.0

_COUNTERS = tuple(
    name
    for name, field in ffi.typeof("struct cosched_task_counters").fields
    if field.type.kind == "primitive"
)
# By the numbers of enum cosched_mode.
_MODES = (Mode.COSCHEDULED, Mode.RAISED, Mode.SUSPENDED, Mode.RELEASED, Mode.RESTING)


class Request(NamedTuple):
    """One request taken from a ring."""

    code: int  #: one of ``lib.COSCHED_CMD*``
    slot: int  #: the index of the task that posted it; 0 from the timer daemon
    epoch: int  #: the low 32 bits of the job's epoch then; 0 from the timer daemon


def survive_torn_regions() -> None:
    """Makes this process survive regions that their owners truncate."""
    error = -lib.cosched_guard_install()
    if error:
        raise OSError(error, os.strerror(error))


class Region:
    """A mapped region. Subclasses define which structure it holds."""

    kind: int
    ctype: str

    def __init__(self, name: str, fd: int) -> None:
        """Maps ``fd``, which is closed if that fails."""
        self.name = name
        self.fd = fd
        try:
            self._map = mmap.mmap(fd, self.size())
        except BaseException:
            os.close(fd)
            raise
        self._view = ffi.from_buffer(self._map)
        self.data: Any = ffi.cast(f"{self.ctype} *", self._view)
        error = -lib.cosched_guard_add(self._view, self.size(), ffi.NULL, ffi.NULL)
        if error:
            self._view = self.data = None
            self._map.close()
            os.close(fd)
            raise OSError(error, f"shared memory {name}: too many regions at once")
        self._taken = ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.new("uint64_t *")

    @classmethod
    def size(cls) -> int:
        """Bytes of the structure."""
        return int(ffi.sizeof(cls.ctype))

    @classmethod
    def _allocate(cls, name: str, uid: int, gid: int) -> Any:
        fd = make_object(name, cls.size(), uid, gid)
        try:
            return cls(name, fd)
        except BaseException:
            remove_object(name)
            raise

    @classmethod
    def attach(cls, name: str, timeout_s: float = ATTACH_TIMEOUT_S) -> Any:
        """Maps an existing region once its creator has marked it ready.

        Raises CoschedError when it does not exist, cannot be opened, is not one of ours,
        has another version, or is not ready within ``timeout_s``. Any user can make a
        region of any name: check ``owner``.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fd = open_object(name)
            except FileNotFoundError:
                raise CoschedError(f"shared memory {name}: does not exist") from None
            except OSError as failed:
                raise CoschedError(f"shared memory {name}: {failed.strerror}") from None
            if os.fstat(fd).st_size >= cls.size():
                region = cls._map_existing(name, fd)
                error = lib.cosched_header_check(
                    ffi.addressof(region.data.header), cls.kind, cls.size()
                )
                if error == 0:
                    return region
                region.close()
                if error == -errno.EPROTONOSUPPORT:
                    raise CoschedError(
                        f"shared memory {name}: made by another version of cosched; "
                        "let its jobs end, then end its daemons: cosched down"
                    )
                if error != -errno.EAGAIN:
                    raise CoschedError(f"shared memory {name}: not a cosched region")
            else:
                os.close(fd)
            if time.monotonic() > deadline:
                raise CoschedError(
                    f"shared memory {name}: its creator did not finish it in "
                    f"{timeout_s:g} s"
                )
            # The creator needs microseconds; there is no event to wait for.
            time.sleep(0.001)

    @classmethod
    def _map_existing(cls, name: str, fd: int) -> Any:
        try:
            return cls(name, fd)
        except OSError as error:
            raise CoschedError(str(error.strerror)) from None
        except ValueError:
            raise CoschedError(f"shared memory {name}: is being truncated") from None

    @property
    def owner(self) -> int:
        """The uid of the object's owner."""
        return os.fstat(self.fd).st_uid

    def _publish(self) -> None:
        lib.cosched_header_publish(ffi.addressof(self.data.header), self.kind, self.size())

    def beat(self) -> None:
        """Writes the heartbeat, which shows that the scheduler daemon lives."""
        lib.cosched_beat(ffi.addressof(self.data.heartbeat))

    def take_requests(self) -> list[Request]:
        """Takes the requests out of the ring: at most one lap, so that no task can keep the
        daemon here.

        Returns a list and not a generator, because handling a request may unmap the region.
        """
        ring = ffi.addressof(self.data.ring)
        code, slot, epoch = self._taken
        taken: list[Request] = []
        for _ in range(lib.COSCHED_RING_CELLS):
            if not lib.cosched_request_take(ring, code, slot, epoch):
                break
            taken.append(Request(code[0], slot[0], epoch[0]))
        return taken

    def post(self, code: int, slot: int = 0, epoch: int = 0) -> bool:
        """Puts a request into the ring. Returns False if the ring is full."""
        ring = ffi.addressof(self.data.ring)
        return bool(lib.cosched_request_post(ring, code, slot, epoch) == 0)

    @property
    def torn(self) -> bool:
        """Whether its owner truncated it, so that it holds only zeros now."""
        return bool(lib.cosched_guard_torn(self._view))

    def close(self) -> None:
        """Unmaps; the object stays until ``unlink``."""
        lib.cosched_guard_remove(self._view)
        self.data = None
        self._view = None
        # A buffer that is still exported keeps the map; the descriptor is closed anyway.
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self.fd)

    def unlink(self) -> None:
        """Removes the object's name. Processes that have mapped it keep it."""
        remove_object(self.name)


class JobRegion(Region):
    """The region that the scheduler daemon shares with one job's tasks on a node."""

    kind = lib.COSCHED_KIND_JOB
    ctype = "struct cosched_job_region"

    @classmethod
    def create(cls, name: str, job: str, uid: int, gid: int) -> JobRegion:
        """Makes a region for ``job``, owned by its user."""
        region: JobRegion = cls._allocate(name, uid, gid)
        encoded = job.encode()
        region.data.name[0 : len(encoded)] = encoded
        region.beat()
        region._publish()
        return region

    def publish_status(self, epoch: int, scheduled: bool) -> None:
        """Publishes whether the job is scheduled, and wakes its sleeping tasks."""
        lib.cosched_status_publish(ffi.addressof(self.data.status), epoch, int(scheduled))

    def publish_contention(self, contended: bool) -> None:
        """Publishes whether another job waits for this job's CPUs."""
        lib.cosched_status_contend(ffi.addressof(self.data.status), int(contended))

    def let_run_freely(self) -> None:
        """Publishes that the job is scheduled and no other job waits for its CPUs, before
        the last daemon of the node ends."""
        self.publish_contention(False)
        self.publish_status(self.next_epoch, True)

    def publish_mode(self, mode: Mode) -> None:
        """Writes the mode that the job's owner chose, for the next daemon."""
        self.data.status.mode = _MODES.index(mode)

    @property
    def mode(self) -> Mode:
        """The mode that the job's owner chose; COSCHEDULED if it cannot be read."""
        number = int(self.data.status.mode)
        return _MODES[number] if number < len(_MODES) else Mode.COSCHEDULED

    @property
    def memory_bytes(self) -> int:
        """The memory that the job declared for this node; 0: none."""
        return int(self.data.status.memory_bytes)

    def declare_memory(self, need_bytes: int) -> None:
        """Writes the memory that the job declared."""
        self.data.status.memory_bytes = need_bytes

    @property
    def submitted_ns(self) -> int:
        """The time that orders the job by submission, ns since 1970; 0: not known."""
        return int(self.data.status.submitted_ns)

    def record_submission(self, submitted_ns: int) -> None:
        """Writes the time that orders the job by submission, for the next daemon."""
        self.data.status.submitted_ns = submitted_ns

    @property
    def expectation(self) -> Expectation:
        """How long like jobs were scheduled before this job."""
        return read_expectation(self.data.expectation)

    def record_expectation(self, expectation: Expectation) -> None:
        """Writes how long like jobs were scheduled, for the next daemon."""
        record = self.data.expectation
        record.kind = expectation.kind
        count = lib.COSCHED_LENGTHS_MAX
        record.lengths_ns = [*expectation.lengths_ns, *[0] * count][:count]

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that limit the job, as its user named them; empty: none."""
        return read_limits(int(self.data.status.limited_by))

    def record_limits(self, names: Iterable[str]) -> None:
        """Writes the resources that limit the job, for the next daemon."""
        wanted = set(names)
        self.data.status.limited_by = sum(
            b for b, name in RESOURCES.items() if name in wanted
        )

    def status(self) -> tuple[int, bool]:
        """Returns (epoch, scheduled) as the tasks read it."""
        word = int(lib.cosched_status_read(ffi.addressof(self.data.status)))
        return word >> 1, bool(word & 1)

    @property
    def next_epoch(self) -> int:
        """An epoch that its tasks have not seen; it fits whatever the user wrote."""
        return self.status()[0] + 1 & 0xFFFFFFFF

    def free_slot(self, phase: Phase = Phase.TASK) -> int | None:
        """Returns the lowest slot without a live task, or None. A launcher gets the highest
        one."""
        slots = range(lib.COSCHED_TASKS_MAX)
        for slot in reversed(slots) if phase.starts_tasks else slots:
            if self.data.tasks[slot].identity.state == lib.COSCHED_TASK_FREE:
                return slot
        return None

    def occupy(
        self,
        slot: int,
        *,
        pid: int,
        start_ticks: int,
        rank: int,
        world: int,
        carrier: int,
        phase: Phase = Phase.TASK,
    ) -> None:
        """Writes a task's identity into its slot, and counters of zero."""
        task = ffi.addressof(self.data.tasks, slot)
        ffi.memmove(task, bytes(ffi.sizeof("struct cosched_task")), ffi.sizeof(task[0]))
        identity = task.identity
        identity.pid, identity.start_ticks = pid, start_ticks
        identity.rank, identity.world, identity.carrier = rank, world, carrier
        identity.phase = phase
        identity.state = lib.COSCHED_TASK_LIVE

    def vacate(self, slot: int) -> None:
        """Frees the slot of a task that left."""
        self.data.tasks[slot].identity.state = lib.COSCHED_TASK_FREE

    def live_slots(self) -> list[int]:
        """Returns the slots that are marked as held by a live task."""
        live = lib.COSCHED_TASK_LIVE
        tasks = self.data.tasks
        return [
            slot
            for slot in range(lib.COSCHED_TASKS_MAX)
            if tasks[slot].identity.state == live
        ]

    def phase(self, slot: int) -> Phase:
        """Returns the phase of a task; TASK if it cannot be read."""
        number = int(self.data.tasks[slot].identity.phase)
        return Phase(number) if number in list(Phase) else Phase.TASK

    def counters(self, slot: int) -> dict[str, int]:
        """Returns a task's counters by name."""
        counters = self.data.tasks[slot].counters
        return {name: int(getattr(counters, name)) for name in _COUNTERS}

    def work(self, slot: int) -> tuple[int, int]:
        """Returns how many iterations a task has marked, and how many messages it has sent;
        a collective call counts as a message."""
        counters = self.data.tasks[slot].counters
        return int(counters.marks), int(counters.sent) + int(counters.collectives)

    def waits_ns(self, slot: int) -> int:
        """Returns how long a task waited while its job was scheduled.

        Its waits include its sleeps while unscheduled. Such a sleep counts at once, and the
        wait around it at its end."""
        counters = self.data.tasks[slot].counters
        return max(0, int(counters.waited_ns) - int(counters.paused_ns))


class NodeRegion(Region):
    """The region that the scheduler daemon shares with the timer daemon."""

    kind = lib.COSCHED_KIND_NODE
    ctype = "struct cosched_node_region"

    @classmethod
    def create(cls, name: str) -> NodeRegion:
        """Makes a region, owned by the user of this process."""
        region: NodeRegion = cls._allocate(name, os.geteuid(), os.getegid())
        region.beat()
        region._publish()
        return region

    def give_orders(self, orders: OrderTimer) -> None:
        """Writes when the slice ends. The caller then wakes the timer daemon."""
        lib.cosched_orders_give(
            ffi.addressof(self.data.orders),
            orders.slice_ns,
            orders.deadline_ns,
            int(orders.align),
            int(orders.idle),
        )

    def orders(self) -> OrderTimer | None:
        """Returns the orders for the timer daemon. Returns None while they are being
        written, or if a scheduler daemon died while it wrote them."""
        copy = ffi.new("struct cosched_timer_orders *")
        lib.cosched_orders_read(ffi.addressof(self.data.orders), copy)
        if copy.generation % 2:
            return None
        return OrderTimer(
            slice_ns=copy.slice_ns,
            deadline_ns=copy.deadline_ns,
            align=bool(copy.align),
            idle=bool(copy.idle),
        )
