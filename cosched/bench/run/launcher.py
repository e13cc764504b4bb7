"""From a job of the workload to the command that starts it with ``cosched-run``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from cosched.bench.run.arms import Arm
from cosched.bench.run.processes import Submission
from cosched.bench.run.site import Site
from cosched.bench.workload.file import JobInstance
from cosched.launch.command import is_launcher
from cosched.launch.family import Family


def module_command(name: str) -> tuple[str, ...]:
    """What runs a module of ours from any working directory: ``python -m`` looks for it
    there first, and a bench in a clone of cosched would find sources that are not built."""
    run = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    path = "import sys; sys.path[:] = filter(None, sys.path)"
    return (sys.executable, "-c", f"{path}; {run}")


COSCHED_RUN = module_command("cosched.cli.run.main")
SLURM_JOB = module_command("cosched.bench.run.slurm_job")


@dataclass(frozen=True, slots=True)
class Launcher:
    """How every job of a bench is started.

    A program that is itself a launcher (srun, mpiexec) says where its ranks run.

    programs: what each job executes, by the name of its ``[[job]]`` table.
    mpi: what the user gave for ``--mpi``.
    family: of the MPI that the jobs use, if it is known.
    command: cosched-run, or a stand-in.
    """

    site: Site
    programs: Mapping[str, tuple[str, ...]]
    environ: Mapping[str, str]
    mpi: str | None = None
    command: tuple[str, ...] = COSCHED_RUN
    family: Family | None = None

    def submission(self, instance: JobInstance, arm: Arm) -> Submission:
        """The job as it is started in ``arm``."""
        spec = instance.spec
        program = self.programs[spec.name]
        if arm is Arm.SLURM_GANG:
            return self._submission(instance, self._slurm_job(instance, program))
        options = [*arm.options, "--job", instance.name]
        if not is_launcher(program[0]):
            ppn = spec.ppn or -(-spec.ranks // len(self.site.hosts))
            options += ["--hosts", ",".join(self.site.hosts)]
            options += ["-n", str(spec.ranks), "--ppn", str(ppn)]
            options += ["--mpi", self.mpi] if self.mpi else []
        return self._submission(instance, (*self.command, *options, *program))

    def _slurm_job(
        self, instance: JobInstance, program: tuple[str, ...]
    ) -> tuple[str, ...]:
        spec, site = instance.spec, self.site
        nodes = min(spec.ranks, len(site.hosts))
        if spec.ppn is not None:
            nodes = -(-spec.ranks // spec.ppn)
        mpi = "pmix" if self.family is Family.OPENMPI else "pmi2"
        return (
            *SLURM_JOB,
            *("--run-dir", str(site.run_dir), "--job", instance.name, "--mpi", mpi),
            *("--nodes", str(nodes), "--ranks", str(spec.ranks), "--", *program),
        )

    def _submission(self, instance: JobInstance, argv: tuple[str, ...]) -> Submission:
        spec = instance.spec
        return Submission(
            name=instance.name,
            argv=argv,
            env={
                **self.environ,
                "COSCHED_RUN_DIR": str(self.site.run_dir),
                **spec.env,
            },
            start_s=spec.start_s,
            timeout_s=spec.timeout_s,
            cwd=spec.cwd,
        )
