"""From a job of the workload to the command that starts it with ``cosched-run``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from cosched.bench.arms import Arm
from cosched.bench.processes import Submission
from cosched.bench.site import Site
from cosched.bench.workload import JobInstance
from cosched.launch.command import is_launcher

COSCHED_RUN = (sys.executable, "-m", "cosched.cli.run")


@dataclass(frozen=True, slots=True)
class Launcher:
    """How every job of a bench is started.

    A program that is itself a launcher (srun, mpiexec) says where its ranks run.


    programs: what each job executes, by the name of its ``[[job]]`` table.
    mpi: what the user gave for ``--mpi``.
    command: cosched-run, or a stand-in.
    """

    site: Site
    programs: Mapping[str, tuple[str, ...]]
    environ: Mapping[str, str]
    mpi: str | None = None
    command: tuple[str, ...] = COSCHED_RUN

    def submission(self, instance: JobInstance, arm: Arm) -> Submission:
        """The job as it is started in ``arm``."""
        spec = instance.spec
        program = self.programs[spec.name]
        options = [*arm.options, "--job", instance.name]
        if not is_launcher(program[0]):
            ppn = spec.ppn or -(-spec.ranks // len(self.site.hosts))
            options += ["--hosts", ",".join(self.site.hosts)]
            options += ["-n", str(spec.ranks), "--ppn", str(ppn)]
            options += ["--mpi", self.mpi] if self.mpi else []
        return Submission(
            name=instance.name,
            argv=(*self.command, *options, *program),
            env={
                **self.environ,
                "COSCHED_RUN_DIR": str(self.site.run_dir),
                **spec.env,
            },
            start_s=spec.start_s,
            timeout_s=spec.timeout_s,
            cwd=spec.cwd,
        )
