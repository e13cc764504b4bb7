"""Builds the program that makes chains of processes (``chains.c``)."""

import subprocess

from tests.places import ROOT


def build_chains(folder):
    """Returns the path of the program."""
    program = folder / "chains"
    source = ROOT / "tests/tools/chains.c"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", source, "-o", program], check=True)
    return program
