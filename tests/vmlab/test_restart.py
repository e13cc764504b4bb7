"""The daemons of a node under systemd and cgroup v2: a restart, and a killed daemon.

The jobs are stand-ins for MPI tasks (``tests/tools/task.py``): emulated nodes are slow.
"""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.places import ROOT
from tests.vmlab.site import FOLDER, PATIENT, opened

pytestmark = [pytest.mark.vm, pytest.mark.live, pytest.mark.long]

JOBS = 8
BASE = "/sys/fs/cgroup/system.slice/cosched.service"
STATUS = "/opt/cosched/bin/cosched status --json"
#: Each task waits for its input, and its end counts only with the test's.
START = f"""
mkfifo /run/open
sleep infinity > /run/open 2> /dev/null &
for job in $(seq {JOBS}); do
    setsid /opt/cosched/bin/python /home/user/task.py \\
        /run/cosched/$(uname -n)/register.sock job$job < /run/open > /run/task$job 2>&1 &
done
"""
#: systemd before 254 does not have the key: it starts the daemon in the unit's own group.
OLDER = f"""
printf '[Service]\\nDelegateSubgroup=\\n' > {FOLDER}/older.conf
systemctl daemon-reload
systemctl restart cosched
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory, release):
    folder = tmp_path_factory.mktemp("vms") / "lab"
    for made in opened(folder, 1, release, slurms=False):
        made.root("n1", PATIENT)
        made.start_cosched()
        made.copy(ROOT / "tests/tools/task.py")
        made.root("n1", START)
        made.until(partial(have_registered, made), "all jobs have registered")
        yield made


def have_registered(site):
    return len(jobs(site)) == JOBS


def jobs(site):
    """Returns the pids of each job, as the daemon that is up has them."""
    (node,) = json.loads(site.root("n1", STATUS))["nodes"]
    return {job["name"]: [task["pid"] for task in job["tasks"]] for job in node["jobs"]}


def main_pid(site):
    return int(site.root("n1", "systemctl show -P MainPID cosched"))


def check_takeover(site, before, older):
    """Another daemon has all jobs, and each has its share of the CPU by a class."""
    site.until(lambda: main_pid(site) not in (0, before), "another daemon")
    shown = "systemctl is-active cosched || true"
    site.until(lambda: site.root("n1", shown) == "active\n", "the unit is active")
    assert len(jobs(site)) == JOBS
    weights = site.root("n1", f"cat {BASE}/cosched-*/*.job*/cpu.weight").split()
    assert len(weights) == JOBS
    assert len(set(weights)) == 2, "one job is scheduled"
    group = site.root("n1", f"cat /proc/{main_pid(site)}/cgroup")
    assert group == "0::/system.slice/cosched.service/cosched.rest\n"
    shown = site.root("n1", "systemctl show -P DelegateSubgroup cosched")
    assert (shown.strip() == "") is older


@pytest.mark.parametrize("older", [False, True], ids=["DelegateSubgroup", "without it"])
def test_restart_and_kill_keep_jobs_coscheduled(site, older):
    pids = jobs(site)
    if older:
        before = main_pid(site)
        site.root("n1", OLDER)
        check_takeover(site, before, older)
    for how in (
        "systemctl restart cosched",
        "systemctl stop cosched; systemctl start cosched",
        "systemctl kill --kill-whom=main --signal=KILL cosched",
    ):
        before = main_pid(site)
        site.root("n1", how)
        check_takeover(site, before, older)
        assert jobs(site) == pids, how
