"""Makes the ``cosched-run`` command that starts a job of the workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cosched.bench.run.arms import Arm
from cosched.bench.run.processes import Submission
from cosched.bench.run.site import Site
from cosched.bench.workload.file import JobInstance, JobSpec
from cosched.launch.family import Family
from cosched.launch.given.first_word import is_launcher
from cosched.launch.run_record import OFF, VARIABLE
from cosched.launch.spoken_pmi import better_kind
from cosched.start.own_command import own_command

COSCHED_RUN = own_command("cosched.cli.run.main")
SLURM_JOB = own_command("cosched.bench.run.slurm_job")
#: The wait in front of a step under gang scheduling; see slurm_job.py.
GANG_SETTLE_S = 2.5


@dataclass(frozen=True, slots=True)
class SlurmJobs:
    """Makes the commands that run jobs on the Slurm of the lab (slurm_job.py)."""

    site: Site  #: the nodes of the lab
    family: Family | None  #: the jobs' MPI, which chooses the PMI; None: unknown
    settle_s: float = 0.0  #: how long a job waits before its step

    def argv(
        self,
        instance: JobInstance,
        program: tuple[str, ...],
        front: tuple[str, ...] = (),
    ) -> tuple[str, ...]:
        """Returns the command of one job. ``front``: the words before ``srun``."""
        spec, hosts = instance.spec, self.site.hosts
        nodes = min(spec.ranks, len(hosts))
        if spec.ppn is not None:
            nodes = -(-spec.ranks // spec.ppn)
        mpi = better_kind(self.family)
        options = ["--run-dir", str(self.site.run_dir), "--job", instance.name]
        options += ["--nodes", str(nodes), "--ranks", str(spec.ranks)]
        options += ["--settle", f"{self.settle_s:g}"]
        return (*SLURM_JOB, *options, "--", *front, "srun", f"--mpi={mpi}", *program)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts every job of a bench. A program that is itself a launcher (srun, mpiexec)
    places its ranks itself."""

    site: Site  #: the nodes that the jobs run on
    #: The command of each job, by the name of its ``[[job]]`` table.
    programs: Mapping[str, tuple[str, ...]]
    #: Each job's environment, before the bench adds its variables.
    environ: Mapping[str, str]
    mpi: str | None = None  #: the value of --mpi; None: cosched-run chooses
    command: tuple[str, ...] = COSCHED_RUN  #: cosched-run, or a substitute
    family: Family | None = None  #: the jobs' MPI; None: unknown

    #: The lab's Slurm, which then starts the jobs of every arm; None: the MPI's own
    #: launcher.
    by_slurm: SlurmJobs | None = None

    def submission(
        self, instance: JobInstance, arm: Arm, runs: Path | None = None
    ) -> Submission:
        """Returns the job, ready to start in ``arm``.

        ``runs``: the record of runs that it reads and continues; None: neither.
        """
        spec = instance.spec
        program = self.programs[spec.name]
        if arm is Arm.SLURM_GANG:
            gang = SlurmJobs(self.site, self.family, GANG_SETTLE_S)
            return self._submission(instance, gang.argv(instance, program), runs)
        options = [*arm.options, "--job", instance.name]
        if self.by_slurm is not None:
            front = (*self.command, *options, "--")
            argv = self.by_slurm.argv(instance, program, front)
            return self._submission(instance, argv, runs)
        if not is_launcher(program[0]):
            hosts = self.site.hosts[spec.first - 1 :]
            ppn = spec.ppn or -(-spec.ranks // len(hosts))
            options += ["--hosts", ",".join(hosts)]
            options += ["-n", str(spec.ranks), "--ppn", str(ppn)]
            options += ["--mpi", self.mpi] if self.mpi else []
        return self._submission(instance, (*self.command, *options, *program), runs)

    def hosts_of(self, spec: JobSpec) -> tuple[str, ...]:
        """Returns the nodes of the job."""
        place = spec.place(len(self.site.hosts))
        return self.site.hosts[place.start : place.stop]

    def sees_cpu_time(self, arm: Arm) -> bool:
        """Returns whether the jobs' CPU time is known; Slurm's daemons start its tasks."""
        return arm is not Arm.SLURM_GANG and self.by_slurm is None

    def _submission(
        self, instance: JobInstance, argv: tuple[str, ...], runs: Path | None
    ) -> Submission:
        spec = instance.spec
        return Submission(
            name=instance.name,
            argv=argv,
            env={
                **self.environ,
                "COSCHED_RUN_DIR": str(self.site.run_dir),
                VARIABLE: str(runs or OFF),
                **spec.env,
            },
            start_s=instance.start_s,
            timeout_s=spec.timeout_s,
            cwd=spec.cwd,
        )
