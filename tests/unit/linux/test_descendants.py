"""Chains of processes that fork and end at once are killed: by sweeps, and by a group."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.linux.cgroups.killgroup import GroupLocation, KillGroup, end_group, make_name
from tests.tools.chains import build_chains

CHAINS = 12
LIVES_S = 60
#: A process of its own: it kills all of its children.
PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from cosched.linux.cgroups.killgroup import GroupLocation, KillGroup, end_group
from cosched.linux.prctl import adopt_orphans
from cosched.linux.proc import children
from cosched.linux.processes.descendants import kill_descendants

adopt_orphans()
place = GroupLocation(Path(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 4 else None
group = KillGroup(place, sys.argv[3]) if place else None
chains = subprocess.Popen(["sh", "-c", 'read go; exec "$@"', "sh", *sys.argv[-3:]],
                          stdin=subprocess.PIPE)
if group:
    group.add(chains.pid)
chains.stdin.write(b"go\\n")
chains.stdin.close()
chains.wait()
if group:
    group.kill()
    group.close()
print(kill_descendants(30))
if group:
    print(end_group(place, sys.argv[3]))
"""
NONE = "Left(foreign=set(), ending=set())\n"


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    return build_chains(tmp_path_factory.mktemp("chains"))


def run(*words):
    words = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=50)
    return done.stdout


def test_chains_of_forks_are_killed_one_by_one(chains):
    assert run(chains, str(LIVES_S), str(CHAINS)) == NONE


@pytest.mark.parametrize(
    ("base", "version"),
    [("unified", 2), ("", 2), ("freezer", 1)],
    ids=["2-beside-1", "2", "freezer"],
)
def test_chains_of_forks_are_killed_by_their_group(chains, base, version):
    place = Path("/sys/fs/cgroup", base)
    if not (place / "cgroup.procs").exists() or not os.access(place, os.W_OK):
        pytest.skip(f"no groups can be made in {place}")
    name = make_name(1)
    killed = run(str(place), str(version), name, chains, str(LIVES_S), str(CHAINS))
    assert killed == f"{NONE}True\n"
    assert not (place / name).exists()


def test_a_kept_child_and_its_descendants_live(chains):
    program = (
        "import subprocess\n"
        "from cosched.linux.prctl import adopt_orphans\n"
        "from cosched.linux.processes.descendants import kill_descendants\n"
        "adopt_orphans()\n"
        "kept = subprocess.Popen(['sh', '-c', 'cat; :'], stdin=subprocess.PIPE)\n"
        "other = subprocess.Popen(['sleep', '60'])\n"
        "print(kill_descendants(10, {kept.pid}), kept.poll())\n"
        "kept.communicate()\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout == NONE.replace("\n", " None\n")


def test_a_group_that_kills_by_signals_freezes_meanwhile(tmp_path, monkeypatch):
    """Before Linux 5.14 version 2 has no cgroup.kill."""
    place = GroupLocation(tmp_path, 2)
    name = make_name(1)
    (tmp_path / name).mkdir()
    (tmp_path / name / "cgroup.freeze").write_text("")
    with subprocess.Popen(["sleep", "60"]) as child:
        (tmp_path / name / "cgroup.procs").write_text(f"{child.pid}\n")
        group = KillGroup(place, name)
        group.kill()
        group.close()
        assert child.wait(10) == -9
    assert (tmp_path / name / "cgroup.freeze").read_text() == "10"  # frozen, then not
    assert end_group(place, "cosched_job.none") is True
