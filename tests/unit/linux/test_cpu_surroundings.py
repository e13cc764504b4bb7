"""Divides nodes by fake /sys trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.node.division import CpuSurroundings, Division, divide, format_cpus
from cosched.linux.cpu_surroundings import read_cpu_surroundings, read_division


def write_tree(root, cpus, l3=None, package=None, core=None):
    """l3, package, core: the number of CPUs that share one; None: files are missing."""
    for cpu in range(cpus):
        here = root / f"sys/devices/system/cpu/cpu{cpu}"
        (here / "topology").mkdir(parents=True)
        for index, (level, shared) in enumerate(((1, core or 1), (3, l3))):
            if shared:
                first = cpu // shared * shared
                cache = here / f"cache/index{index}"
                cache.mkdir(parents=True)
                (cache / "level").write_text(f"{level}\n")
                (cache / "shared_cpu_list").write_text(f"{first}-{first + shared - 1}\n")
        if package:
            (here / "topology/physical_package_id").write_text(f"{cpu // package}\n")
        if core:
            first = cpu // core * core
            siblings = f"{first}-{first + core - 1}\n"
            (here / "topology/thread_siblings_list").write_text(siblings)
    return root


@pytest.mark.parametrize(
    ("tree", "parts", "why"),
    [
        ({"cpus": 8, "l3": 4, "package": 8}, ((0, 1, 2, 3), (4, 5, 6, 7)), "by L3 cache"),
        ({"cpus": 8, "l3": 2, "package": 8}, ((0, 1, 2, 3), (4, 5, 6, 7)), "by L3 cache"),
        ({"cpus": 4, "package": 2}, ((0, 1), (2, 3)), "by socket"),
        (
            {"cpus": 4, "l3": 4, "package": 4},
            ((0, 1), (2, 3)),
            "by count: one L3 cache only, one socket only",
        ),
        ({"cpus": 3}, ((0,), (1, 2)), "by count: no L3 cache is known, no socket is known"),
        (
            {"cpus": 6, "l3": 6, "package": 6, "core": 2},
            ((0, 1), (2, 3, 4, 5)),
            "by count: one L3 cache only, one socket only",
        ),
        (
            {"cpus": 2, "l3": 2, "package": 2, "core": 2},
            ((0,), (1,)),
            "by count: one L3 cache only, one socket only",
        ),
        (
            {"cpus": 6, "l3": 2, "package": 3},
            ((0, 1, 2), (3, 4, 5)),
            "by socket",
        ),
    ],
)
def test_node_is_divided_by_its_hardware(tmp_path, tree, parts, why):
    write_tree(tmp_path, **tree)
    found = read_division(range(tree["cpus"]), root=tmp_path)
    assert (found.parts, found.why) == (parts, why)


def test_only_cpus_that_the_node_may_use_count(tmp_path):
    write_tree(tmp_path, 8, l3=4, package=8)
    assert read_division((2, 3, 4, 5), root=tmp_path).parts == ((2, 3), (4, 5))
    # Three CPUs of one cache and one of the other: no equal parts.
    found = read_division((1, 2, 3, 4), root=tmp_path)
    assert found.parts == ((1, 2), (3, 4))
    assert found.why.startswith("by count: L3 caches give no equal parts")


@pytest.mark.parametrize("text", ["", "many", "0-", "-1", "9" * 40])
def test_unreadable_topology_is_divided_by_count(tmp_path, text):
    write_tree(tmp_path, 4, l3=2, package=2, core=1)
    for cpu in range(4):
        here = tmp_path / f"sys/devices/system/cpu/cpu{cpu}"
        (here / "cache/index1/shared_cpu_list").write_text(text)
        (here / "topology/physical_package_id").write_text("-1\n")
        (here / "topology/thread_siblings_list").write_text(text)
    found = read_division(range(4), root=tmp_path)
    assert found.parts == ((0, 1), (2, 3))
    assert found.why.startswith("by count: no L3 cache is known")


def test_node_with_fewer_cpus_than_parts_is_not_divided(tmp_path):
    with pytest.raises(CoschedError) as caught:
        read_division((3,), root=tmp_path)
    assert str(caught.value) == (
        "too few CPUs (1) for 2 parts; write parts = 1 into [symbiosis] of domain.toml"
    )


def test_slots_follow_the_cpus_of_a_part():
    division = Division(((0, 1), (2, 3)), "by count")
    assert division.slots(range(4), 4) == ((0, 1), (2, 3))
    assert division.slots(range(4), 6) == ((0, 1, 4, 5), (2, 3))
    with pytest.raises(CoschedError, match=r"too few slots \(2\) for 2 parts; raise"):
        division.slots(range(4), 2)


@pytest.mark.parametrize(
    ("cpus", "text"), [((0,), "0"), ((3, 0, 1, 2, 8), "0-3,8"), ((), ""), ((5, 7), "5,7")]
)
def test_cpus_as_the_kernel_writes_them(cpus, text):
    assert format_cpus(cpus) == text


def test_this_machine_is_readable():
    for one in read_cpu_surroundings(range(1)).values():
        assert not one.package or 0 in one.package


@given(st.data())
def test_parts_are_disjoint_and_have_all_cpus(data):
    cpus = data.draw(st.sets(st.integers(0, 31), min_size=2, max_size=20))
    sizes = st.integers(1, 8)
    widths = data.draw(st.tuples(sizes, sizes, sizes))

    def together(cpu, width):
        return frozenset(range(cpu // width * width, (cpu // width + 1) * width))

    around = {
        cpu: CpuSurroundings(*(together(cpu, width) for width in widths)) for cpu in cpus
    }
    for parts in range(1, len(cpus) + 1):
        found = divide(cpus, around, parts).parts
        assert len(found) == parts
        assert all(found)
        assert sorted(cpu for part in found for cpu in part) == sorted(cpus)
