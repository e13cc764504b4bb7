"""cosched-run combines its options with the configuration and its limits."""

from __future__ import annotations

import os

import click
import pytest

from cosched.cli.entry import run_cli
from cosched.cli.run.choices import Asked
from cosched.cli.run.command import Run
from cosched.config import config_files, cosched_toml
from cosched.core.config.schema import KEYS, Limits, variable_of
from cosched.core.config.variables import setting_variables
from cosched.core.errors import CoschedError
from cosched.core.units import parse_run_time
from cosched.jobs.choices import Choices


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Writes the operator's file; nothing else is configured."""
    for name in os.environ:
        if name.startswith("COSCHED_") or name == "XDG_CONFIG_HOME":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    operator = tmp_path / "operator.toml"
    monkeypatch.setattr(config_files, "OPERATOR_FILE", operator)
    return operator.write_text


def run(wait=None, carrier=None, waits_only=False, no_shim=False, require_all=False):
    return Asked(carrier, wait, require_all, waits_only, no_shim).choices()


def test_no_options_give_the_defaults(settings):
    assert run() == Choices("spin", "auto", None)
    settings("")
    assert run() == Choices("spin", "auto", Limits())


def test_configuration_applies_where_no_option_does(settings):
    settings('[run]\nwait = "block:5us"\nstatus = "prefix"\n')
    assert run() == Choices("block:5000", "prefix", Limits())
    assert run(wait="yield", carrier="none") == Choices("yield", "none", Limits())
    assert run(waits_only=True).policy == "block:5000"
    # A setting of the file does not contradict an option.
    assert run(no_shim=True).policy == "spin"


def test_contradictory_options_are_refused(settings):
    with pytest.raises(click.UsageError, match="--no-shim cannot be combined"):
        run(wait="block", no_shim=True)
    with pytest.raises(click.UsageError, match="--waits-only needs"):
        run(waits_only=True)


def test_limits_bind_users_but_not_root(settings, monkeypatch):
    settings('[limits]\nwaits = ["spin"]\ncarriers = ["shadow"]\n')
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    # The test's file may belong to any user.
    monkeypatch.setattr(cosched_toml, "trusted_owner", lambda uid: True)
    with pytest.raises(CoschedError, match="wait 'yield' is not allowed here: use spin"):
        run(wait="yield")
    with pytest.raises(CoschedError, match="carrier 'none' is not allowed here"):
        run().check_carrier("none")
    run().check_carrier("shadow")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run(wait="yield").policy == "yield"
    run().check_carrier("none")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        (" 0.5h ", 1800),
        ("1:30", 90),
        ("0:90", 90),
        ("2:00:00", 7200),
        ("1-12", 36 * 3600),
        ("1-12:30", 36.5 * 3600),
        ("1-12:30:05", 36.5 * 3600 + 5),
        ("0-00:00:01", 1),
        ("7d", 7 * 86400),
    ],
)
def test_run_time_has_the_forms_of_batch_systems(text, seconds):
    assert parse_run_time(text) == seconds * 10**9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "is not a time; write it like 90s, 1:30,") for text in ("soon", "-1", "")),
        *((text, "is not a time; write it like") for text in ("1:", "1-", "1:2:3:4", "٣")),
        *((text, "is not a time; write it like") for text in ("9" * 5000, "1,5h", "1h30")),
        *(
            (text, "is not more than 0 and at most a year")
            for text in ("0", "0:00", "367d")
        ),
    ],
)
def test_bad_time_is_one_line(text, words, capsys):
    assert run_cli(Run.click_command, ["--time", text, "/bin/true"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cosched-run: Invalid value for '--time': '")
    assert words in printed.err
    assert printed.err.endswith(". See cosched-run --help.\n")
    assert len(printed.err.splitlines()) == 1
    assert len(printed.err) < 200


def test_nothing_configured_means_the_defaults_of_the_keys(settings):
    without = run()
    settings("# nothing\n")
    assert without.limits is None
    assert run() == without._replace(limits=Limits())


def test_each_key_has_a_variable_that_counts_as_configured():
    assert list(setting_variables(map(variable_of, KEYS))) == [*map(variable_of, KEYS)]
    assert list(setting_variables(["COSCHED_RUN_DIR", "COSCHED_RUNS", "HOME"])) == []
