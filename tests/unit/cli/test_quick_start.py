"""Commands that start jobs import nothing heavy before they have sent it.

A job of a second may not wait for imports. So this test reads which modules are there, and
not how long that takes.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.launch.shim import plan_build
from cosched.rundir.paths import NodePaths
from tests.places import ROOT
from tests.unit.launch import launch_fakes as fakes

#: Packages of others, and parts of Python, that such a command never needs.
HEAVY = {
    *("asyncio", "bz2", "concurrent", "logging", "lzma", "numpy"),
    *("mpi4py", "pdb", "psutil", "pyroute2", "rich", "secrets", "shutil", "sqlite3"),
    *("ssl", "tempfile", "textual", "tomli", "tomlkit", "tomllib", "zmq"),
    *("cosched.config.domain", "cosched.cluster.up.domain", "cosched.core.cluster"),
    *("cosched.cluster.up.members", "cosched.cluster.up.private"),
    *("cosched.lab", "cosched.core.trace", "cosched.observe", "cosched.sim"),
}
#: Modules that are slow to import: a start beside running daemons never needs them.
SLOW = HEAVY | {
    *(
        "_hashlib",
        "ast",
        "click",
        "dataclasses",
        "datetime",
        "decimal",
        "elftools",
        "gettext",
    ),
    *("inspect", "locale", "msgspec", "platform", "subprocess", "threading"),
    *("typing_extensions", "uuid", "cosched.cli.declared", "cosched.cli.options"),
    *("cosched.core.config.schema", "cosched.core.node", "cosched.core.bounds"),
    *("cosched.node.lifetime.spawn", "cosched.linux.processes.background"),
}
#: Packages that the daemons of a node do not need until they are ready.
NOT_FOR_DAEMONS = {
    *("_hashlib", "asyncio", "bz2", "click", "concurrent", "ctypes", "hmac", "lzma"),
    *("numpy", "psutil", "rich", "secrets", "shutil", "sqlite3", "tempfile", "zmq"),
}
#: The dataclasses that they define: the tables of a file, and classes with other fields
#: than a Struct can have.
DATACLASSES = {
    *("Config", "Limits", "MetricsConfig", "NodeConfig", "RunConfig", "Sections"),
    *("Account", "LeastShare", "Settings"),
}
#: Imports a daemon; prints its modules, and the names of all dataclasses in them.
DAEMON_SCRIPT = """
import sys
import {module}
print(*sys.modules)
classes = {{value for name, module in list(sys.modules.items()) if "cosched" in name
           for value in vars(module).values() if isinstance(value, type)}}
print(*(each.__name__ for each in classes if "__dataclass_fields__" in vars(each)))
"""
#: All modules of ours that ``cosched-run --version`` imports.
FOR_VERSION = {
    *("cosched", "cosched.version", "cosched.cli", "cosched.cli.entry"),
    *("cosched.cli.printing", "cosched.cli.run", "cosched.cli.run.main"),
    *("cosched.core", "cosched.core.decoding", "cosched.core.errors"),
    *("cosched.start", "cosched.start.streams"),
}
#: Runs a command and prints the modules that it has imported.
SCRIPT = """
import sys
from {module} import main
try:
    main()
except SystemExit as end:
    print("\\n" + "\\n".join(sys.modules))
    raise
"""


def modules_of(module, *words, environ):
    """Returns the modules that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(module=module), *words],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environ},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return set(done.stdout.split())


def heavy(modules, roots=frozenset(HEAVY)):
    return {name for name in modules for root in roots if f"{name}.".startswith(f"{root}.")}


@pytest.fixture
def home(tmp_path):
    """The environment of a user with an MPI and without files of cosched's."""
    fakes.launcher(tmp_path / "bin/mpiexec", fakes.HYDRA)
    fakes.executable(tmp_path / "app", fakes.elf(["libmpi.so.12"]))
    fakes.executable(tmp_path / "script", "#!/bin/sh\n")
    places = {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    return tmp_path, places


@pytest.fixture
def domain(home):
    """A socket that takes each submission as job 1, and shows an empty queue, in a run
    directory."""
    answers = {"submit": {"job": 1}, "queue": []}
    paths = DomainPaths(home[0] / "run")
    paths.directory.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as desk:
        desk.bind(str(paths.controller_socket))
        desk.listen()

        def serve():
            while True:
                try:
                    connection, _ = desk.accept()
                except OSError:  # the test is over
                    return
                with connection, connection.makefile("rb") as stream:
                    for line in stream:
                        answer = {"ok": answers[json.loads(line)["do"]]}
                        connection.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(paths.run_dir)
        desk.shutdown(socket.SHUT_RDWR)
        thread.join()


#: Definitions of answers, hosts and settings, and the parts that wait for a job.
DEFINITIONS = {
    *("cosched.cluster.answers", "cosched.core.config.kinds", "cosched.jobs.client"),
    *("cosched.cli.domain.waiting", "cosched.cli.hosts_option", "cosched.jobs.feeding"),
}
#: Only commands that send a job need these.
SENDING = {
    *("msgspec", "cosched.cluster.submission", "cosched.core.arrays", "cosched.jobs"),
    *("cosched.core.bounds", "cosched.launch", "cosched.linux.processes.limits"),
}


@pytest.mark.parametrize("job", ["script", "-n 2 --no-shim app"], ids=["script", "ranks"])
def test_submit_imports_nothing_heavy(home, domain, job):
    """The second submission: the first one asks the MPI's tools."""
    folder, environ = home
    *options, program = job.split()
    words = ("submit", "--run-dir", domain, *options, str(folder / program))
    modules_of("cosched.cli.main", *words, environ=environ)
    found = modules_of("cosched.cli.main", *words, environ=environ)
    assert "cosched.cluster.client" in found
    assert heavy(found, SLOW | DEFINITIONS) == set()


def test_queue_imports_nothing_heavy(home, domain):
    _, environ = home
    found = modules_of("cosched.cli.main", "queue", "--run-dir", domain, environ=environ)
    assert "cosched.cluster.client" in found
    found -= {"cosched.observe", "cosched.observe.table_columns"}
    assert heavy(found, HEAVY | DEFINITIONS | SENDING) == set()


#: Runs a command as its script in bin does. Prints on stderr how often Python has looked
#: for garbage since.
GARBAGE_SCRIPT = """
import gc, sys
from cosched.start.isolated import run
gc.collect()
before = [each["collections"] for each in gc.get_stats()]
try:
    run("{module}")
finally:
    after = [each["collections"] for each in gc.get_stats()]
    print([now - then for now, then in zip(after, before)], file=sys.stderr)
"""


@pytest.mark.parametrize("words", ["queue", "submit -n 2 --no-shim app"])
def test_no_command_looks_for_garbage(home, domain, words):
    folder, environ = home
    command, *rest = words.split()
    done = subprocess.run(
        [
            *(sys.executable, "-c", GARBAGE_SCRIPT.format(module="cosched.cli.main")),
            *(command, "--run-dir", domain, *rest[:-1]),
            *(str(folder / name) for name in rest[-1:]),
        ],
        capture_output=True,
        text=True,
        env={**environ, "PYTHONNOUSERSITE": "1"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "[0, 0, 0]\n")


def test_queue_beside_a_resting_domain_imports_nothing_heavy(home):
    folder, environ = home
    paths = DomainPaths(folder / "run")
    paths.directory.mkdir(parents=True)
    paths.config.write_text('name = "private"\n[nodes]\nhere = "127.0.0.1:2"\n')
    JobStore(paths.store, ("here",)).close()
    words = ("queue", "--run-dir", str(paths.run_dir))
    found = modules_of("cosched.cli.main", *words, environ=environ)
    assert "cosched.cluster.up.resting" in found
    found -= {"cosched.observe", "cosched.observe.table_columns"}
    assert heavy(found, HEAVY - {"sqlite3", "tomli", "tomllib"}) == set()


def test_cosched_run_imports_nothing_heavy(home):
    folder, environ = home
    words = ("--dry-run", "--no-shim", "-n", "2", str(folder / "app"))
    found = modules_of("cosched.cli.run.main", *words, environ=environ)
    assert "cosched.launch.resolved_job" in found
    assert heavy(found) == set()


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("cosched.launch.shim", id="compiles the shim"),
        pytest.param("cosched.cli.jobs.dashboard", id="prints the dashboard's address"),
        pytest.param("cosched.cli.domain.queue", id="prints the queue"),
        pytest.param("cosched.cli.domain.cancel", id="cancels and holds"),
    ],
)
def test_module_is_light(module):
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    found = heavy(done.stdout.decode().split())
    assert found <= {"cosched.observe", "cosched.observe.table_columns"}


@pytest.mark.parametrize("module", ["daemons.scheduler", "daemons.timer"])
def test_daemons_are_ready_soon(module):
    words = [sys.executable, "-c", DAEMON_SCRIPT.format(module=module)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    modules, classes = (set(line.split()) for line in done.stdout.splitlines())
    assert "cosched.node.tasks.live_job" in modules
    assert heavy(modules, NOT_FOR_DAEMONS) == set()
    assert classes <= DATACLASSES


def test_controller_that_queues_jobs_imports_what_it_needs():
    """A user waits for that of a private domain."""
    script = "import sys, cosched_daemons.controller; print(*sys.modules)"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    modules = set(done.stdout.split())
    assert "cosched.cluster.engines.native.engine" in modules
    others = {"cosched.cluster.engines.slurm", "http", "prometheus_client", "tomlkit"}
    assert heavy(modules, others) == set()


def test_version_imports_next_to_nothing(home):
    found = modules_of("cosched.cli.run.main", "--version", environ=home[1])
    assert {name for name in found if f"{name}.".startswith("cosched.")} == FOR_VERSION
    assert heavy(found, SLOW) == set()
    assert not found & {"hashlib", "socket", "ctypes"}


@pytest.fixture
def node(tmp_path):
    """The run directory of a node whose daemon answers that it has no jobs."""
    paths = NodePaths(tmp_path / "r", "here")
    paths.directory.mkdir(parents=True)
    answers = {
        "status": {"jobs": [], "waiting": [], "pid": os.getpid()},
        "length": {"running": False, "length_ns": 5},
    }

    def serve(connection):
        with connection, connection.makefile("rb") as stream:
            for line in stream:
                answer = answers.get(json.loads(line)["op"], {"ok": True})
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def accept(desk):
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=desk.accept()[:1]).start()

    with socket.socket(socket.AF_UNIX) as desk:
        desk.bind(str(paths.control_socket))
        desk.listen()
        thread = threading.Thread(target=accept, args=(desk,))
        thread.start()
        yield paths
        desk.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_plain_start_imports_nothing_slow(home, node):
    """The second start: the first one asks the MPI's tools. The shim is built."""
    folder, environ = home
    environ |= {"COSCHED_RUN_DIR": str(node.run_dir), "COSCHED_NODE": node.node}
    mpicc = fakes.executable(folder / "bin/mpicc", "#!/bin/sh\necho cc -lmpi\n")
    shim = plan_build(mpicc, environ).library
    shim.parent.mkdir(parents=True)
    # The launcher loads it, too.
    subprocess.run(["cc", "-shared", "-o", shim, "-xc", "/dev/null"], check=True)
    words = ("--", str(folder / "bin/mpiexec"), "-n", "2", str(folder / "app"))
    modules_of("cosched.cli.run.main", *words, environ=environ)
    found = modules_of("cosched.cli.run.main", *words, environ=environ)
    assert {"cosched.launch.shim", "cosched.jobs.expected"} <= found
    assert heavy(found, SLOW) == set()
    runs = (folder / ".local/state/cosched/runs.jsonl").read_text().splitlines()
    assert [json.loads(run)["length_ns"] for run in runs] == [5, 5]
