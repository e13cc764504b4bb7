"""How long a steward may take to end."""

from cosched.core.cluster.startup.ends import (
    WORK_S,
    Awaited,
    Check,
    EndLimit,
    end_limit_s,
)


def test_the_tasks_get_their_grace_and_more():
    assert end_limit_s(10.0) > 10.0
    assert EndLimit().order(10.0) == Check(end_limit_s(10.0), Awaited.TASKS)


def test_a_second_order_gives_no_more_time():
    limit = EndLimit()
    limit.order(10.0)
    assert limit.order(10.0) is None


def test_a_steward_without_an_order_may_write_as_long_as_it_likes():
    assert EndLimit().close() is None


def test_a_steward_that_is_closed_first_has_to_be_gone_itself():
    limit = EndLimit()
    limit.close()
    assert limit.order(1.0) == Check(end_limit_s(1.0), Awaited.STEWARD)


def test_the_end_of_the_steward_is_awaited_from_its_closing():
    limit = EndLimit()
    limit.order(1.0)
    assert [limit.close(), limit.close()] == [Check(WORK_S, Awaited.STEWARD), None]
