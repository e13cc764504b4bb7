"""Root's requests are taken from the controller's host, and from others only if allowed."""

import os
from dataclasses import replace

import pytest

from cosched.cluster.submission import make_submission
from cosched.config.domain import SecuritySettings
from cosched.core.errors import CoschedError

pytestmark = [
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be refused"),
]
JOB = {"environ": {"PATH": os.environ["PATH"]}, "cwd": "/", "output": "/dev/null"}


def test_root_of_another_host_waits_for_the_operators_leave(make_rig):
    rig = make_rig(2)
    elsewhere = rig.config.nodes["n2"].replace("127.0.0.1", "127.0.0.2")
    rig.config = replace(rig.config, nodes={**rig.config.nodes, "n2": elsewhere})
    rig.write_config(rig.config)
    rig.start()
    rig.until_up()
    with rig.client("n1") as here, rig.client("n2") as there:
        first = here.submit(make_submission(["/bin/sleep", "100"], **JOB))
        for refused in (
            lambda: there.submit(make_submission(["/bin/true"], **JOB)),
            lambda: there.cancel(first),
            lambda: there.down(end_jobs=True),
        ):
            with pytest.raises(CoschedError, match="root's requests from node n2 are"):
                refused()
        assert [job["job"] for job in there.queue()] == [first]
        allowed = SecuritySettings(root_from=("n2",), least_uid=500)
        rig.write_config(replace(rig.config, security=allowed))
        changed = ["security.root_from", "security.least_uid"]
        assert here.reload()["changed"] == changed
        there.cancel(first)
        assert there.wait(first)["state"] == "cancelled"
