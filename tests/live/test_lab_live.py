"""A real lab: namespaces, network, CPUs, processes, commands on its nodes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from cosched.lab import fabric, life
from cosched.lab.lab import Lab
from cosched.lab.plan import mark_prefix
from cosched.linux.namespaces import network_of, processes_inside
from tests.tools.commands import run_command

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(
        not shutil.which("nsenter") or not shutil.which("taskset"),
        reason="a lab needs util-linux",
    ),
]

COSCHED = (sys.executable, "-c", "from cosched.cli.main import main; main()", "lab")
PATIENCE_S = 120


def lab_command(run_dir, command, *words):
    return run_command("lab", command, "--run-dir", run_dir, *words)


def mark(run_dir):
    return mark_prefix(run_dir.resolve())


def assert_nothing_left(run_dir):
    """No process means no namespace: nothing else holds one here."""
    assert processes_inside(mark(run_dir), ()) == []
    assert not run_dir.exists()
    assert not list(Path("/dev/shm").glob(f"{mark(run_dir)}*"))
    assert not list(Path("/tmp").glob(f"{mark(run_dir)}*"))
    assert mark(run_dir) not in Path("/proc/self/mountinfo").read_text()


@contextlib.contextmanager
def swept(run_dir):
    try:
        yield run_dir
    finally:
        life.down(run_dir)


@pytest.fixture(scope="module")
def lab(tmp_path_factory, lab_size):
    """A lab to look at. Tests that harm theirs make their own."""
    with swept(tmp_path_factory.mktemp("lab") / "run") as run_dir:
        done = lab_command(run_dir, "up", *lab_size.words, "--no-daemons", "--json")
        assert done.returncode == 0, done.stderr
        loaded = Lab.load(run_dir)
        assert loaded is not None
        assert json.loads(done.stdout)["nodes"] == [
            {
                "name": node.name,
                "address": node.address,
                "cpus": list(node.cpus),
                "keeper_pid": node.keeper.pid,
            }
            for node in loaded.nodes
        ]
        yield loaded


@pytest.fixture
def run_dir(tmp_path):
    with swept(tmp_path / "run") as place:
        yield place
    assert_nothing_left(place)


def inside(lab, node, *command, **options):
    return subprocess.run(
        [*lab.enter_argv(node), *command],
        **{"capture_output": True, "text": True, "timeout": PATIENCE_S, **options},
        check=True,
    ).stdout


def start_inside(lab, node, code):
    process = subprocess.Popen(
        [*lab.enter_argv(node), sys.executable, "-c", code], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def python_inside(lab, node, code, *words):
    return json.loads(inside(lab, node, sys.executable, "-c", code, *words))


# --- what a node is -----------------------------------------------------------------


def test_lab_nodes_have_their_names(lab, lab_size):
    names = [inside(lab, node.name, "uname", "-n").strip() for node in lab.nodes]
    assert names == list(lab_size.names)


def test_lab_node_sees_only_its_interfaces_in_sysfs(lab):
    for node in lab.nodes:
        seen = python_inside(
            lab,
            node.name,
            "import json, os, socket\n"
            "print(json.dumps([sorted(os.listdir('/sys/class/net')),"
            " sorted(name for _, name in socket.if_nameindex())]))",
        )
        assert seen == [["eth0", "lo"]] * 2


def test_lab_leaves_machine_network_unchanged(lab, lab_size):
    names = {name for _, name in socket.if_nameindex()}
    assert not names & {*lab_size.names, "fabric0"}


def test_lab_nodes_have_their_cpus(lab):
    ask = "import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    cpus = [python_inside(lab, node.name, ask) for node in lab.nodes]
    assert cpus == [list(node.cpus) for node in lab.nodes]


@pytest.mark.own_cpus("the test checks that two nodes have no CPU in common")
def test_lab_nodes_have_disjoint_cpus(lab):
    assert not set(lab.nodes[0].cpus) & set(lab.nodes[1].cpus)
    assert not lab.shares_cpus


def test_lab_node_sees_machine_cgroup_tree(lab):
    assert Path("/sys/fs/cgroup").is_mount(), "this machine has no cgroups"
    code = (
        "import json, os\n"
        "print(json.dumps({p: os.stat(p).st_dev for p in sorted({"
        "l.split()[4] for l in open('/proc/self/mountinfo')"
        " if l.split()[4].startswith('/sys/fs/cgroup')})}))"
    )
    outside = json.loads(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    )
    assert python_inside(lab, "lab1", code) == outside


def test_lab_files_are_shared_with_machine(lab, tmp_path):
    (tmp_path / "a").write_text("")
    for place in (tmp_path, Path("/dev/shm"), Path("/run")):
        assert inside(lab, "lab1", "stat", "-c%d:%i", place) == (
            "{0.st_dev}:{0.st_ino}\n".format(place.stat())
        )


def test_lab_nodes_connect_over_tcp_by_name(lab):
    """A message each way, at once: the network is ready when the lab is."""
    server = (
        "import socket, sys\n"
        "with socket.create_server(('', 4321)) as s:\n"
        "    print('ready', flush=True)\n"
        "    for _ in range(int(sys.argv[1])):\n"
        "        peer, (address, _) = s.accept()\n"
        "        with peer:\n"
        "            peer.sendall(peer.recv(9) + address.encode())"
    )
    client = (
        "import json, socket\n"
        "with socket.create_connection(('lab1', 4321), 10) as s:\n"
        "    s.sendall(b'hello ')\n"
        "    s.shutdown(socket.SHUT_WR)\n"
        "    print(json.dumps(s.makefile().read()))"
    )
    others = lab.nodes[1:]
    with subprocess.Popen(
        [*lab.enter_argv("lab1"), sys.executable, "-c", server, str(len(others))],
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "ready\n"
        for number, node in enumerate(others, 2):
            assert python_inside(lab, node.name, client) == f"hello 10.77.0.{number}"
        assert serving.wait(PATIENCE_S) == 0


def test_lab_nodes_do_not_share_ports(lab):
    """All may listen on the same port, so that daemons need no numbers of their own."""
    code = (
        "import json, socket\n"
        "print(json.dumps(socket.create_server(('', 4322)).getsockname()))"
    )
    for node in lab.nodes:
        assert python_inside(lab, node.name, code) == ["0.0.0.0", 4322]


# --- exec ---------------------------------------------------------------------------


def test_exec_passes_streams_arguments_cwd_and_status(lab, lab_size, tmp_path):
    last = lab_size.last
    script = 'uname -n; pwd; cat; echo "$1" >&2; exit 7'
    command = [*COSCHED, "exec", "--run-dir", lab.run_dir, last]
    done = subprocess.run(
        [*command, "sh", "-c", script, "sh", "--help"],
        input="typed\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{last}\n{tmp_path}\ntyped\n", "--help\n")
    assert done.returncode == 7


def test_exec_signal_reaches_the_command(lab):
    with subprocess.Popen(
        [*COSCHED, "exec", "--run-dir", lab.run_dir, "lab1", "sh", "-c", "echo $$; read x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert int(running.stdout.readline()) == running.pid
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == -signal.SIGTERM


def test_exec_leaves_no_signal_ignored(lab):
    done = lab_command(lab.run_dir, "exec", "lab1", "grep", "SigIgn", "/proc/self/status")
    hangup = 1  # nohup ignores it, and whatever runs the tests may be under nohup
    assert int(done.stdout.split()[1], 16) | hangup == hangup


@pytest.mark.parametrize(
    ("words", "says", "status"),
    [
        (["lab999", "true"], "host 'lab999' is not in the lab; its nodes are {names}", 1),
        (["lab1"], "Missing CMD", 2),
        (["lab1", "/nonexistent"], "/nonexistent", 127),
    ],
)
def test_exec_bad_arguments_give_one_line(lab, lab_size, words, says, status):
    done = lab_command(lab.run_dir, "exec", *words)
    assert says.format(names=", ".join(lab_size.names)) in done.stderr
    assert (done.stderr.count("\n"), done.returncode) == (1, status)


def test_lab_agent_runs_commands_like_ssh(lab):
    for number, node in enumerate(lab.nodes[1:], 2):
        done = subprocess.run(
            [lab.agent, "-x", f"10.77.0.{number}", "uname", "-n;", "exit", "3"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.returncode) == (f"{node.name}\n", 3)


def test_lab_node_runs_command_on_other_node(lab):
    """As a launcher does that runs inside lab1."""
    for name in [node.name for node in lab.nodes[1:]]:
        assert inside(lab, "lab1", *lab.enter_argv(name), "uname", "-n") == f"{name}\n"
        assert inside(lab, "lab1", lab.agent, name, "uname", "-n") == f"{name}\n"


# --- refusals -----------------------------------------------------------------------


def test_lab_up_twice_is_refused(lab):
    done = lab_command(lab.run_dir, "up", "--nodes", "1", "--no-daemons")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is up already: run 'cosched lab down' first" in done.stderr
    assert Lab.load(lab.run_dir) == lab


def test_lab_beside_another_one_is_made_with_a_warning(lab, run_dir):
    done = lab_command(run_dir, "up", "--nodes", "2", "--no-daemons")
    assert done.returncode == 0
    assert "Another lab has some of these CPUs, too" in done.stderr


def test_lab_down_from_inside_is_refused(lab):
    done = lab_command(
        lab.run_dir, "exec", "lab1", *COSCHED, "down", "--run-dir", str(lab.run_dir)
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "this runs inside lab1" in done.stderr
    assert Lab.load(lab.run_dir) == lab


def test_lab_up_too_many_cores_leaves_nothing(run_dir):
    cores = len(os.sched_getaffinity(0))
    done = lab_command(run_dir, "up", "--nodes", "2", "--cores-per-node", str(cores))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"need {2 * cores} cores, and this machine gives {cores}" in done.stderr
    assert not run_dir.exists()


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv takes the right away")
def test_lab_up_without_namespace_right_gives_one_line(run_dir):
    command = [*COSCHED, "up", "--run-dir", run_dir, "--nodes", "1", "--no-daemons"]
    done = subprocess.run(
        ["setpriv", "--bounding-set", "-sys_admin", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot make namespaces: Operation not permitted" in done.stderr
    assert_nothing_left(run_dir)


def test_down_and_status_without_lab_succeed(run_dir):
    for command in ("down", "status"):
        done = lab_command(run_dir, command)
        assert done.returncode == 0
        assert "no lab is up" in done.stdout + done.stderr
    assert json.loads(lab_command(run_dir, "status", "--json").stdout) == {"nodes": []}
    assert lab_command(run_dir, "exec", "lab1", "true").returncode == 1


# --- links --------------------------------------------------------------------------

_RECEIVE = """
import json, socket
with socket.create_server(("", 7000)) as server:
    print("ready", flush=True)
    with server.accept()[0] as link:
        got = 0
        while block := link.recv(1 << 20):
            got += len(block)
        link.sendall(b"done")
    print(json.dumps(got))
"""
_SEND = """
import json, socket, sys, time
with socket.create_connection((sys.argv[1], 7000)) as link:
    begun = time.monotonic()
    for _ in range(64):
        link.sendall(bytes(10**6))
    link.shutdown(socket.SHUT_WR)
    assert link.recv(4) == b"done"
    print(json.dumps(time.monotonic() - begun))
"""
_SENT_BYTES = 64 * 10**6


def test_link_carries_no_more_than_its_rate(run_dir):
    """64 MB take 0.512 s at 1 Gbit/s; without a bucket it is a tenth of that."""
    done = lab_command(run_dir, "up", "--nodes", "2", "--no-daemons", "--rate", "1gbit")
    assert done.returncode == 0, done.stderr
    assert "links 1 Gbit/s\n" in lab_command(run_dir, "status").stdout
    shown = json.loads(lab_command(run_dir, "status", "--json").stdout)
    assert shown["rate_bits_per_s"] == 10**9
    lab = Lab.load(run_dir)
    assert lab is not None
    receiver = start_inside(lab, "lab2", _RECEIVE)
    took_s = python_inside(lab, "lab1", _SEND, lab.node("lab2").address)
    assert json.loads(receiver.communicate(timeout=PATIENCE_S)[0]) == _SENT_BYTES
    assert took_s >= (_SENT_BYTES - fabric.BURST_BYTES) * 8 / 10**9
    assert life.down(run_dir)
    assert_nothing_left(run_dir)


def test_every_node_has_the_bucket_that_tc_would_make(run_dir):
    lab = life.up(run_dir, 2, 1, daemons=False, rate=10**9)
    for node in lab.nodes:
        with network_of(node.keeper.pid), IPRoute() as inside:
            (index,) = inside.link_lookup(ifname="eth0")
            (bucket,) = inside.get_qdiscs(index)
            assert bucket.get_attr("TCA_KIND") == "tbf"
            found = bucket.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")
            assert (found["rate"], found["limit"]) == (125_000_000, 6_250_000 + (256 << 10))
    life.down(run_dir)
    assert_nothing_left(run_dir)


def test_lab_without_a_rate_says_so(run_dir):
    life.up(run_dir, 1, 1, daemons=False)
    assert "links without a limit\n" in lab_command(run_dir, "status").stdout
    shown = json.loads(lab_command(run_dir, "status", "--json").stdout)
    assert shown["rate_bits_per_s"] is None
    life.down(run_dir)


@pytest.mark.parametrize("rate", ["0gbit", "fast", "99gbit", "-1mbit", "1gb"])
def test_wrong_rate_is_one_line_and_makes_nothing(run_dir, rate):
    done = lab_command(run_dir, "up", "--nodes", "2", "--rate", rate)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"cosched: --rate: '{rate}' is ")
    assert_nothing_left(run_dir)
