"""Lists of host names in Slurm's notation."""

import pytest

from cosched.core.errors import CoschedError
from cosched.core.hostlist import expand_hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("lab[1-2]", "lab1 lab2"),
        ("n[1-3,7],login", "n1 n2 n3 n7 login"),
        ("n[08-10]", "n08 n09 n10"),
        ("r[1-2]n[1,3]-ib", "r1n1-ib r1n3-ib r2n1-ib r2n3-ib"),
    ],
)
def test_lists_are_expanded_in_their_order(text, names):
    assert expand_hosts(text) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a list of hosts such as n[1-3,7],n9"),
        ("n1,,n2", "'n1,,n2' is not a list of hosts such as n[1-3,7],n9"),
        ("n[1-2", "'n[1-2' is not a list of hosts such as n[1-3,7],n9"),
        ("n1 n2", "'n1 n2' is not a list of hosts such as n[1-3,7],n9"),
        ("n[1-x]", "'n[1-x]': '1-x' is not a number or a range"),
        ("n[]", "'n[]': '' is not a number or a range"),
        ("n[3-1]", "'n[3-1]': the range '3-1' has no end"),
        ("n[1-9999999]", "'n[1-9999999]': the range '1-9999999' has no end"),
        ("n[1-2],n2", "'n[1-2],n2' names n2 twice"),
        ("n[1-500000],n500000", "'n[1-500000],n500000' names n500000 twice"),
        ("n[1-2000][1-2000]", "'n[1-2000][1-2000]' names more than 1048576 hosts"),
    ],
)
def test_bad_lists_are_one_line(text, problem):
    with pytest.raises(CoschedError) as error:
        expand_hosts(text)
    assert str(error.value) == problem
