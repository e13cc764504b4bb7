"""Gives jobs CPUs of a node, alone or shared."""

import pytest

from cosched.core.cluster.startup.assignment import Inventory, Units
from cosched.core.errors import CoschedError

CPUS = {"slots": Units((0, 1), jobs=2)}


def units(inventory, job, tasks, uses):
    made = inventory.assign(job, tasks, {"slots": 1}, uses=uses)
    return [task["slots"][0] for task in made]


def test_two_jobs_alone_have_different_cpus():
    inventory = Inventory(CPUS)
    assert units(inventory, 1, 1, uses=2) == [0]
    assert units(inventory, 2, 1, uses=2) == [1]
    inventory.release(1)
    assert units(inventory, 3, 1, uses=2) == [0]


def test_jobs_that_share_keep_off_the_cpu_of_a_job_alone():
    inventory = Inventory(CPUS)
    assert units(inventory, 1, 1, uses=2) == [0]
    assert units(inventory, 2, 1, uses=1) == [1]
    assert units(inventory, 3, 1, uses=1) == [1]
    for job in (1, 2, 3):
        inventory.release(job)
    assert units(inventory, 4, 2, uses=1) == [0, 1]


def test_units_of_a_job_that_stands_still_are_lent():
    inventory = Inventory({"slots": Units((0, 1))})
    assert units(inventory, 1, 2, uses=1) == [0, 1]
    inventory.lend(1)
    inventory.lend(1)
    assert units(inventory, 2, 1, uses=1) == [0]
    inventory.take_back(1)
    inventory.take_back(1)
    with pytest.raises(CoschedError, match="needs 1 slots on this node, which has 0 free"):
        inventory.assign(3, 1, {"slots": 1})
    inventory.release(1)  # the borrower has outlived it
    assert units(inventory, 3, 1, uses=1) == [1]
    inventory.release(2)
    assert units(inventory, 4, 1, uses=1) == [0]


def test_job_that_ends_while_its_units_are_lent_frees_them_once():
    inventory = Inventory({"slots": Units((0, 1))})
    units(inventory, 1, 2, uses=1)
    inventory.lend(1)
    inventory.lend(9)
    assert units(inventory, 2, 2, uses=1) == [0, 1]
    inventory.release(1)
    with pytest.raises(CoschedError, match="which has 0 free"):
        inventory.assign(3, 1, {"slots": 1})
    inventory.release(2)
    assert units(inventory, 3, 2, uses=1) == [0, 1]
