"""Live daemons with a configuration: the operator's limits, metrics, settings that are
changed and saved."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.sockets.client import request
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.live.conftest import TOOLS, eventually
from tests.places import ROOT
from tests.tools.commands import run_command
from tests.tools.ports import free_address

pytestmark = pytest.mark.live

NOBODY = 65534
#: A daemon whose operator's file is another one than this machine's.
DAEMON = """\
import sys
from pathlib import Path
from cosched.config import config_files
config_files.OPERATOR_FILE = Path(sys.argv.pop(1))
from cosched_daemons.scheduler import main
main()
"""


def as_user(user):
    """Returns the words that run a command as another user who can read this Python."""
    if not user:
        return ()
    caps = "+dac_read_search"
    return (
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
        *(f"--inh-caps={caps}", f"--ambient-caps={caps}"),
    )


@pytest.fixture
def open_dir(run_dir):
    """The run directory, which others may enter."""
    run_dir.chmod(0o755)
    return run_dir


@contextmanager
def daemon(run_dir, limits, *options, user=None):
    """A daemon under this operator's file; its first line."""
    operator = run_dir / "operator.toml"
    operator.write_text(limits)
    environ = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CONFIG_HOME")}
    process = subprocess.Popen(
        [
            *as_user(user),
            *(sys.executable, "-c", DAEMON, str(operator)),
            *("--run-dir", str(run_dir), "--node", "node1", *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        env=environ,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def task_of(user, run_dir, job):
    """A stand-in task of a user: its error number and the daemon's reason."""
    process = subprocess.Popen(
        [
            *as_user(user),
            *(sys.executable, str(TOOLS / "task.py")),
            *(str(NodePaths(run_dir, "node1").register_socket), job),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=str(ROOT),
    )
    try:
        error, _, reason = process.stdout.readline().strip().partition(" ")
        yield int(error), reason
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_limits_bind_users_but_not_root(open_dir):
    with daemon(open_dir, "[limits]\njobs_per_user = 1\n") as greeting:
        assert greeting.startswith("READY")
        with task_of(NOBODY, open_dir, "one") as first:
            assert first == (0, "")
            with task_of(NOBODY, open_dir, "one") as another_of_it:
                assert another_of_it == (0, "")
            with task_of(NOBODY, open_dir, "two") as (error, reason):
                assert error < 0
                assert reason == "1 jobs of yours run here; more are not allowed at once"
            with task_of(0, open_dir, "a") as (a, _), task_of(0, open_dir, "b") as (b, _):
                assert (a, b) == (0, 0)


def test_forbidden_carrier_is_refused(open_dir):
    with daemon(open_dir, '[limits]\ncarriers = ["shadow"]\n') as greeting:
        assert greeting.startswith("READY")
        with task_of(NOBODY, open_dir, "one") as (error, reason):
            assert error < 0
            assert "carrier 'prefix' is not allowed here: use shadow" in reason


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("[limits]\nprivate_daemons = false\n", "users' own daemons are not allowed"),
        ('[limits]\nslice_max = "3s"\n', "slice 5s is not allowed here: the most is 3s"),
        ("[limits]\nslice_mix = 3\n", "operator.toml:2: limits.slice_mix: no such key"),
    ],
)
def test_private_daemons_report_forbidden_settings(open_dir, limits, words):
    options = ("--slice", "5s", "--class-scheduler", "dutycycle")
    with daemon(open_dir, limits, *options, user=NOBODY) as said:
        assert words in said
        assert said.startswith("coschedd: ")


def test_live_private_daemons_refuse_forbidden_settings(open_dir):
    # The user has private sockets in a private directory.
    own = open_dir / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    operator = '[limits]\nslice_min = "1s"\n'
    (own / "operator.toml").touch()
    options = ("--class-scheduler", "dutycycle")
    with daemon(own, operator, *options, user=NOBODY) as greeting:
        assert greeting.startswith("READY"), greeting
        paths = NodePaths(own, "node1")
        with pytest.raises(CoschedError, match="slice 500ms is not allowed here"):
            request(paths, "set", settings={"slice": "500ms"})
        assert request(paths, "set", settings={"slice": "3s"})["settings"]


# -- metrics -----------------------------------------------------------------------------


def up_with_metrics(node):
    address = free_address()
    options = NodeOptions(
        Settings().changed({"slice": "10s", "gmet": "1ms"}), metrics=address
    )
    start_node(node.paths, options)
    return address


def scrape(address):
    """Sample values by name and job."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=15) as answer:
        text = answer.read().decode()
    return {
        (
            sample.name,
            sample.labels.get("job_name") or sample.labels.get("cause"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_report_the_node(node):
    address = up_with_metrics(node)
    first, second = node.task("one"), node.task("two")
    assert first.error == second.error == 0
    values = scrape(address)
    assert values["cosched_jobs", None] == 2
    scheduled = [values["cosched_job_scheduled", name] for name in ("one", "two")]
    assert sorted(scheduled) == [0, 1]
    assert values["cosched_slice_seconds", None] == 10
    assert values["cosched_switches_total", "slice"] >= 0
    assert values["cosched_daemon_cpu_seconds_total", None] > 0


def test_dead_metrics_server_is_replaced_at_its_address(node):
    address = up_with_metrics(node)
    assert scrape(address)
    pid = lock_holder(node.paths.metrics_lock)
    os.kill(pid, signal.SIGKILL)
    assert scrape(address)  # the address was never let go: the next server answers
    assert lock_holder(node.paths.metrics_lock) not in (None, pid)


def test_metrics_server_ends_with_the_daemon(node):
    address = up_with_metrics(node)
    assert scrape(address)
    pidfd = os.pidfd_open(lock_holder(node.paths.metrics_lock))
    os.kill(node.scheduler_pid, signal.SIGKILL)
    try:
        eventually(lambda: has_ended(pidfd), "the metrics server ends")
    finally:
        os.close(pidfd)
    options = NodeOptions(Settings(), metrics=address)
    start_node(node.paths, options)
    assert scrape(address)
    node.down()
    assert not node.paths.metrics_lock.exists()


def has_ended(pidfd):
    import select

    return bool(select.select([pidfd], [], [], 0)[0])


def test_used_address_gets_one_line(node):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(CoschedError, match="Address already in use") as caught:
            start_node(node.paths, NodeOptions(Settings(), metrics=address))
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not node.remains()


# -- set and top -------------------------------------------------------------------------


def environment(**more):
    """Returns the environment without variables of cosched, and with these."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
    return {**inherited, **more}


def cosched(*words):
    return run_command(*words, env=environment(), cwd=ROOT)


def cosched_as(user, *words, **environ):
    return subprocess.run(
        [*as_user(user), sys.executable, "-m", "cosched.cli.main", *words],
        env=environment(**environ),
        cwd=str(ROOT),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_set_changes_live_nodes_without_touching_jobs(node):
    node.up()
    task = node.task("one")
    words = ("config", "set", "--run-dir", str(node.paths.run_dir))
    printed = cosched(*words, "slice=3s").stdout
    order = "node node1: order=rest least_share=25%/30s fairness=jobs\n"
    assert printed == f"node node1: slice=3s gmet=1ms align=off\n{order}"
    assert task.scheduled
    assert node.status()["settings"]["slice_s"] == 3
    assert cosched(*words).stdout == printed


def test_order_is_set_on_live_nodes(node):
    node.up()
    task = node.task("one")
    words = ("config", "set", "--run-dir", str(node.paths.run_dir))
    order = ("order=age", "least_share=50%/1min", "fairness=users")
    done = cosched(*words, *order)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == (
        "node node1: order=age least_share=50%/1min fairness=users"
    )
    assert [line.rpartition(": ")[2] for line in done.stderr.splitlines()] == [
        f"{name.partition('=')[0]} has no effect with slice=10s" for name in order
    ]
    assert done.stderr.startswith("cosched: warning: node node1: order has no effect")
    done = cosched(*words, "slice=auto:250ms", "gmet=auto", "align=on", "order=rest")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    settings = node.status()["settings"]
    assert [settings[name] for name in ("slice", "order", "least_share", "fairness")] == [
        *("auto:250ms", "rest", "50%/1min", "users"),
    ]
    shown = cosched("status", "--run-dir", str(node.paths.run_dir)).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert cosched(*words, "order=rst").stderr.count("\n") == 1
    assert node.status()["settings"] == settings
    assert task.scheduled


def test_order_comes_from_file_and_options(run_dir):
    file = '[node]\norder = "age"\n'
    with daemon(run_dir, file, "--least-share", "10%/1min") as greeting:
        assert greeting.startswith("READY")
        settings = request(NodePaths(run_dir, "node1"), "status")["settings"]
        assert (settings["order"], settings["least_share"]) == ("age", "10%/1min")
    with daemon(run_dir, file, "--order", "rest", "--fairness", "users") as greeting:
        assert greeting.startswith("READY")
        settings = request(NodePaths(run_dir, "node1"), "status")["settings"]
        assert (settings["order"], settings["fairness"]) == ("rest", "users")
    with daemon(run_dir, file + 'slice = "2s"\n') as greeting:
        assert greeting == (
            f"coschedd: {run_dir}/operator.toml:2: order age has no effect with slice 2s: "
            "jobs take turns there"
        )


def test_saved_value_counts_from_the_next_start(open_dir):
    config = open_dir / "config"
    config.mkdir()
    os.chown(config, NOBODY, NOBODY)
    environ = {"XDG_CONFIG_HOME": str(config)}
    words = ("--save", "slice=1s", "node.mode=strict", "--run-dir", str(open_dir))
    saved = cosched_as(NOBODY, "config", "set", *words, **environ)
    assert saved.returncode == 0, saved.stderr
    assert saved.stdout == f"saved in {config}/cosched/config.toml\n"
    shown = cosched_as(NOBODY, "config", "show", "--json", **environ)
    values = json.loads(shown.stdout)["values"]
    assert values["node.slice"]["value"] == "1s"
    assert values["node.mode"]["where"] == f"{config}/cosched/config.toml:3"


def test_top_once_prints_one_picture(node):
    node.up(slice="2s")
    first, second = node.task("one"), node.task("two")
    assert first.error == second.error == 0
    words = ("top", "--run-dir", str(node.paths.run_dir), "--once", "--interval", "0.5")
    text = cosched(*words)
    assert text.returncode == 0, text.stderr
    lines = text.stdout.splitlines()
    assert lines[0] == "1 node, 2 jobs"
    assert [line.split()[0] for line in lines[-2:]] == ["one", "two"]
    answer = json.loads(cosched(*words, "--json").stdout)
    shares = [job["scheduled"] for job in answer["jobs"]]
    assert sum(shares) == pytest.approx(1, abs=0.1)
    assert [job["entitled"] for job in answer["jobs"]] == [0.5, 0.5]
    assert cosched(*words[:3]).stderr == "cosched: stdout is not a terminal; use --once\n"
