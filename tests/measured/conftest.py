"""Tests of what measures times. They run one by one, while nothing else does."""

from tests.live.conftest import need_root, run_dir

__all__ = ["need_root", "run_dir"]
