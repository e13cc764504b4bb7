"""The Debian package under systemd: an upgrade under MPI jobs, and a purge after them.

No job notices the upgrade: none fails, none is started again, and its laps go on. The
purge leaves no file, control group, user, unit or process of the package.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.tools.deb import package_for, raise_version
from tests.vmlab.site import PATIENT, opened, program

pytestmark = [pytest.mark.vm, pytest.mark.live, pytest.mark.long]

JOBS = 20
#: Stays for the length of the measurement of laps that the upgrade is compared with.
WATCHED_S = 30
START = f"""
mkdir -p runs; rm -f runs/*
for job in $(seq {JOBS}); do
    setsid sh -c "cosched-run -n 2 ./laps runs/$job.laps runs/stop > runs/$job.out 2>&1
        echo \\$? > runs/$job.status" < /dev/null > /dev/null 2>&1 &
done
"""
LAPS = "cat runs/*.laps | od -A n -t d8 -v"
#: Files that no package of cosched writes, and the byte code of the system's Python.
OTHERS = """
/var/l*/dpkg* /var/lib/apt/* /var/lib/systemd/timers/* /var/lib/chrony* /var/log*
/var/cache/* /tmp/* /root/* */__pycache__*
"""
REMAINS = f"""
find / -xdev {" ".join(f"! -path '{path}'" for path in OTHERS.split())} | LC_ALL=C sort
find /run /dev/shm /sys/fs/cgroup -name '*cosched*' ! -path '/run/systemd/*'
getent passwd
getent group
systemctl list-unit-files --no-legend 'cosched*' || true
ps -eo comm= | grep cosched || true
"""
ROOM = {"cpus": 2, "memory_mib": 4096}


@pytest.fixture(scope="module")
def site(tmp_path_factory, release):
    given = tmp_path_factory.mktemp("package")
    package = package_for(release, given)
    folder = tmp_path_factory.mktemp("vms") / "lab"
    for made in opened(folder, 1, release, fresh=True, slurms=False, **ROOM):
        made.copy(package)
        made.version = raise_version(package, made.home / "next.deb")
        made.root("n1", PATIENT)
        program(made, "laps")
        yield made


def jobs(site):
    """Returns the pids of each job's tasks, as the daemon that is up has them."""
    (node,) = json.loads(site.root("n1", "cosched status --json"))["nodes"]
    return {
        job["name"]: sorted(task["pid"] for task in job["tasks"]) for job in node["jobs"]
    }


def complete(found):
    return len(found) == JOBS and all(len(pids) == 2 for pids in found.values())


def laps(site):
    """Returns when the laps were read, and how many there were in each job."""
    counts = [int(word) for word in site.user(LAPS).split()]
    return time.monotonic(), counts


def rate(before, after):
    """Returns the laps of all jobs in a second."""
    return (sum(after[1]) - sum(before[1])) / (after[0] - before[0])


def main_pid(site):
    return int(site.root("n1", "systemctl show -P MainPID cosched"))


def install(site, name):
    return site.root("n1", f"dpkg -i /home/user/{name} 2>&1")


def test_no_job_notices_an_upgrade_and_a_purge_leaves_nothing(site):
    clean = site.root("n1", REMAINS)
    install(site, "cosched.deb")
    site.user(START)
    site.until(lambda: complete(jobs(site)), "all jobs have registered")
    site.until(lambda: len(laps(site)[1]) == JOBS, "each job has made a lap")
    pids, old = jobs(site), main_pid(site)
    first = laps(site)
    time.sleep(WATCHED_S)
    beside = laps(site)
    site.root("n1", "dpkg-deb -R /home/user/next.deb /root/unpacked")
    before = laps(site)
    shown = install(site, "next.deb")
    after = laps(site)
    assert "not up" not in shown, shown
    assert site.root("n1", "dpkg-query -W -f '${Version}' cosched") == site.version
    assert main_pid(site) not in (0, old)
    site.until(lambda: complete(jobs(site)), "the new daemons have all jobs")
    assert jobs(site) == pids
    taken = laps(site)
    time.sleep(WATCHED_S)
    last = laps(site)
    alone, unpacking = rate(first, beside), rate(beside, before)
    upgrade, later = rate(before, after), rate(taken, last)
    print(f"{after[0] - before[0]:.0f} s of upgrade; laps a second: {upgrade:.0f};")
    print(f"beside dpkg alone {unpacking:.0f}; before {alone:.0f}, after {later:.0f}")
    # dpkg takes a CPU of two, so the upgrade itself is compared with dpkg alone.
    assert upgrade > unpacking / 2
    assert later > alone / 2
    assert all(a < b for a, b in zip(before[1], last[1], strict=True)), "each job goes on"
    check_end(site)
    site.root("n1", "dpkg --purge cosched 2>&1")
    assert site.root("n1", REMAINS) == clean


def check_end(site):
    """Each job ends with status 0, its answer, and no other line."""
    site.user("touch runs/stop")
    ended = f"test $(ls runs/*.status | wc -l) = {JOBS} && cat runs/*.status || true"
    site.until(lambda: site.user(ended), "all jobs have ended")
    assert site.user("cat runs/*.status").split() == ["0"] * JOBS
    lines = site.user("cat runs/*.out").splitlines()
    assert len(lines) == JOBS, lines
    assert all(re.fullmatch(r"right after \d+ laps", line) for line in lines), lines
