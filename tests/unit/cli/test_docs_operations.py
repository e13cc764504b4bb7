"""docs/operations.md: its program for Slurm drains a node that is not healthy, and its
bounds are those of the code."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from cosched.cluster.up import members
from cosched.core.config.schema import TRACE_BYTES
from cosched.node.records.history_writer import HISTORY_BYTES
from cosched.node.records.log_file import KEPT, LOG_BYTES
from tests.places import ROOT

PAGE = (ROOT / "docs/operations.md").read_text()
MIB = 1 << 20
FOUND = """\
n1:
  warning  clock   its error may be 0.2 s
  problem  daemons   no scheduler daemon is up
           systemctl start cosched
"""


@pytest.mark.parametrize(
    ("found", "drained"),
    [("", None), (FOUND, "cosched: problem daemons no scheduler daemon is up")],
    ids=["healthy", "not healthy"],
)
def test_health_program_drains_a_node_with_a_problem(tmp_path, found, drained):
    (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", PAGE, re.M | re.S)
    doctor, scontrol = tmp_path / "cosched", tmp_path / "scontrol"
    (tmp_path / "found").write_text(found)
    doctor.write_text(
        '#!/bin/sh\n[ "$*" = "doctor --health" ] || exit 3\n'
        f"cat {tmp_path}/found\n! [ -s {tmp_path}/found ]\n"
    )
    scontrol.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/given\n')
    for each in (doctor, scontrol):
        each.chmod(0o755)
    assert script.count("/opt/cosched/bin/cosched") == 1
    script = script.replace("/opt/cosched/bin/cosched", str(doctor))
    done = subprocess.run(
        ["sh", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    given = tmp_path / "given"
    if drained is None:
        assert not given.exists()
        return
    assert given.read_text().splitlines() == [
        "update",
        f"NodeName={os.uname().nodename}",
        "State=DRAIN",
        f"Reason={drained}",
    ]


def test_page_has_the_greatest_sizes():
    assert KEPT == 1
    assert (
        f"| `scheduler.log` in the node's directory | 2 times {LOG_BYTES // MIB} MiB |"
        in PAGE
    )
    assert f"| 2 times {members.LOG_BYTES // MIB} MiB, looked at when" in PAGE
    assert f"by default {TRACE_BYTES // MIB} MiB" in PAGE
    assert f"| {HISTORY_BYTES // MIB} MiB | an equal part" in PAGE
