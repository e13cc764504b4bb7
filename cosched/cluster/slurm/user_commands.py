"""Runs Slurm's commands, apart from the settings that a user or a job has for them.

Variables such as SQUEUE_PARTITION change what a command prints or does. They are for the
user's own commands: a job that squeue leaves out would count as ended.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError

#: How long a command of Slurm may take.
WITHIN_S = 60.0
#: The names of variables that Slurm's commands read begin so.
_PREFIXES = ("SLURM_", "SBATCH_", "SCANCEL_", "SCONTROL_", "SINFO_", "SQUEUE_")
#: Where the cluster's configuration is.
CONF = "SLURM_CONF"


def without_slurm(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that Slurm's commands do not read."""
    return {name: each for name, each in environ.items() if not name.startswith(_PREFIXES)}


def with_cluster(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which Slurm's commands do as their words say, on the
    cluster that ``environ`` names."""
    conf = {CONF: environ[CONF]} if CONF in environ else {}
    return {**without_slurm(environ), **conf}


def run(
    words: tuple[str, ...], environ: Mapping[str, str], folder: Path, script: str = ""
) -> str:
    """Returns what a command prints that runs in ``folder``. Raises CoschedError."""
    try:
        done = subprocess.run(
            words,
            env=environ,
            cwd=folder,
            input=script.encode(),
            capture_output=True,
            timeout=WITHIN_S,
            check=False,
        )
    except FileNotFoundError:
        raise CoschedError(f"{words[0]} not found; add Slurm's commands to PATH") from None
    except OSError as error:  # the machine has no process or memory left
        raise CoschedError(f"{words[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise CoschedError(f"{words[0]}: no answer within {WITHIN_S:g} s") from None
    if done.returncode:
        lines = shown_text(done.stderr).strip().splitlines() or [""]
        raise CoschedError(f"{words[0]}: {lines[-1]}")
    return shown_text(done.stdout)
