"""Adds to pyproject.toml the things that it cannot express: found packages beside a renamed
one, the cffi modules, and commands that start Python apart from the user's variables."""

from pathlib import Path

from setuptools import find_packages, setup

#: Each command, and the module whose function main it runs.
COMMANDS = {
    "cosched": "cosched.cli.main",
    "cosched-run": "cosched.cli.run.main",
    "coschedd": "cosched_daemons.scheduler",
    "cosched-timerd": "cosched_daemons.timer",
    "cosched-controller": "cosched_daemons.controller",
    "cosched-agent": "cosched_daemons.agent",
}

#: The end of each command. A process of multiprocessing reads it again, as a module of
#: another name, before it does its own work.
MAIN = """

if __name__ == "__main__":
    run("{module}")
else:
    complete_path()
"""


def write_commands() -> list[str]:
    """Writes the commands below build/; returns their paths. cosched/start has their
    parts."""
    start, folder = Path("cosched/start"), Path("build/commands")
    folder.mkdir(parents=True, exist_ok=True)
    text = (start / "command.sh").read_text() + (start / "isolated.py").read_text()
    for name, module in COMMANDS.items():
        (folder / name).write_text(text + MAIN.format(module=module))
    return [f"{folder}/{name}" for name in COMMANDS]


setup(
    packages=[*find_packages(include=["cosched*", "mpi_shim*"]), "cosched_daemons"],
    package_dir={"cosched_daemons": "daemons"},
    scripts=[*write_commands(), "cosched/start/cosched-python"],
    cffi_modules=[
        "cosched/shm/_build.py:ffibuilder",
        "cosched/linux/native/_build.py:kick",
        "cosched/linux/native/_build.py:held_process",
        "cosched/cluster/agent/_build.py:hwloc",
        "cosched/cluster/pmi/_build.py:pmix",
    ],
)
