"""The one thing pyproject.toml cannot say: build the cffi modules."""

from setuptools import setup

setup(
    cffi_modules=[
        "cosched/shm/_build.py:ffibuilder",
        "cosched/linux/_build.py:ffibuilder",
    ]
)
