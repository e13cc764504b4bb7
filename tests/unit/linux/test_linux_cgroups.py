"""Class schedulers over fake cgroup trees: both versions, and the ways they are mounted."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups import cgroup2, cgroupfs, freezer, groupclasses, top_weight
from cosched.linux.cgroups.groupclasses import GroupClasses
from cosched.linux.classes import ShareRefused
from cosched.linux.probe import attach, probe
from tests.unit.linux.fake_cgroups import SELF, FakeKernel

ONE = frozenset({0})
FOUR = frozenset(range(4))
UNIFIED = "/sys/fs/cgroup"
OWN = "user.slice/run-7.scope"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    return FakeKernel(tmp_path, monkeypatch)


def v1_separate(kernel: FakeKernel) -> Path:
    kernel.mount("cpuacct", "/sys/fs/cgroup/cpuacct")
    return kernel.mount("cpu", "/sys/fs/cgroup/cpu")


def v1_joint(kernel: FakeKernel) -> Path:
    return kernel.mount("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct")


def v2_root(kernel: FakeKernel) -> Path:
    return kernel.mount("cgroup2", UNIFIED)


def v2_delegated(kernel: FakeKernel) -> Path:
    mount = v2_root(kernel)
    for group in (mount, mount / "user.slice"):
        if group != mount:
            kernel.group(group)
        kernel.write(group / "cgroup.subtree_control", "+cpu")
    own = kernel.group(mount / OWN)
    kernel.place(SELF, own)
    return own


@pytest.fixture
def delegated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup2, "_is_delegated", lambda path: path.name == "run-7.scope")


KINDS = [v1_separate, v1_joint, v2_root, v2_delegated]
WEIGHT = {"cgroup1": "cpu.shares", "cgroup2": "cpu.weight"}
QUOTA = {"cgroup1": "cpu.cfs_quota_us", "cgroup2": "cpu.max"}
DEFAULT = {"cgroup1": 1024, "cgroup2": 100}
UNLIMITED = {"cgroup1": "-1", "cgroup2": "max"}


@pytest.fixture(params=KINDS, ids=lambda build: build.__name__)
def base(request: pytest.FixtureRequest, kernel: FakeKernel, delegated: None) -> Path:
    """Where classes belong in each kind of tree."""
    build: Callable[[FakeKernel], Path] = request.param
    return build(kernel)


def find(kernel: FakeKernel, mode: str = "proportional", tag: str = "n") -> GroupClasses:
    scheduler = probe(tag, mode=mode, root=kernel.root).scheduler
    assert isinstance(scheduler, GroupClasses)
    kernel.writes.clear()
    return scheduler


# --- every kind of tree -------------------------------------------------------------


def test_probe_leaves_nothing_behind(kernel: FakeKernel, base: Path) -> None:
    find(kernel)
    assert [path.name for path in base.iterdir() if path.is_dir()] == []
    if base.name == "run-7.scope":
        assert kernel.members(base) == [SELF]


def test_new_class_has_normal_shares(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", FOUR)
    classes.create("0.b", frozenset({3, 4}))
    top, normal = base / "cosched-n", DEFAULT[classes.name]
    assert kernel.value(top / "0.a" / WEIGHT[classes.name]) == str(4 * normal)
    assert kernel.value(top / "0.b" / WEIGHT[classes.name]) == str(2 * normal)
    # As one ordinary task on each of the five CPUs that the classes use.
    assert kernel.value(top / WEIGHT[classes.name]) == str(5 * normal)
    assert classes.cpu_ns("0.a") == 1_500_000


def test_weights_are_percent_times_cpus(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", FOUR)
    classes.create("0.b", ONE)
    classes.set_shares({"0.a": 1, "0.b": 99})
    top, name = base / "cosched-n", WEIGHT[classes.name]
    expected = {"cgroup1": ("2621", "64881"), "cgroup2": ("100", "2475")}[classes.name]
    assert (kernel.value(top / "0.a" / name), kernel.value(top / "0.b" / name)) == expected


@pytest.mark.parametrize("mode", ["proportional", "strict"])
def test_unscheduled_class_weighs_by_its_members(
    kernel: FakeKernel, base: Path, mode: str
) -> None:
    classes = find(kernel, mode=mode)
    name = (QUOTA if mode == "strict" else WEIGHT)[classes.name]
    for job in ("0.a", "0.b"):
        classes.create(job, FOUR)

    def add(pid: int) -> None:
        stat = kernel.root / f"proc/{kernel.spawn(pid)}/stat"
        stat.write_text(f"{pid} (rank) S 1 {'0 ' * 17}5 0\n")
        classes.add("0.a", pid)

    add(100)
    classes.set_shares({"0.a": 1, "0.b": 99})
    file = base / "cosched-n" / "0.a" / name

    def value() -> int:
        return int(kernel.value(file).split()[0])

    one = value()
    add(101)
    assert value() == pytest.approx(2 * one, abs=1)
    classes.set_shares({"0.a": 99, "0.b": 1})
    assert value() == pytest.approx(4 * 99 * one, rel=0.02)


def test_strict_mode_writes_quotas(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel, mode="strict")
    for job, cpus in (("0.a", FOUR), ("0.b", ONE), ("0.c", ONE)):
        classes.create(job, cpus)
    classes.set_shares({"0.a": 98, "0.b": 1, "0.c": 100})
    top, name = base / "cosched-n", QUOTA[classes.name]
    written = [kernel.value(top / job / name).split()[0] for job in ("0.a", "0.b", "0.c")]
    assert written == ["392000", "1000", UNLIMITED[classes.name]]


@pytest.mark.parametrize("mode", ["proportional", "strict"])
def test_switch_writes_changes_falling_shares_first(
    kernel: FakeKernel, base: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = find(kernel, mode=mode)
    jobs = ["0.a", "0.b", "0.c", "0.d"]
    for job in jobs:
        classes.create(job, ONE)
    classes.set_shares({"0.a": 1, "0.b": 97, "0.c": 1, "0.d": 1})
    written: list[int] = []
    pwrite = os.pwrite

    def spy(fd: int, text: bytes, offset: int) -> int:
        written.append(int(text.split()[0]))
        return pwrite(fd, text, offset)

    monkeypatch.setattr(os, "pwrite", spy)
    classes.set_shares({"0.a": 97, "0.b": 1, "0.c": 1, "0.d": 1})
    assert len(written) == 2
    assert written[0] < written[1]
    classes.set_shares({"0.a": 97})
    assert len(written) == 2


@pytest.mark.parametrize("mode", ["proportional", "strict"])
def test_refused_share_does_not_block_other_classes(
    kernel: FakeKernel, base: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = find(kernel, mode=mode)
    for job in ("0.a", "0.b", "0.c"):
        classes.create(job, ONE)
    classes.set_shares({"0.a": 98, "0.b": 1, "0.c": 1})
    name = (QUOTA if mode == "strict" else WEIGHT)[classes.name]
    files = {job: base / "cosched-n" / job / name for job in ("0.a", "0.b", "0.c")}
    before = {job: kernel.value(file) for job, file in files.items()}
    pwrite = os.pwrite

    def refuse(fd: int, text: bytes, offset: int) -> int:
        if Path(os.readlink(f"/proc/self/fd/{fd}")) == files["0.a"]:
            raise OSError(errno.ENODEV, "No such device")
        return pwrite(fd, text, offset)

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(ShareRefused, match=r"class 0\.a: .* was removed") as refused:
        classes.set_shares({"0.a": 1, "0.b": 98, "0.c": 1})
    assert refused.value.touched == ONE  # where the kernel should choose again
    after = {job: kernel.value(file) for job, file in files.items()}
    assert after["0.a"] == before["0.a"]
    assert after["0.b"] == before["0.a"]
    monkeypatch.setattr(os, "pwrite", pwrite)
    classes.set_shares({})
    assert kernel.value(files["0.a"]) == before["0.b"]


def test_class_without_top_weight_is_not_made(
    kernel: FakeKernel, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = find(kernel)

    def refuse(path: Path, text: str) -> None:
        if path.parent.name == "cosched-n" and path.name == WEIGHT[classes.name]:
            raise OSError(errno.EACCES, "Permission denied")
        kernel.write(path, text)

    monkeypatch.setattr(top_weight, "write", refuse)
    with pytest.raises(CoschedError, match="its weight cannot be set"):
        classes.create("0.a", ONE)
    with pytest.raises(CoschedError, match="does not exist"):
        classes.add("0.a", kernel.spawn(200))
    monkeypatch.setattr(top_weight, "write", kernel.write)
    classes.create("0.a", ONE)
    classes.add("0.a", 200)
    assert kernel.members(base / "cosched-n/0.a") == [200]


def test_tasks_return_to_their_origin(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    session = kernel.group(base.parent / base.name / "session")
    kernel.spawn(200)
    kernel.place(200, session)
    kernel.spawn(201)
    classes.create("0.a", ONE)
    classes.add("0.a", 200)
    classes.add("0.a", 201)
    job = base / "cosched-n/0.a"
    assert sorted(kernel.members(job)) == [200, 201]
    classes.remove("0.a", 200)
    assert kernel.members(session) == [200]
    classes.destroy("0.a")
    assert not job.exists()
    if base.name != "run-7.scope":
        assert 201 in kernel.members(base)


def test_origin_is_read_by_another_process(
    kernel: FakeKernel, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes: dict[str, bytes] = {}
    monkeypatch.setattr(
        os, "setxattr", lambda path, name, value: attributes.update({str(path): value})
    )
    monkeypatch.setattr(os, "getxattr", lambda path, _name: attributes[str(path)])
    session = kernel.group(base / "session")
    kernel.spawn(200)
    kernel.place(200, session)
    dead = find(kernel)
    dead.create("0.a", ONE)
    dead.add("0.a", 200)
    find(kernel).close()
    assert kernel.members(session) == [200]


def test_add_ignores_dead_process(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    classes.add("0.a", 4711)
    assert kernel.members(base / "cosched-n/0.a") == []
    classes.remove("0.a", 4711)
    classes.destroy("0.a")
    assert not (base / "cosched-n/0.a").exists()


def test_remove_ignores_process_in_another_group(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    kernel.spawn(200)
    kernel.writes.clear()
    classes.remove("0.a", 200)
    assert kernel.writes == []


def test_another_process_takes_over_classes(kernel: FakeKernel, base: Path) -> None:
    dead = find(kernel)
    kernel.spawn(200)
    dead.create("0.a", ONE)
    dead.create("0.b", ONE)
    dead.add("0.a", 200)
    dead.set_shares({"0.a": 1, "0.b": 99})
    classes = find(kernel, mode="strict")
    classes.create("0.a", ONE)
    assert kernel.members(base / "cosched-n/0.a") == [200]
    name = WEIGHT[classes.name]
    assert kernel.value(base / f"cosched-n/0.a/{name}") == str(DEFAULT[classes.name])
    classes.close()
    assert not (base / "cosched-n").exists()
    if base.name == "run-7.scope":
        assert SELF in kernel.members(base)


@pytest.mark.parametrize("mode", ["proportional", "strict"])
def test_guardian_restores_classes_found_on_disk(
    kernel: FakeKernel, base: Path, mode: str
) -> None:
    dead = find(kernel, mode=mode)
    kernel.spawn(200, affinity="0-3")
    dead.create("0.a", FOUR)
    dead.create("0.b", ONE)
    dead.add("0.a", 200)
    dead.set_shares({"0.a": 1, "0.b": 99})
    guardian = attach("n", dead.name, mode, kernel.root)
    for _ in range(2):
        guardian.restore({"0.a": {200: 1}})
        top, normal = base / "cosched-n", DEFAULT[dead.name]
        assert kernel.value(top / "0.a" / WEIGHT[dead.name]) == str(4 * normal)
        assert kernel.value(top / "0.b" / WEIGHT[dead.name]) == str(normal)
        assert kernel.value(top / WEIGHT[dead.name]) == str(5 * normal)
        for job in ("0.a", "0.b"):
            quota = kernel.value(top / job / QUOTA[dead.name])
            assert quota.split()[0] == UNLIMITED[dead.name]


def test_failed_restore_does_not_block_other_classes(
    kernel: FakeKernel, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = find(kernel)
    jobs = ["0.a", "0.b", "0.c"]
    for job in jobs:
        dead.create(job, ONE)
    dead.set_shares({"0.a": 1, "0.b": 1, "0.c": 98})
    name, top = WEIGHT[dead.name], base / "cosched-n"
    before = kernel.value(top / "0.a" / name)

    def refuse(path: Path, text: str) -> None:
        if path.parent.name == "0.a" and path.name == name:
            raise OSError(errno.EIO, "Input/output error")
        kernel.write(path, text)

    monkeypatch.setattr(groupclasses, "write", refuse)
    with pytest.raises(CoschedError, match=r"class 0\.a: .* refuses its share"):
        attach("n", dead.name, root=kernel.root).restore({})
    after = [kernel.value(top / job / name) for job in jobs]
    assert after == [before, *[str(DEFAULT[dead.name])] * 2]
    assert kernel.value(top / name) == str(3 * DEFAULT[dead.name])


def test_switch_after_restore_writes_all_shares(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    classes.create("0.b", ONE)
    percents = {"0.a": 1, "0.b": 99}
    classes.set_shares(percents)
    classes.restore({})
    top, name = base / "cosched-n", WEIGHT[classes.name]
    assert kernel.value(top / name) == str(2 * DEFAULT[classes.name])
    classes.set_shares(percents)
    assert int(kernel.value(top / "0.a" / name)) < int(kernel.value(top / "0.b" / name))
    assert kernel.value(top / name) == str(DEFAULT[classes.name])


def test_restore_without_classes_does_nothing(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.restore({"0.a": {200: 1}})
    assert kernel.writes == []


def test_process_moves_with_those_that_it_started(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    group = base / "cosched-n/0.a"
    for pid in (200, 201, 202, 203):
        kernel.spawn(pid)
        kernel.begin(pid)
    kernel.starts(200, 201, 202)
    kernel.starts(202, 203)
    classes.add("0.a", 200)
    assert set(kernel.members(group)) == {200, 201, 202, 203}
    writes = len(kernel.writes)
    classes.add("0.a", 202)
    assert len(kernel.writes) == writes, "it is in the class already"
    classes.remove("0.a", 200)
    assert set(kernel.members(group)) == {202, 203}, "another task of the job"


def test_destroy_gives_back_remaining_child(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    kernel.spawn(200)
    kernel.place(200, base / "cosched-n/0.a")
    classes.close()
    assert not (base / "cosched-n").exists()


def test_close_names_the_group_in_use(
    kernel: FakeKernel, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    kernel.group(base / "cosched-n/0.a/container")
    monkeypatch.setattr("cosched.linux.cgroups.leftovers._PATIENCE_S", 0.01)
    with pytest.raises(CoschedError, match=r"cosched-n/0\.a: still in use"):
        classes.close()


def test_failed_removal_does_not_block_other_classes(
    kernel: FakeKernel, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = find(kernel)
    jobs = {"0.a", "0.b", "0.c"}
    for job in jobs:
        classes.create(job, ONE)
    rmdir, refused = os.rmdir, []

    def refuse(path: Path) -> None:
        """Whichever comes first, from then on."""
        if path.name in jobs and not refused:
            refused.append(path.name)
        if path.name in refused:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        rmdir(path)

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(CoschedError, match=r"cannot be removed: .*: Permission denied"):
        classes.close()
    assert {path.name for path in (base / "cosched-n").glob("0.*")} == {*refused}


def test_group_in_use_is_removed_later(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    inside = kernel.group(base / "cosched-n/0.a/dying")
    classes.destroy("0.a")
    assert (base / "cosched-n/0.a").exists()
    os.rmdir(inside)
    classes.create("0.b", ONE)
    classes.destroy("0.b")
    assert not (base / "cosched-n/0.a").exists()


def test_two_tags_have_separate_groups(kernel: FakeKernel, base: Path) -> None:
    first, second = find(kernel, tag="n1"), find(kernel, tag="n2")
    first.create("0.a", ONE)
    second.create("0.a", ONE)
    first.close()
    assert (base / "cosched-n2/0.a").exists()
    second.close()
    assert [path.name for path in base.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    "job", ["", "../x", "a/b", ".hidden", "cpu.shares", "cgroup.procs"]
)
def test_bad_job_keys_are_refused(kernel: FakeKernel, base: Path, job: str) -> None:
    with pytest.raises(CoschedError, match="not usable as a file name"):
        find(kernel).create(job, ONE)


def test_share_of_unknown_class_is_skipped(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)
    classes.set_shares({"0.a": 99, "0.b": 1})
    top, name = base / "cosched-n", WEIGHT[classes.name]
    alone = kernel.value(top / "0.a" / name)
    classes.create("0.b", ONE)
    classes.set_shares({"0.a": 1, "0.b": 99})
    assert kernel.value(top / "0.b" / name) == alone


def test_unknown_class_is_an_error(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    with pytest.raises(CoschedError, match="does not exist"):
        classes.add("0.a", SELF)
    assert classes.cpu_ns("0.a") is None
    classes.destroy("0.a")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "may not be moved"),
        (errno.EINVAL, "real-time"),
        (errno.EIO, "cannot"),
    ],
)
def test_refused_move_gives_the_reason(
    kernel: FakeKernel,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    words: str,
) -> None:
    classes = find(kernel)
    classes.create("0.a", ONE)

    def refuse(path: Path, text: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cgroupfs, "write", refuse)
    with pytest.raises(CoschedError, match=words):
        classes.add("0.a", SELF)


def test_new_cpus_count_from_the_next_switch(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    for job in ("0.a", "0.b"):
        classes.create(job, ONE)
    classes.set_shares({"0.a": 50, "0.b": 50})
    files = [base / "cosched-n" / job / WEIGHT[classes.name] for job in ("0.a", "0.b")]
    a, b = (int(kernel.value(file)) for file in files)
    assert a == b
    classes.create("0.a", FOUR)
    # The other one keeps its percent, beside a class that is wider now.
    classes.set_shares({"0.a": 50})
    a, b = (int(kernel.value(file)) for file in files)
    assert a == 4 * b


# --- what differs: mounts, versions -------------------------------------------------


Build = Callable[[FakeKernel], object]


def reasons(kernel: FakeKernel, want: str, mode: str = "proportional") -> str:
    with pytest.raises(CoschedError) as caught:
        probe("n", want=want, mode=mode, root=kernel.root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_probe_prefers_version_2(kernel: FakeKernel) -> None:
    v1_joint(kernel)
    kernel.mount("cgroup2", "/sys/fs/cgroup/unified")
    found = probe("n", root=kernel.root)
    assert found.scheduler.name == "cgroup2"
    assert probe("n", want="cgroup1", root=kernel.root).scheduler.name == "cgroup1"


def test_probe_on_hybrid_uses_hierarchy_with_cpu(kernel: FakeKernel) -> None:
    v1_joint(kernel)
    unified = kernel.mount("cgroup2", "/sys/fs/cgroup/unified")
    (unified / "cgroup.controllers").write_text("hugetlb\n")
    found = probe("n", root=kernel.root)
    assert found.scheduler.name == "cgroup1"
    (no, why_not), (yes, why) = found.tried
    assert (no, yes) == ("cgroup2", "cgroup1")
    assert "not among" in why_not
    assert "hugetlb" in why_not
    assert "cosched-n" in why


def test_probe_without_cgroups_chooses_duty_cycle(kernel: FakeKernel) -> None:
    found = probe("n", root=kernel.root)
    assert found.scheduler.name == "dutycycle"
    assert [name for name, _ in found.tried] == ["cgroup2", "cgroup1", "dutycycle"]
    assert "not mounted" in reasons(kernel, "cgroup2")
    assert "no cgroup v1" in reasons(kernel, "cgroup1")


@pytest.mark.parametrize(("kind", "want"), [("cpu", "cgroup1"), ("cgroup2", "cgroup2")])
def test_probe_skips_read_only_mounts(kernel: FakeKernel, kind: str, want: str) -> None:
    kernel.mount(kind, "/sys/fs/cgroup/x", options="ro,nosuid")
    assert "read-only" in reasons(kernel, want)


@pytest.mark.parametrize(
    ("build", "want", "missing"),
    [(v1_joint, "cgroup1", "cpu.cfs_quota_us"), (v2_root, "cgroup2", "cpu.max")],
)
def test_probe_without_quotas_refuses_strict_mode(
    kernel: FakeKernel, build: Build, want: str, missing: str
) -> None:
    kernel.without.add(missing)
    build(kernel)
    assert missing in reasons(kernel, want, mode="strict")
    assert probe("n", want=want, root=kernel.root).scheduler.name == want


def test_version_1_without_accounting(kernel: FakeKernel) -> None:
    kernel.mount("cpu", "/sys/fs/cgroup/cpu")
    classes = find(kernel)
    classes.create("0.a", ONE)
    assert classes.cpu_ns("0.a") is None
    classes.close()


def test_version_1_uses_group_of_this_process(kernel: FakeKernel) -> None:
    mount = kernel.mount("cpu,cpuacct", "/cg", shows="/docker/1")
    (kernel.root / f"proc/{SELF}/cgroup").write_text("4:cpu,cpuacct:/docker/1\n")
    classes = find(kernel)
    assert classes.where() == str(mount / "cosched-n")


def test_later_mount_hides_earlier_mounts(kernel: FakeKernel) -> None:
    v1_joint(kernel)
    with (kernel.root / "proc/self/mountinfo").open("a") as mountinfo:
        mountinfo.write("31 22 0:9 / /sys rw - sysfs sysfs rw\n")
    assert "no cgroup v1" in reasons(kernel, "cgroup1")


def test_missing_mount_point_gives_the_reason(kernel: FakeKernel) -> None:
    (kernel.root / "proc/self/mountinfo").write_text(
        "30 22 0:9 / /cpu rw - cgroup cgroup rw,cpu\n"
    )
    assert "is mounted but missing" in reasons(kernel, "cgroup1")
    with pytest.raises(CoschedError, match="is mounted but missing"):
        attach("n", "cgroup1", root=kernel.root)


def test_mount_points_are_unescaped(kernel: FakeKernel) -> None:
    kernel.mount("cpu", "/with space")
    mountinfo = kernel.root / "proc/self/mountinfo"
    mountinfo.write_text(mountinfo.read_text().replace("/with space", "/with\\040space"))
    assert find(kernel).where().endswith("/with space/cosched-n")


@pytest.mark.usefixtures("delegated")
def test_processes_of_delegated_group_move_to_leaf(kernel: FakeKernel) -> None:
    own = v2_delegated(kernel)
    kernel.spawn(200)
    kernel.place(200, own)
    classes = find(kernel)
    classes.create("0.a", ONE)
    assert kernel.members(own) == []
    assert sorted(kernel.members(own / "cosched.rest")) == [SELF, 200]
    # From the leaf too, the own group is still the place for classes.
    again = find(kernel)
    assert again.where() == classes.where()
    classes.add("0.a", 200)
    classes.remove("0.a", 200)
    classes.close()
    assert sorted(kernel.members(own)) == [SELF, 200]


@pytest.mark.usefixtures("delegated")
def test_next_daemon_can_start_in_the_group_of_its_unit(kernel: FakeKernel) -> None:
    own = v2_delegated(kernel)
    dead = find(kernel)
    kernel.spawn(200)
    dead.create("0.a", ONE)
    dead.add("0.a", 200)
    # systemd starts the next daemon in the unit's own group.
    kernel.spawn(300)
    with pytest.raises(OSError, match="busy"):
        kernel.place(300, own)
    # Another command of the unit runs in a leaf of its own.
    kernel.place(SELF, kernel.group(own / ".control"))
    attach("n", "cgroup2", root=kernel.root).vacate()
    kernel.place(300, own)
    assert kernel.members(own / "cosched-n/0.a") == [200]
    # The next daemon gives the class shares again.
    kernel.place(SELF, own)
    next_one = find(kernel)
    next_one.create("0.a", ONE)
    next_one.add("0.a", 200)
    next_one.set_shares({"0.a": 99})
    assert kernel.value(own / "cosched-n/0.a/cpu.weight") == "9900"
    assert kernel.members(own) == []
    assert {SELF, 300} <= set(kernel.members(own / "cosched.rest"))


def test_all_kinds_of_classes_can_be_vacated(kernel: FakeKernel, base: Path) -> None:
    classes = find(kernel)
    kernel.spawn(200)
    classes.create("0.a", ONE)
    classes.add("0.a", 200)
    classes.vacate()
    classes.vacate()  # also without shares
    assert 200 in kernel.members(base / "cosched-n/0.a")
    classes.create("0.b", ONE)
    classes.set_shares({"0.b": 99})
    assert (base / "cosched-n/0.b" / WEIGHT[classes.name]).exists()


@pytest.mark.usefixtures("delegated")
def test_vacating_names_the_group_that_refuses(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = v2_delegated(kernel)
    classes = find(kernel)
    classes.create("0.a", ONE)

    def refuse(path: Path, text: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(cgroup2, "write", refuse)
    with pytest.raises(CoschedError, match=f"{own}: takes no daemon while these jobs run"):
        classes.vacate()


@pytest.mark.usefixtures("delegated")
def test_place_with_existing_classes_comes_first(kernel: FakeKernel) -> None:
    v2_delegated(kernel)
    mount = kernel.root / UNIFIED.lstrip("/")
    kernel.group(mount / "cosched-n/0.a")
    assert find(kernel).where() == str(mount / "cosched-n")


def test_bad_names_are_refused(kernel: FakeKernel) -> None:
    assert "must be one of auto, cgroup2" in reasons(kernel, "cgroup3")
    assert "proportional or strict" in reasons(kernel, "auto", mode="lax")
    with pytest.raises(CoschedError, match="name one of"):
        attach("n", "auto", root=kernel.root)


# --- suspension -----------------------------------------------------------------------


def test_version_2_freezes_the_group(kernel: FakeKernel) -> None:
    base = v2_root(kernel)
    classes = find(kernel)
    classes.create("0.a", ONE)
    frozen = base / "cosched-n/0.a/cgroup.freeze"
    classes.freeze("0.a")
    assert kernel.value(frozen) == "1"
    classes.thaw("0.a")
    assert kernel.value(frozen) == "0"
    with pytest.raises(CoschedError, match=r"0\.z"):
        classes.freeze("0.z")


def test_version_1_stops_members_by_signal(tmp_path: Path) -> None:
    processes = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(3)]
    try:
        inside, outside = processes[:2], processes[2]
        listed = "".join(f"{process.pid}\n" for process in inside)
        (tmp_path / "cgroup.procs").write_text(listed)
        freezer.freeze(tmp_path)
        for process in inside:
            assert os.waitid(os.P_PID, process.pid, os.WSTOPPED).si_status == signal.SIGSTOP
        assert proc.state(outside.pid) != "T"
        freezer.thaw(tmp_path)
        for process in inside:
            assert os.waitid(os.P_PID, process.pid, os.WCONTINUED) is not None
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_removed_process_continues_reused_pid_does_not(tmp_path: Path) -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        start = proc.start_ticks(process.pid)
        assert start is not None
        freezer.thaw_removed(tmp_path, process.pid, start + 1)
        seen = os.WCONTINUED | os.WNOHANG
        assert os.waitid(os.P_PID, process.pid, seen) is None
        freezer.thaw_removed(tmp_path, process.pid, start)
        assert os.waitid(os.P_PID, process.pid, os.WCONTINUED) is not None
    finally:
        process.kill()
        process.communicate()


def test_remove_from_frozen_class_thaws_added_process(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = v1_joint(kernel)
    classes = find(kernel)
    kernel.spawn(200)
    kernel.spawn(201)
    starts = {200: 7, 201: 8}
    monkeypatch.setattr(proc, "start_ticks", lambda pid, _root=None: starts.get(pid))
    thawed: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(freezer, "freeze", lambda _group: None)
    monkeypatch.setattr(freezer, "thaw_removed", lambda *removed: thawed.append(removed))
    classes.create("0.a", ONE)
    classes.add("0.a", 200, 7)
    classes.add("0.a", 201)
    classes.freeze("0.a")
    starts[200] = 9  # it has ended, and another has its number
    for pid in (200, 201, 202):
        classes.remove("0.a", pid)
    job = base / "cosched-n/0.a"
    assert thawed == [(job, 200, 7), (job, 201, 8)]
