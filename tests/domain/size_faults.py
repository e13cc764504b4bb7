"""Does harm to a malleable job and its domain, at random.

Some faults end a job by definition: a rank or the steward of running ranks is killed, or a
node of it is lost. All others may at most refuse a change.
"""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import time
from pathlib import Path

from cosched.core.names import CONTROLLER
from cosched.linux import proc
from tests.domain.rig import WITHIN_S

#: How often each kind is drawn.
KINDS = {
    "new rank killed": 4,
    "rank killed": 2,
    "steward killed": 2,
    "agent killed": 5,
    "nursery killed": 2,
    "agent frozen": 8,
    "node cut off": 12,
    "controller killed": 12,
    "controller frozen": 6,
    "keeper killed": 14,
    "keeper stopped": 8,
    "no processes": 7,
    "program missing": 6,
    "overtaken": 10,
    "ranks stopped": 10,
}
#: Faults after which a job may end: those of any node, by its name, or of the job itself.
DEADLY = frozenset({"new rank killed", "rank killed", "steward killed"})
DEADLY_TO_NODE = frozenset(
    {"agent killed", "nursery killed", "agent frozen", "node cut off"}
)
#: The longest of those that last, in seconds. Nodes are lost after less.
LONGEST_S = 12.0
#: Limits of processes are set here, in a group for each node.
PIDS = Path("/sys/fs/cgroup/pids")


class SizeFaults:
    """Faults in a domain whose members are on a switch. program: that of its jobs."""

    def __init__(self, rig, switch, chance, program):
        self.made = collections.Counter()
        self.recent = []  #: those of the change under way
        self.deadly = set()  #: nodes, and "job": what may have ended the job
        self._rig = rig
        self._switch = switch
        self._chance = chance
        self._program = program
        self._undo = {}  # by what is harmed: when it ends, and how
        self._kinds = dict(KINDS)
        if not (PIDS / "cgroup.procs").exists():
            del self._kinds["no processes"]

    def begin(self):
        """Forgets the faults of earlier changes, but for those that are not over."""
        self.deadly &= self._undo.keys()
        self.recent.clear()

    # --- processes ------------------------------------------------------------------------

    def nursery(self, node):
        """Returns the process that forks the stewards of a node; None if it has ended."""
        member = self._rig.members.get(node)
        found = [] if member is None else sorted(proc.children(member.pid))
        return found[0] if found else None

    def keepers(self, node):
        """Returns the processes that keep pages on a node."""
        nursery, found = self.nursery(node), []
        for pid in () if nursery is None else proc.children(nursery):
            with contextlib.suppress(OSError):
                if "/page\n" in Path(f"/proc/{pid}/maps").read_text():
                    found.append(pid)
        return found

    # --- faults ---------------------------------------------------------------------------

    def make(self, hosts, before, overtake):
        """Makes one fault. hosts: the nodes of the job. before: its ranks before the change
        under way. overtake: orders another change."""
        while True:
            (kind,) = self._chance.choices([*self._kinds], [*self._kinds.values()])
            if self._make(kind, hosts, before, overtake):
                self.made[kind] += 1
                self.recent.append(f"{time.strftime('%H:%M:%S')} {kind}")
                return

    def _make(self, kind, hosts, before, overtake):
        """Makes a fault of a kind; returns whether there was something to harm."""
        nodes = self._rig.config.nodes
        match kind:
            case "new rank killed":
                return self._kill(self._program.ranks() - before, "job")
            case "rank killed":
                return self._kill(self._program.ranks() & before, "job")
            case "steward killed":
                return self._kill(
                    {*map(proc.parent, self._program.ranks())} - {None, 1}, "job"
                )
            case "agent killed":
                return self._restart(self._chance.choice([*nodes]))
            case "nursery killed":
                return self._end_nursery(self._chance.choice([*nodes]))
            case "agent frozen":
                return self._freeze(self._chance.choice([*nodes]))
            case "node cut off":
                return self._cut(self._chance.choice([*nodes]))
            case "controller killed":
                return self._restart(CONTROLLER)
            case "controller frozen":
                return self._freeze(CONTROLLER)
            case "keeper killed":
                return self._kill(self.keepers(self._chance.choice(hosts)))
            case "keeper stopped":
                return self._stop(self.keepers(self._chance.choice(hosts)))
            case "no processes":
                return self._limit_processes(self._chance.choice([*nodes]))
            case "program missing":
                return self._hide_program()
            case "overtaken":
                return overtake()
            case "ranks stopped":
                ranks = sorted(self._program.ranks())
                return self._stop(self._chance.sample(ranks, len(ranks) // 2 or len(ranks)))
        raise AssertionError(kind)

    def _kill(self, pids, harmed=None):
        if not pids:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._chance.choice(sorted(pids)), signal.SIGKILL)
        if harmed:
            self.deadly.add(harmed)
        return True

    def _restart(self, name):
        if name in self._undo:
            return False
        self._rig.kill(name)
        self._rig.start(name)
        self._note_node(name)
        return True

    def _end_nursery(self, name):
        """Kills a nursery: its agent ends by itself, and is started again."""
        nursery = self.nursery(name)
        if nursery is None or name in self._undo:
            return False
        os.kill(nursery, signal.SIGKILL)
        self._rig.members[name].wait(WITHIN_S)
        self._restart(name)
        return True

    def _freeze(self, name):
        if name in self._undo:
            return False
        process = self._rig.members[name]
        process.send_signal(signal.SIGSTOP)
        self._later(name, lambda: process.send_signal(signal.SIGCONT))
        self._note_node(name)
        return True

    def _cut(self, name):
        if name in self._undo:
            return False
        self._switch.cut(name)
        self._later(name, lambda: self._switch.mend(name))
        self._note_node(name)
        return True

    def _stop(self, pids):
        pids = [pid for pid in pids if pid not in self._undo]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        if pids:
            self._later(pids[0], lambda: _continue(pids))
        return bool(pids)

    def _hide_program(self):
        """Takes away the program of ranks that a change starts."""
        executable = self._program.executable
        # A program in C starts the file that it was made from, under its present name.
        away = executable.with_name(f"away-{executable.name}")
        if os.path.lexists(away):
            return False
        executable.rename(away)
        self._later("program", lambda: away.rename(executable))
        return True

    def _limit_processes(self, node):
        """Lets the nursery of a node, and all that it forks, make no process."""
        nursery = self.nursery(node)
        group = PIDS / f"size-storm-{os.getpid()}-{node}"
        if nursery is None or group.exists():
            return False
        group.mkdir()
        for pid in (nursery, *proc.children(nursery)):
            with contextlib.suppress(OSError):
                (group / "cgroup.procs").write_text(str(pid))
        (group / "pids.max").write_text("1")
        self._later(group, lambda: _remove(group))
        return True

    def _note_node(self, name):
        if name != CONTROLLER:
            self.deadly.add(name)

    # --- the ends of faults ---------------------------------------------------------------

    def _later(self, harmed, end):
        """Ends a fault after a random time; most are short."""
        lasts_s = LONGEST_S * self._chance.random() ** 3
        self._undo[harmed] = (time.monotonic() + lasts_s, end)

    def end_those_over(self, *, all_of_them=False):
        """Ends the faults whose time is over."""
        for harmed, (at_s, end) in list(self._undo.items()):
            if all_of_them or time.monotonic() >= at_s:
                del self._undo[harmed]
                end()

    def explain(self, job):
        """Returns whether a fault explains the end of a job, or that it runs again."""
        return bool(self.deadly if job["state"] == "failed" else self.deadly - {"job"})


def _continue(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _remove(group):
    """Removes a group of processes; they return to the one above."""
    (group / "pids.max").write_text("max")
    while pids := (group / "cgroup.procs").read_text().split():
        for pid in pids:
            with contextlib.suppress(OSError):
                (PIDS / "cgroup.procs").write_text(pid)
    group.rmdir()
