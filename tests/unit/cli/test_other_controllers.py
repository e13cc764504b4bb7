"""A controller of another version may lack fields: a command needs them, or goes on."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cosched import Client
from cosched.cli.commands import cosched
from cosched.core.errors import CoschedError
from cosched.version import VERSION
from tests.tools.desk import FakeDesk

LINE = (
    "the domain's answer has no field 'preferred'; if its controller runs another version "
    f"of cosched than {VERSION}, restart it: systemctl restart "
    "cosched-controller, or as in docs/operations.md"
)


@pytest.fixture
def desk(monkeypatch, tmp_path):
    monkeypatch.setenv("COSCHED_RUN_DIR", str(tmp_path))
    desk = FakeDesk(tmp_path)
    desk.job(7, state="running", ended_ns=None, minimum=1, ideal=8)
    del desk.jobs[7]["preferred"]
    yield desk
    desk.close()


def run(*words):
    return CliRunner().invoke(cosched, words, catch_exceptions=False)


def test_command_that_needs_a_missing_field_fails_with_one_line(desk):
    command = [sys.executable, "-m", "cosched.cli.main", "queue"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"cosched: {LINE}\n")


def test_client_reports_a_missing_field_of_any_answer(desk):
    with Client.connect() as client:
        for job in (client.job(7), client.wait(7), *client.queue()):
            assert job["ideal"] == 8
            with pytest.raises(CoschedError) as raised:
                job["preferred"]
            assert str(raised.value) == LINE


def test_answers_are_shown_without_the_missing_field(desk):
    found = json.loads(run("queue", "--json").stdout)
    assert found == {"jobs": [desk.jobs[7]]}


def test_command_that_needs_no_missing_field_goes_on(desk):
    assert run("cancel", "7").exit_code == 0
    assert desk.jobs[7]["state"] == "cancelled"
