"""Imports stand at the top of a file. A function imports only what the table names.

A command is imported by its table when it is called (``cosched.cli.groups.LazyGroup``), so
its module needs no such import for a quick ``cosched --help``.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files

ROOMS = ("cosched", "mpi_shim", "daemons", "benchmarks", "scripts")
#: Reasons. START_UP: tests/unit/cli/test_quick_start.py or docs/dev/architecture.md has the
#: measured command.
START_UP = "each start of a command or a rank would take longer"
OPTIONAL = "the package may be missing, and other parts work without it"
LATER = "it must come after the environment, or MPI, is prepared"
#: By file: the packages and modules that its functions import.
ALLOWED = {
    "benchmarks/chromium.py": ({"selenium"}, OPTIONAL),
    "cosched/__init__.py": ({"importlib"}, START_UP),
    "cosched/documents.py": ({"tomlkit", "tomllib", "tomli"}, START_UP),
    "cosched/cluster/controller/controller.py": (
        {"cosched.cluster.coupling.metrics"},
        START_UP,
    ),
    "cosched/cluster/engines/native/node_requests.py": ({"cosched.config.save"}, START_UP),
    "daemons/controller.py": ({"cosched.cluster.controller.slurm_controller"}, START_UP),
    "cosched/cli/connection.py": (
        {"cosched.cluster.up.private", "cosched.cluster.up.resting"},
        START_UP,
    ),
    "cosched/cluster/client.py": ({"cosched.documents"}, START_UP),
    "cosched/cli/domain/batch_command.py": ({"cosched.cli.domain.sbatch_lines"}, START_UP),
    "cosched/cli/domain/sending.py": ({"cosched.cluster.up.private"}, START_UP),
    "cosched/cli/domain/submit.py": ({"cosched.cli.domain.submitting"}, START_UP),
    "cosched/cli/domain/submitting.py": (
        {
            *("cosched.cli.domain.sending_array", "cosched.cli.domain.sending_to_end"),
            "cosched.cli.domain.waiting",
        },
        START_UP,
    ),
    "cosched/cli/domain/waiting.py": ({"shutil", "tempfile"}, START_UP),
    "cosched/cli/entry.py": (
        {"click", "cosched.cli.tools.completion", "cosched.cli.unexpected"},
        START_UP,
    ),
    "cosched/cli/jobs/dashboard.py": (
        {
            *("cosched.dashboard.explain", "cosched.dashboard.looks"),
            *("cosched.dashboard.pages", "cosched.dashboard.picture"),
            *("cosched.dashboard.watcher", "cosched.linux.users"),
        },
        START_UP,
    ),
    "cosched/cli/jobs/elsewhere.py": (
        {"cosched.cli.connection"},
        START_UP,
    ),
    "cosched/cli/jobs/history.py": (
        {"cosched.cli.connection"},
        START_UP,
    ),
    "cosched/cli/jobs/top.py": ({"cosched.observe.top.screen"}, START_UP),
    "cosched/cli/jobs/why.py": (
        {"cosched.cli.jobs.domain_job"},
        START_UP,
    ),
    "cosched/cli/main.py": (
        {
            *("cosched.cli.commands", "cosched.cli.domain.plain"),
            "cosched.cli.domain.submitting",
        },
        START_UP,
    ),
    "cosched/cli/measure/tune.py": ({"cosched.bench.tune.heatmap_figure"}, OPTIONAL),
    "cosched/cli/options.py": (
        {
            *("cosched.cli.connection", "cosched.cluster.job_texts"),
            "cosched.observe.status",
        },
        START_UP,
    ),
    "cosched/cli/run/announcing.py": ({"cosched.shm._native"}, START_UP),
    "cosched/cli/run/choices.py": ({"click"}, START_UP),
    "cosched/cli/run/command.py": ({"cosched.cli.run.start"}, START_UP),
    "cosched/cli/run/label.py": ({"cosched.core.symbiosis.resources"}, START_UP),
    "cosched/cli/run/main.py": (
        {
            *("cosched.cli.run.announcing", "cosched.cli.run.command"),
            *("cosched.cli.run.early_daemons", "cosched.cli.run.plain"),
            "cosched.cli.run.start",
        },
        START_UP,
    ),
    "cosched/cli/run/site.py": ({"cosched.lab.lab"}, START_UP),
    "cosched/core/decoding.py": ({"msgspec"}, START_UP),
    "cosched/cli/run/start.py": (
        {
            *("cosched.cli.jobs.elsewhere", "cosched.cli.run.account"),
            "cosched.cli.run.domain",
        },
        START_UP,
    ),
    "cosched/cli/nodes/config.py": (
        {"cosched.bench.workload.file", "cosched.config.domain", "cosched.config.slurm"},
        START_UP,
    ),
    "cosched/core/config/suggestions.py": ({"difflib"}, START_UP),
    "cosched/dashboard/server.py": ({"logging", "waitress.server", "webbrowser"}, START_UP),
    "cosched/jobs/choices.py": (
        {"cosched.config.cosched_toml", "cosched.core.config.limits"},
        START_UP,
    ),
    "cosched/jobs/client.py": (
        {
            *("cosched.cluster.up.private", "cosched.jobs.calls.job_executor"),
            "cosched.jobs.preparing",
        },
        START_UP,
    ),
    "cosched/jobs/preparing.py": (
        {"cosched.cluster.coupling.mates", "cosched.lab.lab"},
        START_UP,
    ),
    "cosched/jobs/calls/task.py": ({"mpi4py"}, OPTIONAL),
    "cosched/jobs/serving.py": ({"cosched.jobs.expected"}, START_UP),
    "cosched/jobs/rank_environment.py": ({"cosched.launch.shim"}, START_UP),
    "cosched/lab/fabric.py": ({"pyroute2"}, START_UP),
    "cosched/lab/lab.py": ({"cosched.lab.files"}, START_UP),
    "cosched/launch/compile.py": ({"shutil", "subprocess", "tempfile"}, START_UP),
    "cosched/launch/process.py": (
        {
            "psutil",
            "cosched.linux.processes.descendants",
        },
        START_UP,
    ),
    "cosched/launch/shim.py": ({"concurrent.futures"}, START_UP),
    "cosched/linux/io_class.py": ({"psutil"}, START_UP),
    "cosched/linux/processes/background.py": ({"cosched.linux.io_class"}, START_UP),
    "cosched/linux/here.py": ({"ipaddress", "psutil", "threading"}, START_UP),
    "cosched/linux/processes/tools.py": ({"subprocess"}, START_UP),
    "cosched/node/lifetime/private_pair.py": (
        {"cosched.linux.files.owners", "cosched.node.lifetime.spawn"},
        START_UP,
    ),
    "cosched/node/sockets/client.py": ({"logging"}, START_UP),
    "cosched/rundir/paths.py": ({"cosched.core.decoding", "hashlib"}, START_UP),
    "mpi_shim/__main__.py": ({"mpi_shim"}, LATER),
    "mpi_shim/choose.py": ({"mpi4py", "mpi_shim.wrapper"}, LATER),
    "benchmarks/kernels/nas.py": ({"benchmarks.kernels.nas_jobs"}, LATER),
    "benchmarks/npb/__main__.py": ({"mpi4py", "benchmarks.npb"}, LATER),
    "benchmarks/sim/accasim.py": (
        {
            *("accasim", "benchmarks.experiment", "benchmarks.progress_lines"),
            *("cosched.sim", "cosched.tables"),
        },
        OPTIONAL,
    ),
}
#: Figures are drawn where matplotlib is installed.
EVERY_BENCHMARK = {"matplotlib"}


def imports_in_functions(path):
    for function in nodes_of(path):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield str(node.module)


def is_below(module, roots):
    return any(f"{module}.".startswith(f"{root}.") for root in roots)


@cache  # so that no worker that only collects the tests parses all files
def found():
    return {
        str(path.relative_to(ROOT)): sorted(set(imports_in_functions(path)))
        for path in python_files(*ROOMS)
    }


def test_functions_import_nothing_else():
    wrong = [
        f"{name}: {module}"
        for name, modules in found().items()
        for module in modules
        if not is_below(module, ALLOWED.get(name, (set(), ""))[0])
        and not (name.startswith("benchmarks/") and is_below(module, EVERY_BENCHMARK))
    ]
    assert not wrong, "import at the top of the file: " + ", ".join(wrong)


@pytest.mark.parametrize("name", ALLOWED)
def test_each_exception_is_needed(name):
    roots, reason = ALLOWED[name]
    unused = {root for root in roots if not any(is_below(m, {root}) for m in found()[name])}
    assert not unused
    assert reason in (START_UP, OPTIONAL, LATER)
