"""Hosts that nothing knows are one line, and the launcher is not started."""

import os

import pytest

from cosched.cli.run import site
from cosched.cli.run.site import find_site
from cosched.core.errors import CoschedError
from cosched.launch.given.hosts import Hosts
from cosched.linux import here
from cosched.linux.processes.tools import Printed


@pytest.fixture
def shell(monkeypatch):
    """What ssh prints about a host, by lines; localhost is the only host with a name."""
    lines = []
    monkeypatch.setattr(site, "ask_tool", lambda words, within_s: Printed("\n".join(lines)))
    monkeypatch.setattr(site, "which", lambda command, environ: f"/usr/bin/{command}")
    known = {"localhost": ("127.0.0.1",)}
    monkeypatch.setattr(site, "getaddrinfo", lambda host: known.get(host, ()))
    for name in ("HYDRA_LAUNCHER", "PRTE_MCA_plm_ssh_agent", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(site, "_OTHER_SHELLS", ("PRTE_MCA_plm",))
    return lines


def test_unknown_host_is_one_line(tmp_path, shell):
    shell.append("hostname nosuchhost")
    with pytest.raises(CoschedError) as caught:
        find_site(tmp_path, Hosts(("localhost", "nosuchhost")))
    assert str(caught.value) == "host 'nosuchhost': no such host"


def test_name_of_this_machine_needs_no_resolver(tmp_path, shell):
    """Launchers start ranks here without one, too."""
    name = os.uname().nodename
    assert find_site(tmp_path, Hosts((name,))).names == (name,)


@pytest.mark.parametrize("host", ["n..1", "n" * 64])
def test_name_that_no_host_can_have_is_one_line(tmp_path, shell, monkeypatch, host):
    monkeypatch.setattr(site, "getaddrinfo", here.getaddrinfo)
    with pytest.raises(CoschedError, match="no such host"):
        find_site(tmp_path, Hosts((host,)))


@pytest.mark.parametrize(
    "line", ["hostname localhost", "proxyjump gate", "proxycommand nc"]
)
def test_host_that_ssh_knows_is_taken(tmp_path, shell, line):
    shell.append(line)
    assert find_site(tmp_path, Hosts(("alias",))).names == ("alias",)


def test_host_of_another_remote_shell_is_not_judged(tmp_path, shell, monkeypatch):
    monkeypatch.setenv("PRTE_MCA_plm_ssh_agent", "my-shell")
    assert find_site(tmp_path, Hosts(("nosuchhost",))).names == ("nosuchhost",)
