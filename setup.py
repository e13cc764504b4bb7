"""The one thing pyproject.toml cannot say: build the cffi module."""

from setuptools import setup

setup(cffi_modules=["cosched/shm/_build.py:ffibuilder"])
