"""Gives jobs CPUs of a node, alone or shared."""

from cosched.core.cluster.startup.assignment import Inventory, Units

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
