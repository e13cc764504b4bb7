"""The Debian package, installed into a Debian without a compiler.

The package is built, which needs the network and some minutes, unless COSCHED_DEB names
one, which may be for another release. ``mmdebstrap`` makes a small Debian of that release
with MPICH, and each test has a copy-on-write view of it with its own processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.places import ROOT
from tests.tools.deb import NAME, given_package, suite_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="needs mmdebstrap"),
]

WITH = "python3,mpich,procps,systemd,init-system-helpers"
RING = ROOT / "tests/packaging/ring.c"
#: Makes a root of its own from $BASE, and runs the script inside.
INSIDE = """
hostname pkgnode
mount -t tmpfs tmpfs "$WORK"
mkdir "$WORK/upper" "$WORK/work" "$WORK/root"
cd "$WORK"
mount -t overlay -o "lowerdir=$BASE,upperdir=upper,workdir=work" overlay root
cd root
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir given
mount --bind "$GIVEN" given
path=/usr/sbin:/usr/bin:/sbin:/bin
exec chroot . env -i PATH=$path HOME=/root UCX_LOG_LEVEL=fatal bash -ec "$SCRIPT"
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A folder with the package and a program."""
    folder = tmp_path_factory.mktemp("given")
    given_package(folder)
    subprocess.run(["mpicc.mpich", RING, "-o", folder / "ring"], check=True)
    return folder


@pytest.fixture(scope="module")
def base(given, tmp_path_factory):
    """The root of a small Debian, of the release for which the package is."""
    folder = tmp_path_factory.mktemp("base") / "root"
    command = ("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={WITH}")
    suite = suite_of(given / NAME)
    subprocess.run([*command, suite, folder], check=True, timeout=1200)
    return folder


@pytest.fixture
def inside(given, base, tmp_path):
    def run(script):
        done = subprocess.run(
            [
                *("unshare", "--mount", "--pid", "--fork", "--uts", "--ipc"),
                *("--kill-child", "--propagation", "private", "bash", "-ec", INSIDE),
            ],
            env={
                **os.environ,
                **{"BASE": str(base), "GIVEN": str(given), "WORK": str(tmp_path)},
                "SCRIPT": script,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_job_needs_no_compiler(inside):
    shown = inside("""
        ! command -v gcc cc
        dpkg -i /given/cosched.deb >&2
        cosched up >&2
        cosched-run -n 2 /given/ring 1
        cosched history --csv
        cosched shim info --mpi mpich
        cosched doctor | grep -A 1 mpi || :
        cosched down >&2
    """)
    assert "a ring of 2 has ended\n" in shown
    assert "ring-" in shown.split("a ring of 2 has ended\n")[1]  # the daemons had it
    assert "built     yes" in shown
    assert "cannot be built" not in shown


def test_units_are_right(inside):
    inside("""
        dpkg -i /given/cosched.deb >&2
        systemd-analyze verify /usr/lib/systemd/system/cosched*.service
        test "$(readlink /run/cosched/domain)" = /var/lib/cosched/domain
    """)


def test_job_goes_on_under_an_upgrade(inside):
    shown = inside("""
        dpkg -i /given/cosched.deb >&2
        dpkg-deb -R /given/cosched.deb /tmp/new
        sed -i 's/^Version: /Version: 9:/' /tmp/new/DEBIAN/control
        dpkg-deb --root-owner-group -Znone -b /tmp/new /tmp/new.deb >&2
        coschedd & daemon=$!
        until cosched status > /tmp/status 2>&1; do kill -0 $daemon; sleep 0.1; done
        cosched-run -n 2 /given/ring 40 > /tmp/out 2>&1 & job=$!
        until cosched status | grep ring; do kill -0 $job; sleep 0.1; done
        dpkg -i /tmp/new.deb >&2
        # systemd is not up here; after a crash it starts the new version.
        kill -KILL $daemon
        cosched down --keep-jobs
        coschedd & daemon=$!
        until cosched status > /tmp/status 2>&1; do kill -0 $daemon; sleep 0.1; done
        cosched status
        dpkg-query -W cosched
        wait $job
        cat /tmp/out
        cosched down >&2
    """)
    after = shown.split("its jobs run freely; cosched up takes them over\n")[1]
    assert " ring-" in after.partition("cosched\t9:")[0]  # the new daemon has the job
    assert after.endswith("a ring of 2 has ended\n")


def test_nothing_is_left_after_a_purge(inside):
    files = "find / -xdev ! -path '/given*' ! -path '/var/l*/dpkg*' ! -path '/var/log*'"
    shown = inside(f"""
        {files} | LC_ALL=C sort > /tmp/before
        dpkg -i /given/cosched.deb >&2
        cosched up >&2
        cosched-run -n 2 /given/ring 20 > /tmp/out & job=$!
        until cosched status | grep ring >&2; do kill -0 $job; sleep 0.1; done
        dpkg -r cosched >&2
        test ! -e /usr/lib/cosched
        test -e /etc/cosched.toml
        dpkg -P cosched >&2
        wait $job
        rm -rf /root/.cache /root/.local  # the user's own
        {files} | LC_ALL=C sort > /tmp/after
        diff /tmp/before /tmp/after || :
        ls /dev/shm /run | grep cosched || :
        cat /tmp/out
    """)
    left = shown.splitlines()
    assert [line for line in left if line.startswith(("<", ">"))] == []
    assert "a ring of 2 has ended" in left
    assert not [line for line in left if line.startswith("cosched-")]
