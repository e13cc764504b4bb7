"""Three virtual machines with Slurm and cgroup v2: jobs that share nodes, as a user.

Two jobs run at once under OverSubscribe=FORCE, first under the kernel alone, then
coscheduled. In both cases Slurm's limits must hold and its accounts must have the time.
"""

from __future__ import annotations

import base64
import gzip
import json
import re

import pytest

from tests.vmlab.site import opened, program

pytestmark = [pytest.mark.vm, pytest.mark.live, pytest.mark.long]

ROUNDS = 2000
LIMIT_MIB = 96
DATA = re.compile(r'id="data">([A-Za-z0-9+/=]*)</script>')
LINE = re.compile(r"rank (\d) (n\d) ([\d.]+) (\S+) (/\S*)")
TRACE = "/run/cosched/$(uname -n)"
KEPT = "/home/traces/$(uname -n)"


@pytest.fixture(scope="module")
def site(tmp_path_factory, release):
    for made in opened(tmp_path_factory.mktemp("vms") / "lab", 3, release):
        program(made, "pulse")
        yield made


@pytest.fixture(scope="module")
def cosched(site):
    """The daemons in all nodes; the shim is the installation's."""
    site.start_cosched("slice=5s")  # the jobs are too short for turns of the usual length
    shim = site.user("cosched shim build --mpicc mpicc.mpich")
    assert shim.startswith("/opt/cosched/lib/cosched/shim/"), shim
    yield
    site.stop_cosched()


def script(front):
    return (
        "#!/bin/bash\n"
        f"#SBATCH --nodes=3 --ntasks=3 --mem={LIMIT_MIB}M --output=%x.out\n"
        f"{front}srun ./pulse {ROUNDS}\n"
    )


def run_pair(site, front, names):
    """Runs two jobs at once; returns their numbers."""
    site.write("job.sh", script(front))
    first, second = names
    submit = "sbatch --parsable --wait --job-name"
    return site.user(
        f"{submit}={first} job.sh > first &\n"
        f"{submit}={second} job.sh > second\n"
        "wait\n"
        "cat first second"
    ).split()


def check_pair(site, names, numbers):
    """The answers are right, the limits hold, and sacct has the ranks' time."""
    for name, number in zip(names, numbers, strict=True):
        output = site.read(f"{name}.out")
        assert f"sum {6 * ROUNDS} of {6 * ROUNDS}\n" in output, output
        ranks = LINE.findall(output)
        assert sorted(node for _, node, *_ in ranks) == ["n1", "n2", "n3"], output
        for _, node, _, cpus, group in ranks:
            assert cpus == "0"
            assert group.startswith(f"/system.slice/{node}_slurmstepd.scope/job_{number}/")
        own_s = sum(float(cpu_s) for _, _, cpu_s, *_ in ranks)
        words = f"sacct -n -P -j {number}.0 --format=TotalCPU"
        site.until(lambda words=words: site.user(words).strip(), f"sacct has {number}")
        assert seconds(site.user(words).strip()) > 0.9 * own_s
    spans = [
        [int(at) for at in line.split("|")]
        for line in site.user(
            f"SLURM_TIME_FORMAT=%s sacct -n -X -P -j {','.join(numbers)} --format=Start,End"
        ).splitlines()
    ]
    (begin_a, end_a), (begin_b, end_b) = spans
    shared_s = min(end_a, end_b) - max(begin_a, begin_b)
    print(
        f"{names}: {end_a - begin_a} s and {end_b - begin_b} s, {shared_s} s of it at once"
    )
    assert shared_s > 0.5 * max(end_a - begin_a, end_b - begin_b)


def seconds(text):
    """Returns a time of sacct, such as 1-02:03:04 or 03:04.567, in seconds."""
    days, _, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = 60 * total + float(part)
    return total + 86400 * int(days or 0)


def exceed(site, front):
    """Runs a job that writes more than its limit; returns its state."""
    line = f"{front}srun ./pulse 3 {2 * LIMIT_MIB}"
    site.write(
        "big.sh", f"#!/bin/bash\n#SBATCH -N1 -n1 --mem={LIMIT_MIB}M -o big.out\n{line}\n"
    )
    number = site.user("sbatch --parsable --wait big.sh || true").strip()
    words = f"sacct -n -P -j {number}.0 --format=State"
    site.until(lambda: site.user(words).strip(), f"sacct has {number}")
    return site.user(words).strip()


def test_nodes_are_debian_with_systemd_kernels_and_a_home(site):
    assert set(site.everywhere("systemctl is-system-running").values()) == {"running\n"}
    boots = site.everywhere("cat /proc/sys/kernel/random/boot_id")
    assert len(set(boots.values())) == 3
    for controllers in site.everywhere("cat /sys/fs/cgroup/cgroup.controllers").values():
        assert {"cpuset", "cpu", "memory", "io", "pids"} <= set(controllers.split())
    site.user("touch seen", node="n2")
    assert site.user("stat -c %U seen", node="n3") == "user\n"


def test_srun_and_salloc_start_tasks_in_their_groups(site):
    found = site.user("srun -N3 -n3 --mem=64M cat /proc/self/cgroup").splitlines()
    assert len(found) == 3
    assert all("slurmstepd.scope/job_" in line for line in found)
    assert site.user("salloc -Q -N1 -w n2 srun uname -n") == "n2\n"


def test_jobs_that_share_nodes_under_the_kernel(site):
    names = ("kernel-a", "kernel-b")
    check_pair(site, names, run_pair(site, "", names))
    assert exceed(site, "") == "OUT_OF_MEMORY"


def test_coscheduled_jobs_that_share_nodes(site, cosched):
    names = ("cosched-a", "cosched-b")
    numbers = run_pair(site, "cosched-run -- ", names)
    site.everywhere(f"mkdir -p {KEPT}; cp {TRACE}/trace*.jsonl {KEPT}/")
    site.root("n1", "cd /home/traces; cosched report -o report.html n1 n2 n3")
    page = (site.folder / "home/traces/report.html").read_text()
    data = json.loads(gzip.decompress(base64.b64decode(DATA.search(page)[1])))
    totals = data["timeline"]["totals"]
    jobs = data["timeline"]["per_job"]
    print(totals, [(job["share"], job["together"], job["switches"]) for job in jobs])
    assert len(jobs) == 2
    assert all(job["nodes"] == ["n1", "n2", "n3"] for job in jobs)
    assert all(job["switches"] >= 6 for job in jobs), "the jobs alternate on each node"
    assert totals["together"] > 0.95
    check_pair(site, names, numbers)


def test_limit_of_memory_holds_for_coscheduled_ranks(site, cosched):
    assert exceed(site, "cosched-run -- ") == "OUT_OF_MEMORY"
