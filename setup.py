"""Adds to pyproject.toml the two things that it cannot express: found packages beside a
renamed one, and the cffi modules."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["cosched*", "mpi_shim*"]), "cosched_daemons"],
    package_dir={"cosched_daemons": "daemons"},
    cffi_modules=[
        "cosched/shm/_build.py:ffibuilder",
        "cosched/linux/native/_build.py:kick",
        "cosched/linux/native/_build.py:gate",
    ],
)
