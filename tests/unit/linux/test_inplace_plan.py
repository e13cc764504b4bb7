"""Which group is a job's class in place, and the weights of the levels: pure decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.linux.cgroups.inplace.choice import Refusal, choose
from cosched.linux.cgroups.inplace.job_groups import Group, job_group
from cosched.linux.cgroups.inplace.levels import (
    Part,
    Plan,
    find_levels,
    level_weights,
    make_plan,
    quota_us,
)
from cosched.linux.cgroups.shares import CPU_SHARES, CPU_WEIGHT, WeightScale

POD = "kubepods-burstable-pod2f1b7cd0_81f0_4b7e_8c0f_aa11bb22cc33.slice"
CONTAINER = "cri-containerd-" + 64 * "a" + ".scope"
HEX = 64 * "0"


def group(text: str) -> Group:
    return tuple(name for name in text.split("/") if name)


JOB_GROUPS = {
    "/slurm/uid_1000/job_7/step_0/task_0": "/slurm/uid_1000/job_7",
    "/slurm_n1/uid_1000/job_7/step_batch": "/slurm_n1/uid_1000/job_7",
    "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0": (
        "/system.slice/slurmstepd.scope/job_7"
    ),
    "/system.slice/n1_slurmstepd.scope/job_7/step_0": (
        "/system.slice/n1_slurmstepd.scope/job_7"
    ),
    f"/kubepods.slice/kubepods-burstable.slice/{POD}/{CONTAINER}": (
        f"/kubepods.slice/kubepods-burstable.slice/{POD}"
    ),
    f"/kubepods/burstable/pod2f1b7cd0-81f0-4b7e/{HEX}": (
        "/kubepods/burstable/pod2f1b7cd0-81f0-4b7e"
    ),
    f"/docker/{HEX}": f"/docker/{HEX}",
    f"/machine.slice/libpod-{HEX}.scope/container": f"/machine.slice/libpod-{HEX}.scope",
    f"/libpod_parent/libpod-{HEX}": f"/libpod_parent/libpod-{HEX}",
    "/user.slice/user-7.slice/user@7.service/app.slice/run-r1.scope": (
        "/user.slice/user-7.slice/user@7.service/app.slice/run-r1.scope"
    ),
    "/system.slice/run-u12.service": "/system.slice/run-u12.service",
}


@pytest.mark.parametrize(("path", "expected"), JOB_GROUPS.items())
def test_engine_group_of_job_is_recognised(path: str, expected: str) -> None:
    found = group(path)
    assert found[: job_group(found)] == group(expected)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/user.slice/user-7.slice/session-3.scope",
        "/system.slice/sshd.service",
        "/system.slice/slurmd.service",
        "/system.slice/slurmstepd.scope/system",
        "/init.scope",
        "/home/job_7",
        "/pod7/x",
    ],
)
def test_group_of_several_programs_is_no_job_group(path: str) -> None:
    assert job_group(group(path)) is None


SCOPE = "/system.slice/slurmstepd.scope"


def test_whole_engine_group_is_class() -> None:
    tasks = {
        1: ("a", group(f"{SCOPE}/job_7/step_0/user/task_0")),
        2: ("a", group(f"{SCOPE}/job_7/step_0/user/task_1")),
        3: ("b", group(f"{SCOPE}/job_8/step_0/user/task_0")),
    }
    seven, eight = group(f"{SCOPE}/job_7"), group(f"{SCOPE}/job_8")
    assert choose(tasks) == {1: seven, 2: seven, 3: eight}


def test_steps_of_one_batch_job_are_classes_of_their_own() -> None:
    tasks = {
        1: ("a", group(f"{SCOPE}/job_7/step_0/user/task_0")),
        2: ("b", group(f"{SCOPE}/job_7/step_1/user/task_0")),
    }
    assert choose(tasks) == {
        1: group(f"{SCOPE}/job_7/step_0"),
        2: group(f"{SCOPE}/job_7/step_1"),
    }


def test_shared_group_and_login_session_are_refused() -> None:
    tasks = {
        1: ("a", group(f"{SCOPE}/job_7/step_0")),
        2: ("b", group(f"{SCOPE}/job_7/step_0")),
        3: ("c", group("/user.slice/user-7.slice/session-3.scope")),
    }
    found = choose(tasks)
    assert found[1] == Refusal(f"{SCOPE}/job_7/step_0 also holds tasks of job b")
    assert isinstance(found[2], Refusal)
    assert found[3] == Refusal(
        "/user.slice/user-7.slice/session-3.scope is not a group of one job"
    )


def test_levels_are_where_paths_of_jobs_part() -> None:
    classes = {
        group("/slurm/uid_1/job_1"): "a",
        group("/slurm/uid_1/job_2"): "b",
        group("/slurm/uid_2/job_3"): "c",
    }
    assert find_levels(classes) == [
        (group("/slurm/uid_1"), group("/slurm/uid_2")),
        (group("/slurm/uid_1/job_1"), group("/slurm/uid_1/job_2")),
    ]
    # Ranks of one job do not compete with each other.
    assert find_levels({group("/docker/1"): "a", group("/docker/2"): "a"}) == []


def test_mixed_group_and_others_call_for_quotas() -> None:
    classes = {group("/user.slice/u1/s1.scope"): "a", group("/user.slice/u2/s2.scope"): "b"}
    u1, u2 = group("/user.slice/u1"), group("/user.slice/u2")
    assert make_plan(classes, (), {}) == Plan(((u1, u2),), {})
    plan = make_plan(classes, (u1,), {})
    assert plan == Plan(((u2,),), {"a": "/user.slice/u1 also holds other programs"})
    assert make_plan(classes, (), {"a": "c was moved"}).bounded == {"a": "c was moved"}


def part(job: str, percent: int | None, cpus: int = 4, members: int = 4) -> Part:
    return Part(job, frozenset(range(cpus)), members, members, percent)


def test_only_unscheduled_groups_lose_weight() -> None:
    level = (group("/s/job_1"), group("/s/job_2"))
    standing = {level[0]: 1024, level[1]: 512}
    parts = {level[0]: part("a", 99), level[1]: part("b", 1)}
    weights, heavy = level_weights(level, standing, parts, CPU_SHARES.low)
    assert weights == {level[0]: 1024, level[1]: 6}
    assert not heavy


def test_weight_of_version_2_is_too_coarse_for_one_task_beside_many() -> None:
    level = (group("/s/job_1"), group("/s/job_2"))
    standing = dict.fromkeys(level, 100)
    wide, narrow = part("a", 99, 64, 64), part("b", 1, 64, 1)
    parts = {level[0]: wide, level[1]: narrow}
    weights, heavy = level_weights(level, standing, parts, CPU_WEIGHT.low)
    assert weights[level[1]] == CPU_WEIGHT.low
    assert heavy == {"b"}
    assert quota_us(narrow, 100_000, strict=False) == 1_000


def test_quota_of_scheduled_job_is_strict_only() -> None:
    assert quota_us(part("a", 98), 100_000, strict=False) is None
    assert quota_us(part("a", 98), 100_000, strict=True) == 392_000
    assert quota_us(part("a", 100), 100_000, strict=True) is None
    assert quota_us(part("a", None), 100_000, strict=True) is None


# --- the whole tree, as the kernel divides it ---------------------------------------------


def fractions(
    parts: dict[Group, Part], standing: dict[Group, int], scale: WeightScale
) -> tuple[dict[Group, float], set[str]]:
    """Each class group's part of CPU 0 if all tasks spin and nothing else runs; the jobs
    that a quota bounds.

    A group's weight is divided among the CPUs on which it has runnable tasks, as the kernel
    does it, here evenly. A quota bounds a class to its time."""
    classes = {g: p.job for g, p in parts.items()}
    plan = make_plan(classes, (), {})
    weights, bounded = dict(standing), set(plan.bounded)
    for level in plan.levels:
        changed, heavy = level_weights(level, standing, parts, scale.low)
        weights |= changed
        bounded |= heavy
    found: dict[Group, float] = {}

    def divide(parent: Group, share: float) -> None:
        children = sorted(
            {g[: len(parent) + 1] for g in parts if g[: len(parent)] == parent}
        )
        on_cpu = {c: weights[c] / _busy(c, parts) for c in children}
        for child in children:
            got = share * on_cpu[child] / sum(on_cpu.values())
            if child not in parts:
                divide(child, got)
            elif parts[child].job in bounded and not parts[child].scheduled:
                found[child] = min(got, 0.01 * parts[child].unscheduled_width)
            else:
                found[child] = got

    divide((), 1.0)
    return found, bounded


def _busy(child: Group, parts: dict[Group, Part]) -> float:
    """The CPUs on which the group runs: all of its scheduled job, or one for each task."""
    inside = [p for g, p in parts.items() if g[: len(child)] == child]
    scheduled = [p for p in inside if p.scheduled]
    if scheduled:
        return max(len(p.cpus) for p in scheduled)
    return max(p.unscheduled_width for p in inside)


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[Group, Part], dict[Group, int], WeightScale]:
    """Up to six jobs of up to three users, one of them scheduled; Slurm's nesting."""
    scale = draw(st.sampled_from((CPU_SHARES, CPU_WEIGHT)))
    number = draw(st.integers(2, 6))
    scheduled = draw(st.integers(0, number - 1))
    cpus = frozenset(range(draw(st.sampled_from((1, 2, 4, 16)))))
    parts: dict[Group, Part] = {}
    for job in range(number):
        user = draw(st.integers(0, 2))
        members = draw(st.integers(1, len(cpus)))
        percent = 100 - (number - 1) if job == scheduled else 1
        name = ("slurm", f"uid_{user}", f"job_{job}")
        parts[name] = Part(f"j{job}", cpus, members, members, percent)
    groups = {g[:length] for g in parts for length in range(1, len(g) + 1)}
    weight = st.integers(scale.one_cpu // 2, scale.one_cpu * 2)
    standing = {g: draw(weight) for g in sorted(groups)}
    return parts, standing, scale


@given(trees())
def test_scheduled_job_gets_nearly_all_cpu_at_every_nesting(
    tree: tuple[dict[Group, Part], dict[Group, int], WeightScale],
) -> None:
    parts, standing, scale = tree
    got, bounded = fractions(parts, standing, scale)
    mine = next(g for g, p in parts.items() if p.scheduled)
    # Time that a bounded job leaves goes to the others, so count what it takes away. A
    # quota is not tied to a CPU: all of it may be used on this one.
    others = sum(share for g, share in got.items() if g != mine)
    weighed = sum(p.job not in bounded for p in parts.values() if not p.scheduled)
    quotas = sum(0.01 * p.members for p in parts.values() if p.job in bounded)
    assert others <= 0.02 * 1.1 * weighed + quotas


@given(trees())
def test_no_group_weighs_more_than_its_engine_gave_it(
    tree: tuple[dict[Group, Part], dict[Group, int], WeightScale],
) -> None:
    parts, standing, scale = tree
    plan = make_plan({g: p.job for g, p in parts.items()}, (), {})
    for level in plan.levels:
        weights, _ = level_weights(level, standing, parts, scale.low)
        for g, weight in weights.items():
            assert scale.low <= weight <= standing[g]
            inside = [p for c, p in parts.items() if c[: len(g)] == g]
            if any(p.scheduled for p in inside):
                assert weight == standing[g]
