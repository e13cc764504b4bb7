"""Makes and ends the virtual nodes of a lab.

Invariants
* All kernel objects of the lab end with the keepers and the processes in its nodes.
* A mark on a node's sysfs identifies the processes of the lab. So ``down`` finds all of
  them even if the state file or the keepers are gone.
* If ``up`` or ``down`` dies half-way, the next ``up`` or ``down`` removes the rest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError
from cosched.lab import agent, fabric
from cosched.lab.files import locked, remove_files, remove_if_empty
from cosched.lab.keeper import NodeShape, PendingKeeper, start_keeper
from cosched.lab.lab import Lab, require_root
from cosched.lab.plan import (
    ANY_MARK,
    NETWORK,
    PlannedNode,
    hosts_file,
    mark_prefix,
    plan_nodes,
)
from cosched.lab.state import (
    LabState,
    NodeRecord,
    read_state,
    state_path,
    write_state,
)
from cosched.linux import proc
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.linux.files.whole import write_whole
from cosched.linux.namespaces import (
    bears_mark,
    end_processes,
    network_inode,
    processes_inside,
)
from cosched.rundir.paths import NodePaths
from cosched.start.own_command import COSCHED, own_command

#: How long the daemons of a node may take to start or to end.
DAEMONS_WITHIN_S = 30.0
#: Nodes whose daemons start or end at a time, so that each has its part of the CPUs.
AT_ONCE = 8
TERM_GRACE_S = 3.0

_FABRIC = "fabric"
_HOSTS = Path("/etc/hosts")


def up(
    run_dir: Path,
    nodes: int,
    cores_per_node: int,
    daemons: bool = True,
    rate: int | None = None,
) -> Lab:
    """Makes a lab whose nodes have CPUs of their own; removes everything if that fails."""
    planned = plan_nodes(nodes, cores_per_node, usable_siblings())
    return make_lab(run_dir, planned, daemons, rate)


def make_lab(
    run_dir: Path,
    planned: tuple[PlannedNode, ...],
    daemons: bool = True,
    rate: int | None = None,
) -> Lab:
    """Makes the planned nodes; removes everything if that fails.

    rate: the rate of each link, in bits a second; None: no limit.
    """
    require_root()
    tools = agent.Tools.find(shutil.which)
    machine = os.uname().nodename
    if machine in {node.name for node in planned}:
        raise CoschedError(
            f"this machine is itself called {machine}, like a node: ask for fewer nodes"
        )
    run_dir = run_dir.resolve()
    _require_outside(run_dir)
    with locked(run_dir, create=True):
        check_not_up(run_dir)
        _sweep(run_dir)
        try:
            state = _make(run_dir, planned, tools, rate)
            lab = Lab.of_state(run_dir, state)
            if daemons:
                _in_nodes(lab, [node.name for node in planned], ["up"])
            write_state(run_dir, replace(state, complete=True))
        except BaseException:
            _sweep(run_dir)
            remove_if_empty(run_dir)
            raise
    return lab


def down(run_dir: Path) -> bool:
    """Ends the lab and all its processes. False if there was none."""
    require_root()
    run_dir = run_dir.resolve()
    _require_outside(run_dir)
    # The directory may have been removed while the lab was up.
    directory_existed = run_dir.is_dir()
    with locked(run_dir, create=True):
        lab_existed = _sweep(run_dir)
        if lab_existed or not directory_existed:
            remove_if_empty(run_dir)
    return lab_existed


def restart_daemons(run_dir: Path, *options: str) -> None:
    """``cosched down``, then ``cosched up OPTIONS`` on every node of the lab that is up.

    Running jobs go on; the kernel alone schedules them in between.
    """
    with locked(run_dir, create=False):
        lab = Lab.load(run_dir)
        if lab is None:
            raise CoschedError(f"no lab is up in {run_dir}: run 'cosched lab up' first")
        names = [node.name for node in lab.nodes]
        _in_nodes(lab, names, ["down"])
        _in_nodes(lab, names, ["up", *options])


def is_beside_another(lab: Lab) -> bool:
    """Returns whether another lab of this machine has CPUs of this one."""
    own = mark_prefix(lab.run_dir)
    cpus = {cpu for node in lab.nodes for cpu in node.cpus}
    return any(
        not cpus.isdisjoint(proc.cpu_affinity(process.pid))
        for process in processes_inside(ANY_MARK, ())
        if not bears_mark(process.pid, own)
    )


def _require_outside(run_dir: Path) -> None:
    """Refuses to run inside the lab, since it would end itself."""
    if bears_mark(os.getpid(), mark_prefix(run_dir)):
        raise CoschedError(
            f"this runs inside {os.uname().nodename}: leave the lab, then try again"
        )


# --- making -------------------------------------------------------------------------


def check_not_up(run_dir: Path) -> None:
    """Raises CoschedError if a lab is up. Removes the files of one that is dead."""
    try:
        lab = Lab.load(run_dir)
    except CoschedError:
        return
    if lab is not None:
        raise CoschedError(
            f"a lab of {len(lab.nodes)} nodes is up already: run 'cosched lab down' first"
        )


def _make(
    run_dir: Path,
    planned: tuple[PlannedNode, ...],
    tools: agent.Tools,
    rate: int | None,
) -> LabState:
    """Makes keepers, state file, agent and network, in this order."""
    directory = state_path(run_dir).parent
    directory.mkdir(exist_ok=True)
    place = agent.choose_agent_place(
        agent.agent_places(run_dir, mark_prefix(run_dir)),
        lambda path: os.statvfs(path).f_flag,
    )
    state = replace(_start_keepers(run_dir, planned, str(place)), rate=rate)
    agent.write_agent(place, agent.agent_script(tools, state.nodes))
    fabric.join_nodes(state.fabric.pid, state.nodes, NETWORK)
    if rate is not None:
        fabric.limit_links(state.nodes, fabric.bucket_of(rate))
    return state


def _start_keepers(run_dir: Path, planned: tuple[PlannedNode, ...], place: str) -> LabState:
    prefix = mark_prefix(run_dir)
    hosts: Path | None = None
    if _HOSTS.is_file():
        hosts = state_path(run_dir).with_name("hosts")
        write_whole(hosts, hosts_file(_HOSTS.read_bytes(), planned))
    with contextlib.ExitStack() as unconfirmed:

        def start(shape: NodeShape) -> PendingKeeper:
            pending = start_keeper(shape)
            unconfirmed.callback(pending.close)
            return pending

        keepers = [
            start(NodeShape(node.name, prefix + node.name, node.cpus, hosts))
            for node in planned
        ]
        hub = start(NodeShape(_FABRIC, prefix + _FABRIC, (), None))
        state = LabState(
            complete=False,
            network=str(NETWORK),
            agent=place,
            fabric=hub.process,
            nodes=tuple(
                NodeRecord(node.name, node.address, node.cpus, pending.process)
                for node, pending in zip(planned, keepers, strict=True)
            ),
        )
        write_state(run_dir, state)
        for pending in (*keepers, hub):
            pending.confirm()
    return state


# --- ending -------------------------------------------------------------------------


def _sweep(run_dir: Path) -> bool:
    """Ends a lab, complete or not. False if there was nothing."""
    try:
        state = read_state(run_dir)
    except CoschedError:
        state = None
    if state:
        _stop_daemons(run_dir, state)
    prefix = mark_prefix(run_dir)
    keepers = {process for _, process in state.keepers} if state else set()
    networks = {network_inode(keeper.pid) for keeper in keepers if keeper.alive()}
    # For safety: never end the processes of the machine itself.
    networks -= {None, network_inode(os.getpid()), network_inode(1)}
    inside = [inode for inode in networks if inode is not None]
    found = bool(processes_inside(prefix, inside))
    # The keepers end last, so that the others still have a network.
    stubborn = end_processes(
        lambda: [p for p in processes_inside(prefix, inside) if p not in keepers],
        TERM_GRACE_S,
    ) or end_processes(lambda: processes_inside(prefix, ()), TERM_GRACE_S)
    if stubborn:
        pids = ", ".join(str(process.pid) for process in stubborn)
        raise CoschedError(
            f"processes {pids} of the lab do not end: try 'cosched lab down' again"
        )
    return remove_files(run_dir) or found


def _stop_daemons(run_dir: Path, state: LabState) -> None:
    """Runs ``cosched down`` on every node; later steps end the rest."""
    nodes = [
        node.name
        for node in state.nodes
        if node.keeper.alive() and NodePaths(run_dir, node.name).directory.exists()
    ]
    with contextlib.suppress(CoschedError):
        _in_nodes(Lab.of_state(run_dir, state), nodes, ["down"])


def _in_nodes(lab: Lab, names: Iterable[str], words: Sequence[str]) -> None:
    """Runs ``cosched up`` or ``cosched down`` inside all these nodes, some at a time."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        failures = list(pool.map(lambda name: _in_node(lab, name, words), names))
    finally:
        pool.shutdown(cancel_futures=True)
    if any(failures):
        raise CoschedError("; ".join(filter(None, failures)))


def _in_node(lab: Lab, name: str, words: Sequence[str]) -> str:
    """Runs a command of cosched inside a node; returns why it failed, or nothing."""
    argv = [
        *lab.enter_argv(name, directory="/"),
        *(*own_command(COSCHED), *words, "--run-dir", str(lab.run_dir)),
    ]
    # A file, not a pipe: daemons may keep it open, and a pipe would block us.
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=DAEMONS_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{name}: 'cosched {words[0]}' took over {DAEMONS_WITHIN_S:g} s"
        output.seek(0)
        reason = _last_line(output.read()) or f"status {done.returncode}"
    return f"{name}: 'cosched {words[0]}' failed: {reason}" if done.returncode else ""


def _last_line(output: bytes) -> str:
    lines = shown_text(output).strip().splitlines()
    return lines[-1].strip() if lines else ""
