"""The checks of ``cosched doctor`` on made-up nodes, and its questions to other nodes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.core.errors import CoschedError
from cosched.launch.shim import for_all_users, plan_build
from cosched.observe.doctor import gather as doctor_gather
from cosched.observe.doctor import slurm_settings
from cosched.observe.doctor.asking import answer, ask_facts
from cosched.observe.doctor.checks.node import check_node
from cosched.observe.doctor.checks.slurm import check_slurm
from cosched.observe.doctor.facts import (
    Clock,
    Daemon,
    MpiFacts,
    NodeFacts,
    Partition,
    Seen,
    Site,
    SlurmFacts,
)
from cosched.observe.doctor.findings import Finding, Level, is_bad, problem, render
from cosched.observe.doctor.gather import gather_health, gather_node
from cosched.observe.doctor.judge import BETWEEN, SLURM, document, judge, judge_health
from cosched.observe.doctor.slurm_settings import parse_config, parse_partitions
from cosched.observe.reach.ways import Inside, Shell
from cosched.rundir.paths import NodePaths
from tests.places import ROOT
from tests.unit.launch import launch_fakes as fakes

CLUSTER = ROOT / "docs/cluster.md"
OPERATIONS = ROOT / "docs/operations.md"
SAMPLES = Path(__file__).parent / "slurm"
DAEMON = Daemon(
    version="1.0",
    class_scheduler="cgroup2",
    mode="proportional",
    priority="SCHED_FIFO 1",
    settings={"slice": "2s", "gmet": "100ms", "align": "on"},
    slice_s=2.0,
    gmet_s=0.1,
    timer_up=True,
    timer_restarts=0,
    timer_ticks=100,
    timer_late_s=0.0001,
    memory_guarded=True,
    memory_pressure_percent=0.0,
)
NODE = NodeFacts(
    node="n1",
    version="1.0",
    abi=7,
    python="3.11.7",
    kernel="6.1.0-9-amd64",
    cgroup=2,
    clock=Clock(synchronised=True, error_s=0.004),
    run_dir="/run/cosched",
    run_dir_free_bytes=1 << 30,
    shm_free_bytes=8 << 30,
    memory_bytes=64 << 30,
    swap_bytes=0,
    unit="enabled",
    daemon=DAEMON,
    mpis=(
        MpiFacts(
            title="MPICH",
            version="4.0",
            mpiexec="/m/mpiexec",
            mpicc="/m/mpicc",
            pmi2=True,
            pmix=False,
        ),
    ),
)
CONFIG = {
    "preemptmode": "OFF",
    "selecttype": "select/cons_tres",
    "selecttypeparameters": "CR_CORE_MEMORY",
    "proctracktype": "proctrack/cgroup",
    "taskplugin": "task/cgroup,task/affinity",
    "jobcontainertype": "job_container/none",
    "mpidefault": "pmi2",
    "defmempercpu": "512",
}
SHARED = Partition(name="shared", nodes="n[1-2]", shared=3, forced=True, most_s=72 * 3600)
ALONE = Partition(name="alone", nodes="n[1-2]", shared=1, forced=False, most_s=24 * 3600)
SITE = SlurmFacts(config=CONFIG, partitions=(SHARED, ALONE))


def of_level(findings, level):
    return [finding.subject for finding in findings if finding.level is level]


def bad(findings):
    found = list(findings)
    return {f.subject: f for f in found if f.level is not Level.GOOD}


def seen(name, facts=NODE, **more):
    return Seen(name, replace(facts, node=name), **more)


def test_halves_are_shown_with_their_reason():
    node = replace(NODE, halves=((0, 1, 2, 3), (4, 5, 6, 7)), halves_why="by L3 cache")
    (found,) = (each for each in check_node(node) if each.subject == "halves")
    assert found.level is Level.GOOD
    assert found.text == "CPUs 0-3 and 4-7 would be the halves, by L3 cache"


@pytest.mark.parametrize(
    ("site", "unit", "level"),
    [
        ({"unnamed": True}, "not-found", Level.NOTE),
        ({"unnamed": True}, "enabled", Level.PROBLEM),
        ({"unnamed": True, "slurm_silent": "no answer"}, "not-found", Level.PROBLEM),
        ({}, "not-found", Level.PROBLEM),
    ],
)
def test_a_users_own_machine_needs_no_daemons(site, unit, level):
    """Commands start private ones; a node of an operator lacks them."""
    node = replace(NODE, daemon=None, no_daemon="none is up", unit=unit)
    found = {f.subject: f for f in judge(Site((seen("n1", node),), **site))["n1"]}
    assert found["daemons"].level is level
    assert ("unit" in found) is (level is Level.PROBLEM)


def test_slow_moves_are_no_finding_where_nothing_can_be_done():
    slow = replace(NODE, slow_moves="/sys/fs/cgroup")
    assert not bad(check_node(replace(slow, kernel="5.10.0-30-amd64")))
    assert not bad(check_node(slow, personal=True))


@pytest.mark.parametrize(
    ("mounts", "point"),
    [
        ([("cgroup", "cpu", "rw,cpu"), ("cgroup2", "unified", "rw")], "unified"),
        ([("cgroup2", "", "rw,nsdelegate,memory_recursiveprot")], ""),
        ([("cgroup2", "", "rw,nsdelegate,favordynmods")], None),
        ([("cgroup", "cpu", "rw,cpu")], None),
    ],
)
def test_mount_options_say_whether_tasks_move_slowly(tmp_path, mounts, point):
    lines = [
        f"3{number} 24 0:2{number} / /sys/fs/cgroup/{name} rw - {kind} {kind} {options}"
        for number, (kind, name, options) in enumerate(mounts)
    ]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("\n".join(lines) + "\n")
    found = gather_health(NodePaths(tmp_path / "run", "n1"), tmp_path).slow_moves
    assert found == ("" if point is None else f"/sys/fs/cgroup/{point}")


def test_good_node_has_only_good_findings():
    findings = list(check_node(NODE))
    assert len(findings) >= 8
    assert not bad(findings)
    assert judge_health(Site((seen("n1"),))) == {}


@pytest.mark.parametrize(
    ("change", "subject", "level", "words"),
    [
        ({"kernel": "4.18.0-553.el8"}, "kernel", "problem", "needs Linux 5.3"),
        ({"cgroup": 0}, "cgroups", "warning", "mount cgroup2"),
        (
            {"slow_moves": "/sys/fs/cgroup"},
            "cgroups",
            "note",
            "favordynmods /sys/fs/cgroup",
        ),
        (
            {"daemon": None, "no_daemon": "none is up"},
            "daemons",
            "problem",
            "systemctl start",
        ),
        ({"version": "1.1"}, "version", "warning", "run 1.0, installed is 1.1"),
        ({"clock": Clock(synchronised=False)}, "clock", "warning", "chrony"),
        ({"clock": Clock(synchronised=True, error_s=0.5)}, "clock", "warning", "0.50 s"),
        ({"run_dir_problem": "too long"}, "run-dir", "problem", "--run-dir"),
        ({"run_dir_free_bytes": 5}, "run-dir", "warning", "5 B are free"),
        ({"history_problem": "/x cannot be written"}, "history", "warning", "writable"),
        ({"shm_free_bytes": 1 << 20}, "shm", "problem", "1.0 MiB are free"),
        ({"unit": "disabled"}, "unit", "note", "systemctl enable"),
        ({"unit": "not-found"}, "unit", "note", "is not installed"),
        (
            {"halves_why": "too few CPUs (1) for 2 parts; write parts = 1"},
            *("halves", "note", "a domain with parts = 2 cannot use it; too few CPUs"),
        ),
        ({"mpis": ()}, "mpi", "note", "--mpi"),
        ({"mpis": (replace(NODE.mpis[0], mpicc=None),)}, "mpi", "warning", "shim build"),
        (
            {"mpis": (replace(NODE.mpis[0], no_shim="mpi.h: No such file"),)},
            *("mpi", "warning", "mpi.h: No such file; install a C compiler"),
        ),
    ],
)
def test_each_fault_of_a_node_is_found(change, subject, level, words):
    (found,) = bad(check_node(replace(NODE, **change))).values()
    assert (found.subject, found.level.value) == (subject, level)
    assert words in f"{found.text}; {found.remedy}"


@pytest.mark.parametrize(
    ("change", "subject", "level", "words"),
    [
        ({"class_scheduler": "dutycycle"}, "daemons", "warning", "Delegate=yes"),
        ({"priority": "nice -20"}, "priority", "warning", "LimitRTPRIO"),
        ({"timer_up": False}, "timer", "problem", "dead; run: systemctl restart cosched"),
        ({"timer_restarts": 2}, "timer", "warning", "died 2 times"),
        ({"timer_restarts": 1}, "timer", "warning", "died 1 time;"),
        ({"timer_late_s": 0.06}, "timer", "warning", "60 ms late, GMET is 100 ms"),
        ({"memory_pressure_percent": 40.0}, "memory", "warning", "40%"),
        ({"memory_guarded": False}, "memory", "note", 'memory = "auto"'),
    ],
)
def test_each_fault_of_a_daemon_is_found(change, subject, level, words):
    node = replace(NODE, daemon=replace(DAEMON, **change))
    (found,) = bad(check_node(node)).values()
    assert (found.subject, found.level.value) == (subject, level)
    assert words in f"{found.text}; {found.remedy}"
    if level != "note":
        assert bad(judge_health(Site((seen("n1", node),)))["n1"])


def test_clock_matters_less_without_alignment():
    free = replace(DAEMON, settings={**DAEMON.settings, "align": "off"})
    node = replace(NODE, daemon=free, clock=Clock(synchronised=False))
    assert bad(check_node(node))["clock"].level is Level.NOTE


# -- between nodes -----------------------------------------------------------------------


UPGRADE = "install one version on all nodes, then on each: cosched up --restart"


def between(*nodes):
    return judge(Site(nodes)).get(BETWEEN, [])


def test_nodes_that_are_alike_are_good():
    findings = between(seen("n1"), seen("n2", offset_s=0.002, within_s=0.0005))
    assert len(findings) == 6
    assert not bad(findings)
    assert between(seen("n1")) == []


@pytest.mark.parametrize(
    ("change", "subject", "level", "words"),
    [
        ({"version": "0.9"}, "version", "problem", f"n3: 0.9; the others: 1.0; {UPGRADE}"),
        ({"abi": 6}, "abi", "problem", f"n3: 6; the others: 7; {UPGRADE}"),
        ({"kernel": "6.5.0"}, "kernel", "note", "n3: 6.5.0; the others: 6.1.0-9-amd64"),
        (
            {"daemon": replace(DAEMON, settings={"slice": "5s", "align": "on"})},
            *("settings", "warning", "n3: slice=5s align=on; the others: slice=2s"),
        ),
        (
            {"daemon": replace(DAEMON, class_scheduler="cgroup1")},
            *("classes", "warning", "n3: cgroup1 proportional; the others: cgroup2"),
        ),
    ],
)
def test_node_that_differs_is_named(change, subject, level, words):
    odd = replace(NODE, **change)
    (found,) = bad(between(seen("n1"), seen("n2"), seen("n3", odd))).values()
    assert (found.subject, found.level.value) == (subject, level)
    assert words in f"{found.text}; {found.remedy}"


def test_clocks_that_differ_are_named_if_the_measurement_is_exact_enough():
    apart = (seen("n1", offset_s=-0.1), seen("n2", offset_s=0.2, within_s=0.001))
    found = bad(between(*apart))["clocks"]
    assert (found.level, found.text) == (Level.WARNING, "n2 is 300 ms ahead of n1")
    vague = (seen("n1", offset_s=-0.1), seen("n2", offset_s=0.2, within_s=0.25))
    assert not bad(between(*vague))


def test_silent_nodes_are_a_problem_and_named():
    silent = [Seen(f"s{n}", silent="Connection refused") for n in range(6)]
    (found,) = bad(between(seen("n1"), *silent)).values()
    assert found.level is Level.PROBLEM
    assert found.text == "s0, s1, s2, s3 and 2 more did not answer: Connection refused"


@given(st.permutations(["1.0", "1.0", "1.0", "2.0", "3.0", "4.0"]))
def test_usual_value_is_the_most_frequent_one(versions):
    nodes = [seen(f"n{i}", replace(NODE, version=v)) for i, v in enumerate(versions)]
    found = bad(between(*nodes))["version"]
    assert found.text.endswith("and 1 more; the others: 1.0")


# -- Slurm -------------------------------------------------------------------------------


def test_good_slurm_has_only_good_findings():
    assert not bad(check_slurm(SITE))
    assert bad(judge(Site((seen("n1"),), SITE)).get(SLURM)) == {}


def test_default_of_memory_may_be_that_of_the_partition():
    config = {key: value for key, value in CONFIG.items() if key != "defmempercpu"}
    for shown, found in (
        ("DefMemPerCPU=900", set()),
        ("DefMemPerNode=UNLIMITED", {"memory"}),
    ):
        line = f"PartitionName=a Nodes=n1 OverSubscribe=FORCE:2 {shown}\n"
        (partition,) = parse_partitions(line)
        slurm_facts = SlurmFacts(config=config, partitions=(partition,))
        assert set(bad(check_slurm(slurm_facts))) == found


@pytest.mark.parametrize(
    ("name", "value", "subject", "level", "words"),
    [
        (
            "preemptmode",
            "GANG,SUSPEND",
            "gang",
            "problem",
            "PreemptMode=OFF for the cluster",
        ),
        ("selecttype", "select/linear", "select", "warning", "whole nodes"),
        ("selecttypeparameters", "CR_CORE", "select", "warning", "CR_Core_Memory"),
        ("proctracktype", "proctrack/linuxproc", "tracking", "warning", "proctrack/cgroup"),
        ("taskplugin", "task/none", "tasks", "note", "ConstrainCores=yes"),
        ("defmempercpu", "UNLIMITED", "memory", "warning", "no other job starts beside"),
        ("mpidefault", "none", "mpi", "warning", "MpiDefault=pmi2 for MPICH"),
        ("jobcontainertype", "job_container/tmpfs", "container", "note", "/run/cosched"),
    ],
)
def test_each_disturbing_setting_is_found(name, value, subject, level, words):
    site = replace(SITE, config={**CONFIG, name: value})
    (found,) = bad(check_slurm(site)).values()
    assert (found.subject, found.level.value) == (subject, level)
    assert words in f"{found.text}; {found.remedy}"


@pytest.mark.parametrize(
    ("default", "mpi", "pmi2", "pmix", "text"),
    [
        ("pmi2", ("MPICH", "5.0.2"), True, False, ""),
        ("pmix", ("Open MPI", "5.0.11"), False, True, ""),
        ("pmix_v4", ("Open MPI", "4.1.4"), False, True, ""),
        ("pmi2", ("Open MPI", "4.1.4"), True, True, ""),
        ("pmi2", ("Open MPI", "4.1.4"), False, True, "does not serve Open MPI 4.1.4"),
        ("pmi2", ("Open MPI", "4.1.4"), None, True, "may not serve Open MPI 4.1.4"),
        ("pmix", ("MPICH", "4.0.2"), True, False, "does not serve MPICH 4.0.2"),
        ("pmix", ("MPICH", "4.0.2"), True, None, "may not serve MPICH 4.0.2"),
        ("openmpi", ("MPICH", "5.0.2"), True, True, "does not serve MPICH 5.0.2"),
    ],
)
def test_default_of_slurm_that_serves_no_mpi_of_the_nodes_is_found(
    default, mpi, pmi2, pmix, text
):
    site = replace(SITE, config={**CONFIG, "mpidefault": default})
    title, version = mpi
    facts = MpiFacts(
        title=title, version=version, mpiexec="/m", mpicc=None, pmi2=pmi2, pmix=pmix
    )
    found = list(bad(check_slurm(site, [facts])).values())
    level = "note" if text.startswith("may") else "warning"
    assert [one.level.value for one in found] == ([level] if text else [])
    assert all(one.text.startswith(f"MpiDefault={default} {text}") for one in found)
    better = "pmix" if title == "Open MPI" else "pmi2"
    assert all(f"--mpi={better}" in one.remedy for one in found)


@pytest.mark.parametrize(
    ("family", "library", "needed", "plugin", "spoken"),
    [
        ("openmpi", "libmpi.so.40", "libopen-rte.so.40", "ext3x", (False, True)),
        ("openmpi", "libmpi.so.40", "libopen-rte.so.40", "s2", (True, True)),
        ("openmpi", "libmpi.so.40", "libopen-rte.so.40", "", (None, True)),
        ("openmpi", "libmpi.so.40", "libopen-pal.so.80", "", (False, True)),
        ("mpich", "libmpich.so.12", "libc.so.6", "", (True, False)),
    ],
)
def test_doctor_looks_into_the_library_for_its_pmi(
    tmp_path, family, library, needed, plugin, spoken
):
    version = fakes.HYDRA if family == "mpich" else fakes.OPEN_MPI_4
    script = f"#!/bin/sh\necho '{version}'\n"
    fakes.executable(tmp_path / f"mpiexec.{family}", script)
    link = library.partition(".")[0].removeprefix("lib")
    fakes.executable(tmp_path / "mpicc", f"#!/bin/sh\necho cc -L{tmp_path} -l{link}\n")
    fakes.executable(tmp_path / library, fakes.elf([needed]))
    if plugin:
        (tmp_path / "openmpi").mkdir()
        (tmp_path / f"openmpi/mca_pmix_{plugin}.so").touch()
    facts = gather_node(NodePaths(tmp_path, "here"), tmp_path, {"PATH": str(tmp_path)})
    (mpi,) = facts.mpis
    assert (mpi.pmi2, mpi.pmix) == spoken


@pytest.mark.parametrize(
    ("partitions", "level", "words"),
    [
        ((ALONE,), "warning", "nothing to coschedule"),
        ((replace(SHARED, most_s=24 * 3600), ALONE), "warning", "MaxTime of 72 h or more"),
        ((replace(SHARED, most_s=3600),), "note", "within 1 h"),
        ((replace(SHARED, forced=False), ALONE), "note", "OverSubscribe=FORCE:3"),
        ((replace(SHARED, most_s=None), ALONE), None, ""),
    ],
)
def test_limits_of_partitions_allow_for_shared_cpus(partitions, level, words):
    found = list(bad(check_slurm(replace(SITE, partitions=partitions))).values())
    assert [one.level.value for one in found] == ([level] if level else [])
    assert all(words in f"{one.text}; {one.remedy}" for one in found)


@pytest.mark.parametrize(
    ("sample", "subjects"),
    [("gang", {"gang", "select", "tracking", "tasks"}), ("shared", {"tracking", "tasks"})],
)
def test_configuration_that_slurm_printed_is_read(sample, subjects):
    """What Slurm 22.05 prints in a lab with either of the two configurations."""
    config = parse_config((SAMPLES / f"{sample}-config.txt").read_text())
    partitions = parse_partitions((SAMPLES / f"{sample}-partition.txt").read_text())
    (partition,) = partitions
    assert (partition.name, partition.forced, partition.most_s) == (sample, True, None)
    found = bad(check_slurm(SlurmFacts(config=config, partitions=partitions)))
    assert set(found) == subjects


def test_partition_limits_are_read():
    line = "PartitionName=p AllowGroups=ALL MaxTime={} Nodes=n1 OverSubscribe={}"
    rows = [
        ("1-12:00:00", "YES:2"),
        ("UNLIMITED", "NO"),
        ("30:00", "FORCE"),
        ("x", "EXCLUSIVE"),
    ]
    found = parse_partitions("\n".join(line.format(*row) for row in rows))
    assert [(one.most_s, one.shared, one.forced) for one in found] == [
        *((36 * 3600.0, 2, False), (None, 1, False), (1800.0, 4, True), (None, 1, False)),
    ]


def test_silent_slurm_is_a_note(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho 'scontrol: error: no slurmctld' >&2; exit 1\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CoschedError, match=r"^scontrol: error: no slurmctld$"):
        slurm_settings.read_slurm(pytest.fail)
    groups = judge(Site((seen("n1"),), None, "scontrol: error: no slurmctld"))
    assert of_level(groups[SLURM], Level.NOTE) == [SLURM]
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert slurm_settings.read_slurm(pytest.fail) is None


def test_daemons_of_a_lab_are_started_inside_the_node():
    facts = replace(NODE, daemon=None, no_daemon="none is up", of_lab=True)
    found = bad(check_node(facts))["daemons"]
    up = f"cosched up --run-dir {facts.run_dir}"
    assert found.remedy == f"start them: cosched lab exec {facts.node} {up}"


def test_slurm_that_takes_long_is_announced(tmp_path, monkeypatch):
    """scontrol answers after the note alone."""
    noted = tmp_path / "noted"
    os.mkfifo(noted)
    fakes.executable(
        tmp_path / "scontrol",
        f"#!/bin/sh\n[ $2 = partition ] || read line < {noted}\necho $line\n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm_settings, "SLOW_S", 0.01)
    both_ends = os.open(noted, os.O_RDWR)
    try:
        facts = slurm_settings.read_slurm(
            lambda: os.write(both_ends, b"MpiDefault = pmi2\n")
        )
    finally:
        os.close(both_ends)
    assert facts == SlurmFacts(config={"mpidefault": "pmi2"}, partitions=())


def test_slurm_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    fakes.executable(tmp_path / "scontrol", "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm_settings, "WITHIN_S", 0.1)
    with pytest.raises(CoschedError, match=r"^scontrol did not answer in 0.1 s$"):
        slurm_settings.read_slurm(pytest.fail)


# -- output ------------------------------------------------------------------------------


@given(
    st.lists(
        st.builds(
            Finding,
            st.sampled_from(Level),
            st.sampled_from(["kernel", "clocks"]),
            st.text("abc /-=", min_size=1, max_size=300).filter(str.strip),
            st.text("abc /-=", max_size=300),
        )
    )
)
def test_text_fits_80_columns(findings):
    for everything in (True, False):
        text = render({"n1": findings}, all_of_them=everything)
        words = [word for line in text.splitlines() for word in line.split()]
        assert all(
            len(line) <= max(80, 20 + len(max(words, key=len)))
            for line in text.splitlines()
        )
        assert text.count("\n") >= sum(f.level is not Level.GOOD for f in findings)


def test_exit_status_depends_on_the_worst_finding():
    levels = {level: [Finding(level, "x", "y")] for level in Level}
    assert [is_bad(levels[level], strict=False) for level in Level] == [
        *(False, False, False, True),
    ]
    assert [is_bad(levels[level], strict=True) for level in Level] == [
        *(False, False, True, True),
    ]


def test_document_has_facts_and_findings():
    site = Site((seen("n1"), Seen("n2", silent="gone")), SITE)
    found = document(site, judge(site))
    json.dumps(found)
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    assert found["nodes"][1]["facts"] is None
    (silent,) = [one for one in found["findings"] if one["level"] == "problem"]
    assert (silent["about"], silent["subject"]) == (BETWEEN, "nodes")


def test_shim_of_the_installation_needs_no_compiler(tmp_path, monkeypatch):
    mpicc = "case $1 in -show) echo cc -L/none -lmpi ;; *) exit 1 ;; esac"
    for name, text in (("mpicc", mpicc), ("mpiexec", "echo 'mpirun (Open MPI) 5.0.1'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "opt"))
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    here = NodePaths(tmp_path, "here")
    (mpi,) = gather_node(here, tmp_path, environ).mpis
    assert mpi.no_shim
    library = for_all_users(plan_build(tmp_path / "mpicc", environ)).library
    library.parent.mkdir(parents=True)
    library.touch()
    (mpi,) = gather_node(here, tmp_path, environ).mpis
    assert (mpi.no_shim, mpi.site_shim) == ("", str(library))
    (found,) = [
        each for each in check_node(replace(NODE, mpis=(mpi,))) if each.subject == "mpi"
    ]
    assert found.level.value == "good"
    assert found.text.endswith(f"its shim is {library}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 0", ""),
        (
            "echo 'x.h:1: fatal error: mpi.h: No such file' >&2; exit 1",
            "mpi.h: No such file",
        ),
        ("exit 3", "failed with status 3"),
    ],
)
def test_compiler_without_headers_is_found(tmp_path, body, words):
    for name, text in (("mpicc", body), ("mpiexec", "echo 'mpirun (Open MPI) 5.0.1'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    facts = gather_node(NodePaths(tmp_path, "here"), tmp_path, {"PATH": str(tmp_path)})
    (mpi,) = facts.mpis
    assert (mpi.title, mpi.version) == ("Open MPI", "5.0.1")
    assert mpi.no_shim.endswith(words)
    assert bool(mpi.no_shim) == bool(words)


# -- facts of this machine, and of other nodes -------------------------------------------


def test_facts_of_this_machine_survive_the_way(tmp_path):
    paths = NodePaths(tmp_path, "here")
    facts = gather_node(paths, Path(sys.executable).parent, {"PATH": "/usr/bin:/bin"})
    assert (facts.node, facts.daemon) == ("here", None)
    assert facts.no_daemon == f"none is up in {tmp_path}"
    assert facts.memory_bytes > 0
    assert facts.run_dir_free_bytes > 0
    assert msgspec.json.decode(msgspec.json.encode(facts), type=NodeFacts) == facts
    assert gather_health(paths).mpis is None


def test_daemons_of_other_nodes_in_the_directory_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor_gather, "gather", lambda _: [{"node": "n1"}, {"node": "n2"}])
    facts = gather_health(NodePaths(tmp_path, "here"))
    assert facts.no_daemon == f"none of here is up in {tmp_path}, but of n1, n2"


def test_findings_for_programs_are_one_line_each():
    found = [problem("daemons", "none is up " * 20, "start them " * 20)]
    text = render({"n1": found}, all_of_them=False, width=sys.maxsize)
    assert len(text.splitlines()) == 2


def test_node_answers_with_facts_and_clock():
    answers = io.StringIO()
    answer(NODE, io.StringIO("?\n?\n"), answers)
    first, *clocks = answers.getvalue().splitlines()
    assert msgspec.json.decode(first, type=NodeFacts) == NODE
    assert len(clocks) == 2
    assert int(clocks[0]) <= int(clocks[1])


def shell(script):
    return ("sh", "-c", script, "sh")


FACTS = msgspec.json.encode(NODE).decode()


def test_nodes_are_asked_at_once_and_keep_their_order():
    clock = f"echo '{FACTS}'; while read x; do date +%s%N; done"
    ahead = f"echo '{FACTS}'; while read x; do echo $(($(date +%s%N) + 5000000000)); done"
    places = {
        "good": shell(clock),
        "ahead": shell(ahead),
        "refused": shell("echo 'ssh: no route' >&2; echo 'lost' >&2; exit 255"),
        "old": shell("echo '{}'; cat"),
        "mute": shell("exec sleep 611.2"),
        "cut": shell(f"echo '{FACTS}'"),
    }
    way = Inside(places, Shell(("/nonexistent/ssh",), (*places, "absent"), frozenset()))
    counted = []
    found = ask_facts(way, ["doctor"], lambda *counts: counted.append(counts), within_s=3.0)
    assert [one.name for one in found] == [*places, "absent"]
    good, ahead_one, *others = found
    assert good.facts == ahead_one.facts == NODE
    assert abs(good.offset_s) <= good.within_s + 0.1
    assert ahead_one.offset_s == pytest.approx(5.0, abs=0.5)
    assert [one.silent for one in others] == [
        "lost",
        "its cosched prints other facts; compare versions",
        "no answer in time",
        "ended with status 0",
        "cannot run '/nonexistent/ssh': No such file or directory",
    ]
    assert counted == [(done, len(found)) for done in range(1, len(found) + 1)]


def test_command_prints_findings_and_fails_on_a_problem(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COSCHED_NODE", "here")
    words = ["doctor", "--run-dir", str(tmp_path)]
    run_cli(cosched, words)
    assert "daemons  none is up in" in capsys.readouterr().out
    assert run_cli(cosched, [*words, "--health"]) == 1
    assert capsys.readouterr().out.startswith("here\n  problem  daemons")
    assert run_cli(cosched, [*words, "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["nodes"][0]["facts"]["node"] == "here"
    assert "daemons" in {one["subject"] for one in shown["findings"]}


def test_command_that_does_not_end_is_refused(capsys):
    assert run_cli(cosched, ["doctor", "--hosts", "n1", "--shell", "ssh '"]) == 1
    assert capsys.readouterr().err == "cosched: --shell: 'ssh '': No closing quotation\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hosts", "n1,n1"), "names n1 twice"),
        (("--hosts", "n[1-"), "is not a list of hosts"),
        (("--health", "--hosts", "n1"), "without --hosts"),
        (("--health", "--shim"), "cannot be combined"),
    ],
)
def test_wrong_usage_is_refused(words, message, capsys):
    assert run_cli(cosched, ["doctor", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


# -- the documents -----------------------------------------------------------------------


def test_health_check_of_the_page_drains_the_node(tmp_path, monkeypatch):
    (script,) = re.findall(r"^```sh\n(#!.*?)^```", OPERATIONS.read_text(), re.M | re.S)
    assert script.count("/opt/cosched/bin") == 1
    check = tmp_path / "health.sh"
    check.write_text(script.replace("/opt/cosched/bin", str(Path(sys.executable).parent)))
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    for path in (check, scontrol):
        path.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "COSCHED_RUN_DIR": str(tmp_path / "r")}
    done = subprocess.run(
        [check], env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    verb, node, state, reason = done.stdout.splitlines()
    assert (verb, node, state) == (
        "update",
        f"NodeName={os.uname().nodename}",
        "State=DRAIN",
    )
    assert reason.startswith("Reason=cosched: problem daemons none is up in")


def test_partitions_of_the_docs_satisfy_the_doctor():
    """The lines for slurm.conf in cluster.md, with what scontrol calls them."""
    blocks = re.findall(r"^```ini\n(.*?)^```", CLUSTER.read_text(), re.M | re.S)
    assert len(blocks) == 2
    config, limits = blocks
    partitions = parse_partitions(limits)
    assert [one.shared for one in partitions] == [1, 3]
    assert not bad(check_slurm(replace(SITE, partitions=partitions)))
    shown = parse_config("\n".join(line for line in config.splitlines() if " " not in line))
    (sharing,) = parse_partitions(config)
    found = bad(check_slurm(SlurmFacts(config=CONFIG | shown, partitions=(sharing, ALONE))))
    assert set(found) <= {"tracking"}
