"""Programs of others that a lab node runs on its halves: hpcc, LAMMPS and fio."""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.documents import read_json

HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
#: Results of hpcc's summary that are speeds, and their names here.
PARTS: Mapping[str, str] = {
    "SingleSTREAM_Triad": "STREAM",
    "SingleRandomAccess_GUPs": "RandomAccess",
    "PTRANS_GBs": "PTRANS",
    "SingleDGEMM_Gflops": "DGEMM",
    "SingleFFT_Gflops": "FFT",
}
LAMMPS_INPUT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {size} 0 {size} 0 {size}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
run {steps}
"""

#: The speeds of the parts of a run; more is faster.
Rates = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A program of others."""

    argv: Sequence[str]  #: the command
    package: str  #: the package of Debian that has it
    label: str  #: the limit that its user names
    prepare: Callable[[Path], None]  #: puts its input into a folder
    read: Callable[[Path], Rates]  #: returns its speeds, from its folder


def programs(options: argparse.Namespace, megabytes: int) -> dict[str, Foreign]:
    """Returns the programs by name. megabytes: that fio moves. Raises CoschedError if one
    is not installed."""

    def fill_hpcc(folder: Path) -> None:
        text = HPCC_INPUT.read_text()
        for name, value in (("Ns", options.order), ("Ps", 1), ("Qs", 1)):
            text = re.sub(rf"^\S+(\s+{name})$", rf"{value}\1", text, flags=re.MULTILINE)
        (folder / "hpccinf.txt").write_text(text)

    def fill_lammps(folder: Path) -> None:
        text = LAMMPS_INPUT.format(size=options.size, steps=options.steps)
        (folder / "in.melt").write_text(text)

    def fill_nothing(folder: Path) -> None:
        """Puts nothing into a folder: fio makes its file itself."""

    lammps = ("lmp", "-log", "none", "-in", "in.melt")
    random = ("--name=random", "--rw=randrw", "--bs=64k", "--direct=1", "--ioengine=psync")
    moved = ("--size=64m", f"--io_size={megabytes}m")
    fio = ("fio", "--output=fio.json", "--output-format=json", *random, *moved)
    found = {
        "hpcc": Foreign(("hpcc",), "hpcc", "memory", fill_hpcc, read_hpcc),
        "lammps": Foreign(lammps, "lammps", "cpu", fill_lammps, read_lammps),
        "fio": Foreign(fio, "fio", "io", fill_nothing, read_fio),
    }
    for program in found.values():
        if shutil.which(program.argv[0]) is None:
            raise CoschedError(
                f"{program.argv[0]} is not installed: apt-get install {program.package}"
            )
    if not HPCC_INPUT.exists():
        raise CoschedError(f"{HPCC_INPUT} is missing; it is a part of Debian's hpcc")
    return found


def read_hpcc(folder: Path) -> dict[str, float]:
    """Returns the speeds of the parts. Raises CoschedError if a part was not right."""
    path = folder / "hpccoutf.txt"
    text = path.read_text() if path.exists() else ""
    if "Success=1" not in text.splitlines():
        raise CoschedError("hpcc: its own checks failed")
    found = {}
    for key, name in PARTS.items():
        value = re.search(rf"^{key}=(\S+)$", text, flags=re.MULTILINE)
        if value is None:
            raise CoschedError(f"hpcc: its summary has no {key}")
        found[name] = float(value[1])
    return found


def read_lammps(folder: Path) -> dict[str, float]:
    """Returns the loops a second. Raises CoschedError if there was no loop."""
    found = re.search(r"^Loop time of (\S+) on", (folder / "out").read_text(), re.MULTILINE)
    if found is None:
        raise CoschedError("lammps: it did not print the time of its loop")
    return {"LAMMPS": 1.0 / float(found[1])}


def read_fio(folder: Path) -> dict[str, float]:
    """Returns the bytes a second. Raises CoschedError if fio reports an error."""
    (job,) = read_json(folder / "fio.json")["jobs"]
    if job["error"]:
        raise CoschedError(f"fio: {os.strerror(job['error'])}")
    return {"fio": float(job["read"]["bw_bytes"] + job["write"]["bw_bytes"])}
