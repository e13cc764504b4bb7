"""The nodes of a bench: the lab that is up, or a private one; and missing programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.bench.run import site, testbed
from cosched.bench.run.site import lab_site
from cosched.bench.workload.file import JobSpec, Workload
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.lab.state import NodeRecord
from cosched.linux.namespaces import ProcessId

GBIT = 10**9


def lab(rate):
    nodes = tuple(
        NodeRecord(f"lab{i}", f"10.77.0.{i}", (i - 1,), ProcessId(1, 1)) for i in (1, 2)
    )
    return Lab(Path("/run/x"), "10.77.0.0/24", Path("/run/x/agent"), nodes, rate)


@pytest.fixture
def present(monkeypatch):
    """Makes a lab of this rate the one that is up."""

    def make(rate):
        monkeypatch.setattr(site.Lab, "load", lambda _: lab(rate))

    return make


@pytest.mark.parametrize("asked", [None, GBIT])
def test_lab_that_is_up_is_used_with_its_rate(present, asked):
    present(GBIT)
    with lab_site(Path("/run/x"), 2, 1, asked) as found:
        assert (found.rate, found.hosts) == (GBIT, ("lab1", "lab2"))


@pytest.mark.parametrize(
    ("rate", "words"), [(None, "links without a limit"), (10 * GBIT, "links 10 Gbit/s")]
)
def test_lab_with_other_links_is_refused_in_a_line(present, rate, words):
    present(rate)
    message = f"^--rate 1 Gbit/s: the lab that is up has {words}: run 'cosched lab down'"
    with pytest.raises(CoschedError, match=message), lab_site(Path("/run/x"), 2, 1, GBIT):
        pass


@pytest.mark.parametrize(
    ("nodes", "cores", "words"),
    [
        (2, 4, "--cores-per-node 4: the lab that is up has 1 CPU a node: run"),
        (3, None, "3 nodes are wanted, and the lab that is up has 2: give --nodes 2"),
    ],
)
def test_lab_with_other_nodes_is_refused_in_a_line(present, nodes, cores, words):
    present(None)
    with (
        pytest.raises(CoschedError, match=f"^{words}"),
        lab_site(Path("/run/x"), nodes, cores, None),
    ):
        pass


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ({"command": ("./none",)}, r"'a': program '.*/none': no such file"),
        (
            {"command": ("no-such-program",)},
            r"'a': program 'no-such-program': not found in",
        ),
        ({"source": Path("none.c")}, r"'a': source 'none\.c': no such file"),
    ],
)
def test_missing_program_is_refused_before_any_run(tmp_path, program, words):
    spec = JobSpec(name="a", ranks=1, cwd=tmp_path, **program)
    workload = Workload(title="t", description="", jobs=(spec,), origin="mine.toml")
    options = testbed.TestbedOptions(Path("/run/x"), hosts=("n1",))
    with pytest.raises(CoschedError, match=f"^mine.toml, job {words}"):
        testbed.open_testbed([workload], options, {"PATH": "/bin"}).__enter__()


def test_program_is_found_from_where_the_job_runs(tmp_path):
    (tmp_path / "mine").symlink_to("/bin/true")
    spec = JobSpec(name="a", ranks=9, cwd=tmp_path, command=("./mine",), first=1)
    workload = Workload(title="t", description="", jobs=(spec,), origin="mine.toml")
    options = testbed.TestbedOptions(Path("/run/x"), settings={"slice": "no time"})
    # It goes on to the next check.
    with pytest.raises(CoschedError, match="no time"):
        testbed.open_testbed([workload], options, {"PATH": "/bin"}).__enter__()


@pytest.mark.parametrize("rate", [None, GBIT])
def test_private_lab_has_the_rate(monkeypatch, tmp_path, rate):
    monkeypatch.setattr(site.Lab, "load", lambda _: None)
    monkeypatch.setattr(site, "require_root", lambda: None)
    monkeypatch.setattr(site.life, "up", lambda *_, rate: lab(rate))
    monkeypatch.setattr(site.life, "down", lambda _: True)
    with lab_site(tmp_path, 2, 1, rate) as found:
        assert (found.rate, found.private) == (rate, True)


@pytest.mark.parametrize("option", ["nodes", "cores-per-node", "rate"])
def test_option_of_a_lab_with_named_hosts_is_refused_in_a_line(option):
    more = {option.replace("-", "_"): 1}
    options = testbed.TestbedOptions(Path("/run/x"), hosts=("n1",), **more)
    with pytest.raises(CoschedError, match=rf"^--{option} is for the nodes of a lab"):
        testbed.open_testbed([], options, {}).__enter__()


@pytest.mark.parametrize(
    ("rate", "words"), [(None, "links without a limit"), (GBIT, "links 1 Gbit/s")]
)
def test_rate_is_in_text_and_document(present, rate, words):
    present(rate)
    with lab_site(Path("/run/x"), 2, 1, None) as found:
        bed = testbed.Testbed(found, None, {}, (), ())
    assert bed.setting() == f"2 nodes of the lab, {words}"
    assert bed.context()["rate_bits_per_s"] == rate
