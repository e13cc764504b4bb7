"""A domain that goes on from a backup of its store."""

from __future__ import annotations

import pytest

from cosched.cli.cluster.backup import Backup, Restore
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S
from tests.domain.rig import QUICK

UNTIL_TOLD = "until test -e go; do sleep 0.05; done; echo two"


def test_restored_domain_goes_on(make_rig, capsys):
    queue = QueueSettings(grace_ns=NS_PER_S, jobs_per_node=4)
    rig = make_rig(1, queue=queue, life=QUICK)  # it refuses a start of the last job
    rig.start()
    rig.until_up()
    over = rig.wait(rig.shell("echo one"))["job"]
    running = rig.shell(UNTIL_TOLD)
    rig.until_state(running, "running")
    waiting = rig.shell("echo three", held=True)
    ending = rig.shell("until test -e stop; do sleep 0.05; done")
    rig.until_state(ending, "running")
    with rig.client() as client:
        client.drain(["n1"], "a new disk")
        client.undrain(["n1"])
    kept = rig.folder / "kept"
    Backup(folder=kept, run_dir=rig.paths.run_dir).run()
    assert kept.stat().st_mode & 0o777 == 0o700
    later = rig.shell("sleep 600 # mark77")
    rig.until_state(later, "running")
    (rig.work / "stop").touch()
    assert rig.wait(ending)["state"] == "done"

    with pytest.raises(CoschedError, match="its controller is up; end it first"):
        Restore(folder=kept, run_dir=rig.paths.run_dir).run()
    rig.kill(CONTROLLER)
    rig.paths.store.write_bytes(b"a damaged store")
    Restore(folder=kept, run_dir=rig.paths.run_dir).run()
    assert capsys.readouterr().out.endswith(f"{rig.paths.run_dir}: restored jobs.sqlite\n")
    assert rig.paths.store.with_name("jobs.sqlite.before").read_bytes().startswith(b"a dam")
    with pytest.raises(CoschedError, match="is the store before an earlier restore"):
        Restore(folder=kept, run_dir=rig.paths.run_dir).run()
    rig.start(CONTROLLER)
    rig.until_up()

    # Jobs that the store does not have are ended; the others go on.
    rig.until(lambda: not rig.strays("mark77"), "the unknown job is not ended")
    assert rig.state(over) == "done"
    assert rig.state(ending) == "node lost"
    (rig.work / "go").touch()
    job = rig.wait(running)
    assert (job["state"], rig.output(job)) == ("done", "two\n")
    assert rig.state(waiting) == "held"
    with rig.client() as client:
        client.unhold(waiting)
    job = rig.wait(waiting)
    assert (job["state"], rig.output(job)) == ("done", "three\n")
    # Its number is given again.
    assert rig.shell("echo four") == later
    job = rig.wait(later)
    assert (job["state"], rig.output(job)) == ("done", "four\n")


def test_backup_moves_a_domain_to_another_directory(make_rig, tmp_path):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    over = rig.wait(rig.shell("echo one"))["job"]
    kept = tmp_path / "kept"
    Backup(folder=kept, run_dir=rig.paths.run_dir).run()
    rig.kill(CONTROLLER)
    rig.kill("n1")
    moved = rig.paths.directory.rename(rig.folder / "old")
    Restore(folder=kept, run_dir=rig.paths.run_dir).run()
    for name in ("domain.toml", "nodes.json", "keys"):
        assert (rig.paths.directory / name).exists() == (moved / name).exists(), name
    secrets = list(rig.paths.keys.glob("*.secret"))
    assert secrets
    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}
    rig.start()
    rig.until_up()
    assert rig.state(over) == "done"
    assert rig.wait(rig.shell("echo two"))["state"] == "done"
