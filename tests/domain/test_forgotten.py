"""A controller that forgets jobs which ended long ago."""

from __future__ import annotations

from dataclasses import replace

from cosched.cluster.engines.native import engine
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from tests.domain.rig import PATIENT


def test_ended_jobs_are_forgotten_after_their_time(make_rig, monkeypatch):
    monkeypatch.setattr(engine, "FORGET_NS", 0)  # members are forks of this process
    rig = make_rig(1, life=replace(PATIENT, keep_ended_ns=1))
    rig.start()
    rig.until_up()
    running = rig.shell("until test -e go; do sleep 0.05; done; echo here")
    rig.until_state(running, "running")
    held = rig.shell("true", held=True, after=str(running))
    rig.kill(CONTROLLER)
    rig.start(CONTROLLER)
    rig.until_up()
    (rig.work / "go").touch()
    output = rig.work / f"cosched-{running}.out"
    rig.until(lambda: output.exists() and output.read_text() == "here\n", "no output")

    def is_forgotten(number):
        with rig.client() as client:
            try:
                client.job(number)
            except CoschedError as error:
                return "there is no such job" in str(error)
        return False

    # A job names it, so it stays until that one has ended, too.
    rig.until(lambda: rig.state(running) == "done", "it has not ended")
    with rig.client() as client:
        client.unhold(held)
    rig.until(lambda: is_forgotten(running) and is_forgotten(held), "they are kept")
