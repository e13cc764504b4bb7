"""One job on a lab's Slurm, as if it ran here: ends when the job does, with its status.

``srun`` alone will not do. A job that begins while another has the nodes begins suspended,
and srun's request for a step is then refused; it tries again ever more rarely, for minutes.
A batch script is suspended with its job, so it waits until Slurm's own 2 s between SIGTSTP
and SIGSTOP are over and asks for its step when it is running. ``sbatch --wait`` in turn
looks for the job's end only every few seconds: the script tells by a FIFO instead.

Limits: those 2.5 s are part of the job's response. The job's CPU time is not seen here,
since Slurm's daemons start its tasks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.lab.slurm import conf_path, run_inside

#: Longer than Slurm takes to suspend a job that is not to run yet.
SETTLE_S = 2.5


def batch_script(command: Sequence[str], mpi: str, end: Path) -> str:
    """What the job does: settle, run its step, tell how it ended."""
    step = shlex.join(["srun", f"--mpi={mpi}", *command])
    tell = f"echo $? > {shlex.quote(str(end))}"
    return f"#!/bin/sh\nsleep {SETTLE_S:g}\n{step}\n{tell}\n"


def run_job(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Submits the job, as of ``environ``, and waits for it; its status."""
    lab, conf = Lab.load(options.run_dir), conf_path(options.run_dir)
    if lab is None or conf is None:
        raise CoschedError(
            f"no Slurm is up on a lab in {options.run_dir}: run 'cosched lab up', then "
            "'scripts/slurm-lab up'"
        )
    first = lab.nodes[0].name
    with tempfile.TemporaryDirectory(prefix="cosched-slurm-") as folder:
        end, output, script = (Path(folder, name) for name in ("end", "output", "script"))
        os.mkfifo(end)
        script.write_text(batch_script(options.command, options.mpi, end))
        words = ["sbatch", "--parsable", f"--job-name={options.job}", f"--output={output}"]
        words += [f"--nodes={options.nodes}", f"--ntasks={options.ranks}"]
        words += [f"--chdir={os.getcwd()}", str(script)]
        number = run_inside(lab, first, conf, words, environ).strip()
        try:
            status = int(end.read_text())
        except BaseException:
            cancel = ["scancel", "--full", "--signal=KILL", number]
            run_inside(lab, first, conf, cancel, environ, check=False)
            raise
        sys.stdout.write(output.read_text(errors="replace"))
    return status


def main(words: Sequence[str] | None = None) -> int:
    """The job's status; 1 with one line if it could not be submitted."""
    parser = argparse.ArgumentParser(prog="slurm_job", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--mpi", required=True, help="srun's name for how ranks meet")
    parser.add_argument("command", nargs="+")

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        return run_job(parser.parse_args(words), os.environ)
    except CoschedError as error:
        print(f"slurm-gang: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main())
