"""Runs one job on a lab's Slurm and returns its exit status when it ends.

``srun`` alone does not work under gang scheduling. A job starts suspended if another job
has the nodes. Slurm then refuses srun's request for a step, and srun repeats it ever more
rarely, for minutes. A batch script is suspended with its job. So the script sleeps longer
than Slurm's 2 s between SIGTSTP and SIGSTOP and requests its step while it runs. ``sbatch
--wait`` checks for the job's end only every few seconds, so the script reports its end
through a FIFO.

Limits: that sleep is part of the job's response. The job's CPU time is unknown here,
because Slurm's daemons start its tasks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from cosched.bench.run.interrupts import temporary_folder
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.lab.slurm import conf_path, run_inside
from cosched.linux.files.whole import write_whole
from cosched.start.streams import begin


def batch_script(command: Sequence[str], settle_s: float, end: Path) -> str:
    """Returns the job's script: sleep, run the command, report its exit status."""
    sleep = f"sleep {settle_s:g}\n" if settle_s else ""
    report = f"echo $? > {shlex.quote(str(end))}"
    return f"#!/bin/sh\n{sleep}{shlex.join(command)}\n{report}\n"


def run_job(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Submits the job, waits for its end and returns its exit status."""
    lab, conf = Lab.load(options.run_dir), conf_path(options.run_dir)
    if lab is None or conf is None:
        raise CoschedError(
            f"no Slurm is up on a lab in {options.run_dir}: run 'cosched lab up', then "
            "'scripts/slurm-lab up'"
        )
    first = lab.nodes[0].name
    with temporary_folder("cosched-slurm-") as folder:
        end, output, script = (folder / name for name in ("end", "output", "script"))
        os.mkfifo(end)
        write_whole(script, batch_script(options.command, options.settle, end))
        words = ["sbatch", "--parsable", f"--job-name={options.job}", f"--output={output}"]
        words += [f"--nodes={options.nodes}", f"--ntasks={options.ranks}"]
        words += [f"--chdir={os.getcwd()}", str(script)]
        number = run_inside(lab, first, conf, words, environ).strip()
        try:
            status = parse_integer(
                end.read_bytes(), "the status of the job", -(1 << 31), (1 << 31) - 1
            )
        except BaseException:
            cancel = ["scancel", "--full", "--signal=KILL", number]
            run_inside(lab, first, conf, cancel, environ, check=False)
            raise
        sys.stdout.write(output.read_text(errors="replace"))
    return status


def main(words: Sequence[str] | None = None) -> int:
    """Returns the job's exit status; 1 with one line if it could not be submitted."""
    begin()
    parser = argparse.ArgumentParser(prog="slurm_job", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--settle", type=float, default=0.0, help="seconds to wait before")
    parser.add_argument("command", nargs="+", help="its srun")

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        return run_job(parser.parse_args(words), os.environ)
    except CoschedError as error:
        print(f"slurm job: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main())
