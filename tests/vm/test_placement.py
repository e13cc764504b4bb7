"""The live tests of classes in place, where the kernel has nothing but cgroup v2."""

from __future__ import annotations

import pytest

from tests.live.conftest import node, run_dir
from tests.live.test_placement_live import (
    engine,
    test_foreign_task_in_group_moves_nothing,
    test_groups_are_given_back_after_a_crash,
    test_suspended_job_stops_in_place,
    test_two_users_jobs_are_steered_in_their_engines_groups,
    test_user_does_not_leave_limits_by_registering,
    test_vanished_group_and_task_that_leaves_are_one_line_each,
)

__all__ = [
    "engine",
    "node",
    "run_dir",
    "test_foreign_task_in_group_moves_nothing",
    "test_groups_are_given_back_after_a_crash",
    "test_suspended_job_stops_in_place",
    "test_two_users_jobs_are_steered_in_their_engines_groups",
    "test_user_does_not_leave_limits_by_registering",
    "test_vanished_group_and_task_that_leaves_are_one_line_each",
]

pytestmark = pytest.mark.vm
