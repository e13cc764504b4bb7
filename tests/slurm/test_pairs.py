"""Two Slurms coupled by their controllers: pairs start together, whatever fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cosched.cluster.paths import DomainPaths
from tests.labs.slurms import Cluster, SmallSlurm
from tests.slurm.conftest import PYTHON, USER, save, until
from tests.tools.json_fields import differences, sections
from tests.tools.ports import free_ports

pytestmark = pytest.mark.live

COSCHED = [sys.executable, "-m", "cosched.cli.main"]
NAMES = ("al", "be")
QUICK = """
release = "8s"
release_wait = "4s"
yield_wait = "1s"
again = "2s"
answer = "4s"
"""


class Domain:
    """A Slurm with the controller that couples it."""

    def __init__(self, name, folder, port, other, its_port):
        self.name, self.other, self.folder = name, other, folder / name
        self.paths = DomainPaths(folder / f"run.{name}")
        self.paths.directory.mkdir(parents=True)
        self.text = (
            f'name = "{name}"\nengine = "slurm"\n'
            f'[slurm]\nconf = "{self.folder}/slurm.conf"\npoll = "500ms"\ntry = "8s"\n'
            f'controller_lost_after = "30s"\n[coupling]\nlisten = "127.0.0.1:{port}"\n'
            f'same_names = ["{other}"]\ndomains = {{ {other} = "127.0.0.1:{its_port}" }}\n'
        )
        prolog = folder / f"prolog.{name}"
        cluster = Cluster(name, self.folder, free_ports(3), prolog)
        self.slurm = SmallSlurm(cluster, os.environ)
        self.paths.config.write_text(self.text + QUICK)
        prolog.write_text(self.cosched("gate", "--python", PYTHON).stdout)
        prolog.chmod(0o755)
        self.process = None

    def cosched(self, *words):
        words = [*COSCHED, "cluster", *words, "--run-dir", str(self.paths.run_dir)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done

    def start(self, coupling=QUICK):
        self.paths.config.write_text(self.text + coupling)
        with self.paths.controller_log.open("ab") as log:
            module = ("-m", "cosched_daemons.controller")
            self.process = subprocess.Popen(
                [sys.executable, *module, "--run-dir", str(self.paths.run_dir)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        said = self.process.stdout.readline()
        assert said == "ready\n", self.paths.controller_log.read_text()

    def stop(self, kill=False):
        if self.process is None:
            return
        self.process.kill() if kill else self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()
        self.process = None

    def restart(self, coupling):
        self.stop()
        self.start(coupling)

    def sbatch(self, group="", *options, script="date +%s.%N; sleep 0.5"):
        comment = [f"--comment=cosched:mate={group}@{self.other}"] if group else []
        words = ["sbatch", "--parsable", "--time=5", f"--output={self.out('%j')}"]
        words += [*comment, *options, f"--wrap={script}"]
        return int(self.slurm.run(*words, user=USER))

    def out(self, job):
        return f"{self.slurm.cluster.folder}/out/{job}"

    def times(self, job):
        path = Path(self.out(job))
        return [float(word) for word in path.read_text().split()] if path.exists() else []

    def mates(self):
        return json.loads(self.cosched("mates", "--json").stdout)["mates"]

    def emptied(self):
        self.slurm.try_run("scancel", "--quiet", "--partition=main")
        return self.slurm.idle()

    def show(self, job):
        return self.slurm.run("scontrol", "show", "job", str(job))


@pytest.fixture(scope="module")
def coupled():
    folder = Path(tempfile.mkdtemp(prefix="cosched-slurms-"))
    folder.chmod(0o755)
    port = free_ports(2)
    made = [
        Domain("al", folder, port, "be", port + 1),
        Domain("be", folder, port + 1, "al", port),
    ]
    try:
        for domain in made:
            domain.slurm.start()
            (domain.folder / "out").mkdir()
            (domain.folder / "out").chmod(0o777)
            words = [*COSCHED, "cluster", "keygen", "--run-dir", domain.paths.run_dir]
            subprocess.run(words, check=True, capture_output=True)
        for domain, other in (made, made[::-1]):
            key = f"{domain.name}.public"
            shutil.copy(domain.paths.peers / key, other.paths.peers / key)
        yield made
    finally:
        for domain in made:
            domain.stop()
            domain.slurm.close()
        shutil.rmtree(folder)


@pytest.fixture
def both(coupled):
    for domain in coupled:
        domain.start()
    yield coupled
    for domain in coupled:
        until(domain.emptied, "the nodes are idle")
        domain.stop()


def starts_together(both, jobs, within_s=90.0, apart_s=2.0):
    """Waits for the pairs (job of al, job of be); returns how far apart they started, each
    job once."""
    al, be = both
    try:
        until(
            lambda: all(al.times(one) and be.times(two) for one, two in jobs),
            "all pairs start",
            within_s,
        )
    except AssertionError as error:
        seen = [each.cosched("mates").stdout for each in both]
        late = [(al, one) for one, _ in jobs] + [(be, two) for _, two in jobs]
        seen += [domain.show(job) for domain, job in late if not domain.times(job)]
        raise AssertionError(error, *seen, jobs) from None
    apart = []
    for one, two in jobs:
        (first,), (second,) = al.times(one), be.times(two)
        apart.append(abs(first - second))
    assert max(apart) < apart_s, apart
    return apart


def test_pair_starts_together(both):
    al, be = both
    one = al.sbatch("g1", "--nodes=2")
    # A hold ends and begins again every five seconds.
    held = rf"{one} g1: ready, holds 2 nodes since .* for g1@be: be does not have its group"
    pattern = re.compile(f"{held}; released at ")
    until(lambda: pattern.match(al.cosched("mates").stdout), "al holds")
    assert al.times(one) == []
    told = sections()["cosched cluster mates"]
    assert differences(told, {"mates": al.mates()}) == ([], [])
    two = be.sbatch("g1")
    starts_together(both, [(one, two)])
    address = f"AdminComment=cosched: mates al={one}@al[1-2]"
    until(lambda: address in be.show(two), "the job can find its mate")
    until(lambda: al.mates() == be.mates() == [], "nothing waits")
    assert al.cosched("mates").stdout == "no job waits for a mate\n"


@pytest.mark.long
@pytest.mark.parametrize("schemes", ["hold hold", "yield yield", "hold yield"])
def test_crossing_pairs_among_other_jobs(both, schemes):
    """Each cluster's first job waits for the last of the other: both deadlocks."""
    al, be = both
    for domain, scheme in zip(both, schemes.split(), strict=True):
        domain.restart(f'scheme = "{scheme}"\n{QUICK}')
    groups = [f"{schemes}{place}".replace(" ", "") for place in range(3)]
    ones = {group: al.sbatch(group, "--nodes=2") for group in groups}
    others = [domain.sbatch("", "--nodes=1") for domain in both]
    twos = {group: be.sbatch(group, "--nodes=2") for group in reversed(groups)}
    apart = starts_together(both, [(ones[group], twos[group]) for group in groups])
    print(f"{schemes}: {sorted(round(each, 3) for each in apart)}")
    for domain, job in zip(both, others, strict=True):
        until(lambda d=domain, j=job: d.times(j), "a job without mates runs")


def test_controllers_are_killed_while_pairs_wait(both):
    al, be = both
    pairs = [(al.sbatch(f"k{place}"), be.sbatch(f"k{place}")) for place in range(4)]
    for domain in (al, be, al, be):
        domain.stop(kill=True)
        domain.start()
    # A start that was decided before a kill follows after the restart.
    starts_together(both, pairs, apart_s=15.0)


@pytest.mark.long
def test_slurmctld_is_killed_while_pairs_wait(both):
    al, be = both
    one = al.sbatch("s1", "--nodes=2")
    until(lambda: [each["held"] for each in al.mates()] == [True], "al holds")
    save(al.slurm, one)
    al.slurm.kill_controller()
    two = be.sbatch("s1", "--nodes=2")
    al.slurm.start_controller()
    starts_together(both, [(one, two)], apart_s=15.0)


def test_domain_that_is_down(both):
    """Jobs without mates never wait; the others do as the settings say."""
    al, be = both
    be.stop(kill=True)
    paired = al.sbatch("d1")
    alone = al.sbatch()
    until(lambda: al.times(alone), "the job without a mate runs")
    until(lambda: al.times(paired), "the job starts without its mate")
    al.restart(f'when_down = "yield"\n{QUICK}')
    waits = al.sbatch("d2")
    until(lambda: any(each["yields"] for each in al.mates()), "the job yields")
    be.start()
    starts_together(both, [(waits, be.sbatch("d2"))])


def test_disputed_and_second_jobs_are_held_with_a_reason(both):
    al, be = both
    first = al.sbatch("e1", "--begin=now+1hour")
    second = al.sbatch("e1")
    until(lambda: f"job {first} is in it" in al.show(second), "the second is refused")
    assert "Priority=0" in al.show(second)
    other = f"--comment=cosched:mate=e1@{be.other},within=60s"
    disputed = be.sbatch("", other)
    until(lambda: "AdminComment=cosched: al refuses" in be.show(disputed), "it is disputed")
    assert be.times(disputed) == []


def test_other_users_job_is_no_mate(both):
    """Names of groups are per user: another user's u1 is another group."""
    al, be = both
    mine = al.sbatch("u1")
    words = ("sbatch", "--parsable", "--output=/dev/null", "--wrap=true")
    comment = "--comment=cosched:mate=u1@al"
    theirs = be.slurm.run(*words, comment, user="daemon").strip()
    lacks = "for u1@al: al does not have its group"
    until(lambda: lacks in be.cosched("mates").stdout, f"job {theirs} has no mate")
    starts_together(both, [(mine, be.sbatch("u1"))])


# -- bad input -----------------------------------------------------------------------------


def test_controller_without_the_others_key_is_one_line(coupled):
    al, _ = coupled
    key = al.paths.peers / "be.public"
    kept = key.read_bytes()
    key.unlink()
    words = [*COSCHED, "cluster", "couple", "--config", str(al.paths.config)]
    words += ["--run-dir", str(al.paths.run_dir)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    key.write_bytes(kept)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "be.public: No such file or directory" in line


def test_couple_and_down(coupled):
    al, _ = coupled
    said = al.cosched("couple", "--config", str(al.paths.config)).stdout
    assert said == "domain al is coupled with be\n"
    assert al.cosched("mates").stdout == "no job waits for a mate\n"
    al.cosched("down")
    assert not al.paths.controller_socket.exists()
