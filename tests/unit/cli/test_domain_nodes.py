"""The commands for nodes of a domain, with a domain that a test makes up."""

import pytest
from click.testing import CliRunner

from cosched.cli.commands import cosched
from tests.tools.desk import FakeDesk


@pytest.fixture
def desk(monkeypatch, tmp_path):
    monkeypatch.setenv("COSCHED_RUN_DIR", str(tmp_path))
    desk = FakeDesk(tmp_path)
    desk.node("n2", "draining", (4, 17))
    desk.node("n3", "draining", (5,))
    desk.node("n4", "drained")
    desk.node("n5", "lost")
    yield desk
    desk.close()


def lines(*words):
    done = CliRunner().invoke(cosched, ["cluster", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout.splitlines()


def test_status_shows_that_a_column_has_numbers_of_jobs(desk):
    assert lines("status")[:4] == [
        "node  state     slots  job numbers  reason",
        "n1    up            4  -",
        "n2    draining      4  4, 17",
        "n3    draining      4  5",
    ]


def test_drain_shows_the_jobs_that_run_on(desk):
    assert lines("drain", "n5", "n4", "n3", "n2") == [
        "draining n2: jobs 4, 17 still run",
        "draining n3: job 5 still runs",
        "drained n4",
        "drained n5; it is lost",
    ]


def test_undrain_shows_nodes_that_take_no_job_yet(desk):
    assert lines("undrain", "n1", "n5") == ["undrained n1", "undrained n5; it is lost"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("n4",), "removed n4"),
        (("n2", "n3"), "n2, n3: to be removed after jobs 4, 5, 17"),
        (("n3", "--now"), "n3: ended job 5; to be removed at once"),
        (("n3", "--now", "--wait"), "removed n3"),
    ],
)
def test_remove_shows_the_jobs_for_which_it_waits_or_that_it_ends(desk, words, line):
    assert lines("remove", *words) == [line]
