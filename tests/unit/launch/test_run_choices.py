"""cosched-run combines its options with the configuration and its limits."""

from __future__ import annotations

import os

import click
import pytest

from cosched.cli.run.choices import Choices, choose
from cosched.core.config.values import Limits
from cosched.core.errors import CoschedError
from cosched.node import configuration


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Writes the operator's file; nothing else is configured."""
    for name in os.environ:
        if name.startswith("COSCHED_") or name == "XDG_CONFIG_HOME":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    operator = tmp_path / "operator.toml"
    monkeypatch.setattr(configuration, "OPERATOR_FILE", operator)
    return operator.write_text


def run(wait=None, carrier=None, waits_only=False, no_shim=False):
    return choose(
        click.Context(click.Command("cosched-run")),
        wait=wait,
        carrier=carrier,
        waits_only=waits_only,
        no_shim=no_shim,
    )


def test_no_options_give_the_defaults(settings):
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
    monkeypatch.setattr(configuration, "trusted_owner", lambda uid: True)
    with pytest.raises(CoschedError, match="wait 'yield' is not allowed here: use spin"):
        run(wait="yield")
    with pytest.raises(CoschedError, match="carrier 'none' is not allowed here"):
        run().check_carrier("none")
    run().check_carrier("shadow")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run(wait="yield").policy == "yield"
    run().check_carrier("none")
