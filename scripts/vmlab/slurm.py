"""Starts Slurm on a lab of virtual machines, as docs/cluster.md describes it for sites.

Debian's units start its daemons: slurmctld, slurmdbd and its database in the first node, a
slurmd in each. Control groups hold the jobs (cgroup v2), with the limits of cpuset and
memory, and sacct reads the accounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from cosched.core.errors import CoschedError
from cosched.lab.slurm_conf import SHARED
from scripts.vmlab.lab import VmLab
from scripts.vmlab.remote import Remote

READY_WITHIN_S = 300.0
POLL_S = 0.5
#: Memory of a node that Slurm leaves to the system, in MiB.
SYSTEM_MIB = 300

CGROUP_CONF = "ConstrainCores=yes\nConstrainRAMSpace=yes\n"
SLURMDBD_CONF = """\
DbdHost=n1
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
#: For slurmctld's unit: at its first start it ends unless slurmdbd answers.
AFTER_SLURMDBD = """\
[Unit]
Wants=slurmdbd.service
After=slurmdbd.service

[Service]
ExecStartPre=/bin/sh -c 'until sacctmgr --noheader list cluster; do sleep 1; done'
TimeoutStartSec=5min
"""


def slurm_conf(nodes: Sequence[str], cpus: int, memory_mib: int) -> str:
    """Returns the configuration of the lab's Slurm."""
    lines = [
        "ClusterName=lab",
        f"SlurmctldHost={nodes[0]}",
        "SlurmUser=slurm",
        "StateSaveLocation=/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir=/var/lib/slurm/slurmd",
        "SlurmctldLogFile=/var/log/slurm/slurmctld.log",
        "SlurmdLogFile=/var/log/slurm/slurmd.log",
        "SlurmctldPidFile=/run/slurmctld.pid",
        "SlurmdPidFile=/run/slurmd.pid",
        "MailProg=/bin/true",
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/affinity,task/cgroup",
        "JobAcctGatherType=jobacct_gather/cgroup",
        "JobAcctGatherFrequency=task=5",
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={nodes[0]}",
        "MpiDefault=pmi2",
        "ReturnToService=2",
        "PreemptType=preempt/none",
        *SHARED.lines,
        f"NodeName={','.join(nodes)} CPUs={cpus} RealMemory={memory_mib - SYSTEM_MIB}",
        f"PartitionName={SHARED.partition} Nodes=ALL Default=YES "
        f"OverSubscribe=FORCE:{SHARED.jobs} State=UP",
    ]
    return "\n".join(lines) + "\n"


def up(lab: VmLab) -> None:
    """Starts Slurm, and returns once every node takes jobs."""
    first, *_ = lab.remotes
    names = [node.name for node in lab.nodes]
    conf = slurm_conf(names, lab.shape.cpus, lab.shape.memory_mib)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda node: _configure(node, conf), lab.remotes))
    _start_controller(first)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(_start_node, lab.remotes))
    _await_nodes(first, len(names))


def _configure(node: Remote, conf: str) -> None:
    for name, text in (("slurm.conf", conf), ("cgroup.conf", CGROUP_CONF)):
        node.check(["tee", f"/etc/slurm/{name}"], input=text)
    node.check(["systemctl", "start", "munge"])


def _start_controller(node: Remote) -> None:
    path = "/etc/slurm/slurmdbd.conf"
    node.check(["install", "-m", "600", "-o", "slurm", "/dev/null", path])
    node.check(["tee", path], input=SLURMDBD_CONF)
    folder = "/etc/systemd/system/slurmctld.service.d"
    node.check(["mkdir", "-p", folder])
    node.check(["tee", f"{folder}/slurmdbd.conf"], input=AFTER_SLURMDBD)
    node.check(["systemctl", "daemon-reload"])
    node.check(["systemctl", "start", "mariadb", "slurmdbd", "slurmctld"])


def _start_node(node: Remote) -> None:
    node.check(["systemctl", "start", "slurmd"])


def _await_nodes(node: Remote, count: int) -> None:
    """Waits until every node takes jobs."""
    words = ["sinfo", "--noheader", "--Node", "--format=%T"]
    _until(node, "slurmctld", lambda: node.run(words).stdout.split() == ["idle"] * count)


def _until(node: Remote, service: str, ready: Callable[[], bool]) -> None:
    """Waits until ``ready``, since Slurm does not report that moment.

    CoschedError if the service ends before, or takes too long.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    while not ready():
        active = node.run(["systemctl", "is-active", service]).stdout.strip()
        if active != "active" or time.monotonic() > deadline:
            log = node.run(["tail", "-n", "1", f"/var/log/slurm/{service}.log"]).stdout
            raise CoschedError(f"{node.name}: {service} is {active}: {log.strip()}")
        time.sleep(POLL_S)
