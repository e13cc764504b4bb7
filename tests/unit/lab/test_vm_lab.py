"""The lab of virtual machines: its plan, its configuration of Slurm, and bad input."""

import os
import socket
import textwrap
import threading
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.linux.namespaces import ProcessId
from scripts.vmlab import __main__ as cli
from scripts.vmlab import debian, lab, machine, opt, slurm
from scripts.vmlab.machine import Hardware, Nodes
from scripts.vmlab.plan import Shape, hosts_file, network_group, plan_guests
from scripts.vmlab.release import RELEASES, release_of
from scripts.vmlab.remote import Remote

ME = ProcessId.of(os.getpid())
BOOKWORM, TRIXIE = release_of("bookworm"), release_of("trixie")


def write_lab(folder, *processes):
    """Writes the state of a lab whose machines are these processes."""
    nodes = tuple(
        lab.NodeRecord(f"n{i}", f"10.78.0.{i}", 2000 + i, process)
        for i, process in enumerate(processes, 1)
    )
    folder.mkdir(exist_ok=True)
    written = lab.VmLab(folder, Shape(len(nodes)), nodes)
    lab.write_state(written)
    return written


def run(folder, *words):
    return cli.main(["--dir", str(folder), *words])


def test_nodes_have_names_addresses_and_hosts():
    guests = plan_guests(3)
    assert [guest.name for guest in guests] == ["n1", "n2", "n3"]
    assert len({guest.mac for guest in guests}) == 3
    assert "systemd.hostname=n2" in guests[1].kernel_options
    assert hosts_file(guests).splitlines() == [
        *("127.0.0.1\tlocalhost", "10.78.0.1\tn1", "10.78.0.2\tn2", "10.78.0.3\tn3"),
    ]


def test_labs_of_two_folders_have_networks_of_their_own():
    groups = {network_group(Path("/run", name)) for name in ("a", "b", "c")}
    assert len(groups) == 3
    for group in groups:
        address, port = group.split(":")
        assert address.startswith("239.78.")
        assert 20000 <= int(port) < 30000


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        (Shape(0), "0 nodes: a lab has 1 to 32"),
        (Shape(33), "33 nodes: a lab has 1 to 32"),
        (Shape(1, 0), "0 CPUs a node: give each at least 1"),
        (Shape(1, 1, 100), "100 MiB a node: Debian needs at least 512"),
        (
            Shape(1, release="sid"),
            "no release 'sid'; the releases are bookworm, trixie",
        ),
        (
            Shape(3),
            "3 nodes of 1024 MiB need 3522 MiB, and 3000 MiB are free: ask for fewer "
            "--nodes or less --memory",
        ),
    ],
)
def test_lab_that_cannot_be_is_one_line(shape, line):
    with pytest.raises(CoschedError) as error:
        shape.check(available_mib=3000)
    assert str(error.value) == line
    Shape(2).check(available_mib=3000)


def test_state_is_read_back(tmp_path):
    written = write_lab(tmp_path / "lab", ME, ME)
    assert lab.VmLab.load(tmp_path / "lab") == written


@pytest.mark.parametrize("words", [["status"], ["exec", "n1", "true"], ["slurm"]])
def test_missing_lab_is_one_line(tmp_path, capsys, words):
    assert run(tmp_path, *words) == 1
    assert capsys.readouterr().err == (
        f"scripts/vm-lab: no lab is up in {tmp_path}: run 'scripts/vm-lab up'\n"
    )


def test_unknown_node_and_stopped_machine_are_one_line(tmp_path, capsys):
    write_lab(tmp_path, ME, ME)
    assert run(tmp_path, "exec", "n9", "true") == 1
    write_lab(tmp_path, ME, ProcessId(1, 1))
    assert run(tmp_path, "status") == 1
    assert capsys.readouterr().err == (
        "scripts/vm-lab: no node 'n9'; the nodes are n1, n2\n"
        "scripts/vm-lab: the machine of n2 has stopped: run 'scripts/vm-lab down'\n"
    )


def test_damaged_state_is_one_line(tmp_path, capsys):
    (tmp_path / "lab.json").write_text("{}")
    assert run(tmp_path, "status") == 1
    assert capsys.readouterr().err == (
        f"scripts/vm-lab: {tmp_path}/lab.json is not the state of a lab; remove "
        f"{tmp_path}\n"
    )


def test_lab_needs_root(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for words in (["up"], ["down"], ["image"]):
        assert run(tmp_path, *words) == 1
        assert capsys.readouterr().err == (
            "scripts/vm-lab: images and virtual machines of the lab need root: use sudo\n"
        )


@pytest.fixture
def as_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
def test_second_lab_in_a_folder_is_one_line(tmp_path, capsys):
    write_lab(tmp_path, ME)
    assert run(tmp_path, "up", "--nodes", "1") == 1
    assert capsys.readouterr().err == (
        f"scripts/vm-lab: a lab is up already in {tmp_path}: run 'scripts/vm-lab down' "
        "first\n"
    )


@pytest.mark.usefixtures("as_root")
def test_missing_programs_are_one_line_and_leave_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/none")
    assert run(tmp_path / "lab", "up", "--nodes", "1", "--cache", str(tmp_path / "c")) == 1
    line = capsys.readouterr().err
    assert line.startswith("scripts/vm-lab: mmdebstrap, mkfs.ext4, qemu-system-x86_64, ssh")
    assert line.count("\n") == 1
    assert "apt-get install mmdebstrap e2fsprogs qemu-system-x86 openssh-client" in line
    assert not (tmp_path / "c").exists()


def test_missing_room_is_one_line(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 2**30})
    monkeypatch.setattr(debian.shutil, "disk_usage", lambda _folder: usage)
    with pytest.raises(CoschedError, match=r"needs 5 GiB in .*, and 1.0 GiB are free"):
        debian.require_room(tmp_path)


def test_failed_step_names_its_last_line(tmp_path):
    with pytest.raises(CoschedError) as error:
        debian.run(["sh", "-c", "echo one; echo two >&2; exit 3"], tmp_path / "log")
    assert str(error.value) == f"sh failed: two (see {tmp_path}/log)"


def test_down_without_a_lab(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run(tmp_path / "none", "down") == 0
    assert capsys.readouterr().out == "no lab was up\n"


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A copy of the files that the image brings in."""
    for file in debian.GUEST.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(debian, "GUEST", tmp_path)
    return tmp_path


def test_image_follows_its_files(guest):
    before = debian.fingerprint(TRIXIE)
    assert debian.fingerprint(TRIXIE) == before
    (guest / "packages").write_text("# of all\nsystemd-sysv\n")
    assert debian.fingerprint(TRIXIE) != before
    (guest / "packages.trixie").write_text("openmpi-bin\n")
    assert debian.packages(TRIXIE) == ["systemd-sysv", "openmpi-bin"]


def test_image_does_not_follow_packages_of_another_release(guest):
    before = debian.fingerprint(BOOKWORM)
    assert before != debian.fingerprint(TRIXIE)
    (guest / "packages.trixie").write_text("openmpi-bin\n")
    assert debian.fingerprint(BOOKWORM) == before


def test_image_of_another_release_stays_in_the_cache(tmp_path):
    names = ["debian-bookworm-1", "debian-trixie-1", "debian-0123456789abcdef", "opt-1"]
    for name in names:
        (tmp_path / name).mkdir()
    found = {old.name for old in debian.outdated(tmp_path, "debian", TRIXIE)}
    assert found == {"debian-trixie-1", "debian-0123456789abcdef"}


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_release_has_mirrors_and_packages_of_its_own(release):
    assert all(f" {release.suite}" in line for line in release.mirrors)
    assert f"--python-version={release.python}" in release.wheels
    command = debian.bootstrap(Path("/image"), release)
    assert command[-5:-3] == [release.suite, "/image"]
    (include,) = [word for word in command if word.startswith("--include=")]
    assert {"slurmd", "mpich"} <= set(include.removeprefix("--include=").split(","))


def test_wheels_are_for_the_python_and_the_c_library_of_the_release():
    assert "--platform=manylinux_2_36_x86_64" in BOOKWORM.wheels
    assert "--platform=manylinux_2_39_x86_64" in TRIXIE.wheels
    assert "--platform=manylinux_2_39_x86_64" not in BOOKWORM.wheels


@pytest.mark.usefixtures("as_root")
def test_unknown_release_is_one_line(tmp_path, capsys):
    assert run(tmp_path, "image", "--release", "sid") == 1
    assert capsys.readouterr().err == (
        "scripts/vm-lab: no release 'sid'; the releases are bookworm, trixie\n"
    )


def test_state_without_a_release_is_that_of_debian_12(tmp_path):
    (tmp_path / "lab.json").write_text('{"shape": {"nodes": 1}, "nodes": []}')
    assert lab.VmLab.load(tmp_path).shape == Shape(1, release="bookworm")


def test_disk_of_opt_has_the_working_tree_and_what_it_requires():
    files = opt.tree(*opt.PARTS, *opt.FILES)
    assert {"pyproject.toml", "cosched/__init__.py", "daemons/cosched.service"} <= set(
        files
    )
    assert not any(name.startswith("tests/") for name in files)
    needed = opt.requirements()
    assert any(name.startswith("setuptools") for name in needed)
    assert any(name.startswith("pyzmq") for name in needed)


def test_configuration_of_slurm_is_that_of_the_guide():
    text = slurm.slurm_conf(["n1", "n2"], cpus=1, memory_mib=1024)
    page = (debian.GUEST.parents[2] / "docs" / "cluster.md").read_text()
    for line in ("SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory"):
        assert line in text.splitlines()
        assert line in page
    assert "ProctrackType=proctrack/cgroup" in text
    assert "NodeName=n1,n2 CPUs=1 RealMemory=724" in text
    assert "OverSubscribe=FORCE:3" in text


def test_order_of_slurms_units_is_that_of_the_guide():
    guide = (opt.REPOSITORY / "docs/cluster.md").read_text()
    assert textwrap.indent(slurm.AFTER_SLURMDBD, "  ", str.strip) in guide


def test_command_reaches_a_node_with_its_words_kept():
    remote = Remote(Path("/lab"), "n1", 2201)
    argv = remote.argv(["sh", "-c", "echo 'a  b'"], "user")
    assert argv[-2:] == ["user@127.0.0.1", """sh -c 'echo '"'"'a  b'"'"''"""]
    assert "Port=2201" in argv


class Machines:
    """Nodes whose qemu is a sleep, and a node's report that the test sends."""

    def __init__(self, folder, monkeypatch, command=("sleep", "60")):
        self.folder = folder
        monkeypatch.setattr(Hardware, "command", lambda _self, _guest, _port: list(command))
        hardware = Hardware(Shape(1), debian.Image(folder), folder / "opt", folder)
        self.nodes = Nodes(hardware)
        self.process = self.nodes.start(plan_guests(1)[0], 0)

    def say(self, text):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(machine.ready(self.folder, "n1")))
            line.sendall(text.encode())

    def close(self):
        self.nodes.close()
        lab.end_processes(lambda: [p for p in [self.process] if p.alive()], 1)


@pytest.fixture
def machines(tmp_path, monkeypatch):
    made = Machines(tmp_path, monkeypatch)
    yield made
    made.close()


def test_wait_ends_when_each_node_is_up(machines):
    said = []
    sender = threading.Thread(target=machines.say, args=["running\r\n"])
    sender.start()
    machines.nodes.wait(10, said.append)
    sender.join()
    assert said == ["n1 is up"]


def test_node_that_comes_up_with_a_fault_is_one_line(machines):
    sender = threading.Thread(target=machines.say, args=["degraded: lab-node.service\n"])
    sender.start()
    with pytest.raises(CoschedError, match=r"^n1 came up with a fault: degraded: lab-node"):
        machines.nodes.wait(10, lambda _line: None)
    sender.join()


def test_node_that_does_not_come_up_is_one_line(machines):
    (machines.folder / "console.n1").write_text("booting\n\nKernel panic\n")
    with pytest.raises(CoschedError) as error:
        machines.nodes.wait(0.05, lambda _line: None)
    assert str(error.value) == (
        "n1 did not come up in time; the last lines of the console: booting | Kernel panic"
    )


def test_machine_that_ends_is_one_line(tmp_path, monkeypatch):
    made = Machines(tmp_path, monkeypatch, ("sh", "-c", "echo no such disk >&2; sleep 0.2"))
    try:
        with pytest.raises(CoschedError, match=r"^n1: its qemu ended: no such disk$"):
            made.nodes.wait(10, lambda _line: None)
    finally:
        made.close()
