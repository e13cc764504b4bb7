"""docs/ports.md has each port, socket and setting of an address, as the code has them."""

from __future__ import annotations

import ast
import re

import click
import pytest

from cosched.cli.commands import cosched
from cosched.cli.nodes.up import METRICS_USUAL
from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.allocation import Allocation
from cosched.config.coupling import CouplingTable
from cosched.config.domain import PORT, DomainConfig
from cosched.core.config.schema import Sections
from cosched.core.config.tables import keys_of
from cosched.linux import ports
from cosched.rundir.paths import NodePaths
from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files

PAGE = (ROOT / "docs/ports.md").read_text()
#: Files with code that listens at a port or a socket with a name, and the row that has it.
LISTENERS = {
    "cosched/cluster/controller/controller.py": "coupled domains",  # pairs.listen
    "cosched/cluster/coupling/mail.py": "coupled domains",
    "cosched/cluster/coupling/pairs.py": "coupled domains",
    "cosched/cluster/engines/native/engine.py": "domain, controller",
    "cosched/cluster/agent/agent.py": "domain, agents",
    "cosched/cluster/links.py": "domain, agents",
    "cosched/cluster/user_socket.py": "R/NODE/agent.sock",
    "cosched/cluster/coupling/metrics.py": "metrics of a controller",
    "cosched/node/children/metrics_process.py": "metrics of a node",
    "cosched/service/tcp.py": "metrics of a node",
    "cosched/service/listener.py": "R/NODE/register.sock",
    "cosched/dashboard/server.py": "`cosched dashboard`",
    "cosched/cli/jobs/dashboard.py": "`cosched dashboard`",
}
#: These open nothing that stays: one tries whether ports are free, the others have methods
#: of such names.
NO_LISTENERS = {
    "cosched/linux/ports.py",
    "mpi_shim/wrapper/status/shadow.py",
    "mpi_shim/wrapper/status/together.py",
}
LISTENING = {"bind", "listen", "listen_at", "create_server", "start_unix_server"}


def command_of(name: str) -> click.Command:
    found = cosched.get_command(click.Context(cosched), name)
    assert found is not None
    return found


def row(name: str) -> str:
    """The line of the page that begins with a name."""
    found = [line for line in PAGE.splitlines() if line.startswith(f"| {name} |")]
    assert len(found) == 1, name
    return found[0]


def listens(path: str) -> bool:
    for node in nodes_of(ROOT / path):
        if isinstance(node, ast.Call):
            called = node.func
            name = getattr(called, "attr", getattr(called, "id", ""))
            if name in LISTENING:
                return True
    return False


def test_each_listener_has_a_row():
    sources = [
        str(path.relative_to(ROOT))
        for path in python_files("cosched", "daemons", "mpi_shim")
    ]
    found = {path for path in sources if listens(path)} - NO_LISTENERS
    assert found == set(LISTENERS)
    for name in LISTENERS.values():
        row(name if name.startswith("`") or "/" not in name else f"`{name}`")


def test_nothing_in_c_listens():
    for folder in ("cosched", "mpi_shim"):
        for path in (ROOT / folder).rglob("*.c"):
            assert not re.search(r"\b(listen|bind)\(", path.read_text()), path


def addresses():
    """The settings of addresses: name and whether it has a default."""
    tables = (keys_of(Sections), keys_of(DomainConfig), keys_of(CouplingTable, "coupling"))
    keys = [key for table in tables for key in table if "HOST:PORT" in key.kind.form]
    return sorted({key.path for key in keys})


@pytest.mark.parametrize("path", addresses())
def test_setting_of_an_address_has_a_row(path):
    columns = [line.split("|")[5] for line in PAGE.splitlines() if line.count("|") == 7]
    assert any(f"`{path}`" in column for column in columns)


def test_defaults_of_metrics():
    defaults = {key.path: key.default for key in keys_of(Sections)}
    assert defaults["metrics.listen"] == "off"
    assert f"| off; `cosched up --metrics` alone: {METRICS_USUAL} |" in row(
        "metrics of a node"
    )
    of_domain = {key.path: key.default for key in keys_of(DomainConfig)}
    of_coupling = {key.path: key.default for key in keys_of(CouplingTable, "coupling")}
    assert of_domain["metrics.listen"] is None
    assert of_coupling["coupling.metrics"] is None
    assert "| none | `metrics.listen` in" in row("metrics of a controller")


def test_ports_of_a_domain():
    assert f"| {PORT} | `controller` in" in row("domain, controller")
    assert f"| {PORT + 1} | `nodes` in" in row("domain, agents")


def test_ports_in_an_allocation():
    used = [Allocation(job, ("n1",), "n1").port for job in range(20_000)]
    first, last = min(used), max(used) + 1
    shown = row("the same in an allocation of Slurm")
    assert f"{first} + 2 * (job number modulo 10000)" in shown
    assert f"{first} to {last} |" in shown
    assert used[10_007] == used[7] == first + 14


def test_ports_of_a_private_domain(monkeypatch, tmp_path):
    kernel = tmp_path / "range"
    kernel.write_text("32768\t60999\n")
    monkeypatch.setattr(ports, "_RANGE", kernel)
    found = ports.usual_ports()
    shown = row("a private domain on one machine")
    assert f"from {found.start} up to the first port" in shown
    assert f"usually {found.stop})" in shown


def test_port_of_the_dashboard():
    (port,) = (each for each in command_of("dashboard").params if each.name == "port")
    assert port.default == 0  # the kernel chooses
    assert "| a free one |" in row("`cosched dashboard`")


@pytest.mark.parametrize(
    ("paths", "prefix"),
    [(NodePaths(ROOT, "NODE"), NodePaths), (DomainPaths(ROOT), DomainPaths)],
    ids=["node", "domain"],
)
def test_each_socket_has_a_row(paths, prefix):
    names = [name for name in dir(prefix) if name.endswith("_socket")]
    assert names
    for name in names:
        found = getattr(paths, name)
        path = found("NODE") if callable(found) else found
        row(f"`R/{path.relative_to(ROOT)}`")
