"""``[coupling]`` in the ``domain.toml`` of our own domain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from cosched.cli.commands import cosched
from cosched.cluster.coupling.mail import connect
from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.config.domain import load_config, parse_config, write_config
from cosched.config.restarts import CONTROLLER_ALONE
from cosched.core.config.tables import reload
from cosched.core.errors import CoschedError
from cosched.documents import decode_toml

COUPLING = {
    "listen": "10.0.0.1:7580",
    "domains": {"eureka": "10.0.0.2:7580"},
    "same_names": ["eureka"],
    "scheme": "yield",
}


def document(**more):
    return {
        "name": "intrepid",
        "controller": "127.0.0.1:1",
        "nodes": {"n1": "127.0.0.1:2"},
        "coupling": COUPLING,
        **more,
    }


@pytest.mark.parametrize(
    ("written", "rest_ns"), [({}, 0), ({"yield_wait": "2s"}, 2 * 10**9)]
)
def test_a_yielded_job_rests_as_the_file_asks(written, rest_ns):
    config = parse_config(document(coupling={**COUPLING, **written}))
    assert config.coupled.settings.rest_ns == rest_ns


def test_a_written_file_is_read_as_it_was():
    config = parse_config(document(metrics={"listen": "127.0.0.1:9435"}))
    assert config.metrics.listen == "127.0.0.1:9435"
    assert parse_config(decode_toml(write_config(config), "f")) == config
    assert config.coupled.name == "intrepid"
    assert config.coupled.settings.scheme.value == "yield"
    assert parse_config(document(coupling={})).coupled is None


def test_agents_do_not_depend_on_the_coupling():
    one, other = parse_config(document()), parse_config(document(coupling={}))
    assert [one.digest(name) for name in one.nodes] == [
        other.digest(name) for name in other.nodes
    ]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"queue": {"policy": "conservative"}}, "conservative cannot hold or yield"),
        (
            {"coupling": {**COUPLING, "scheme": "wait"}},
            "coupling.scheme: 'wait' is none of",
        ),
        (
            {"coupling": {**COUPLING, "schema": "hold"}},
            "schema: no such key; did you mean",
        ),
        ({"coupling": {"listen": "10.0.0.1:7580", "domains": {}}}, "at least one other"),
        ({"metrics": {"listen": "here"}}, "metrics.listen: 'here' is not HOST:PORT"),
        ({"name": "eureka"}, "coupling.domains: eureka is this domain"),
        (
            {"coupling": {**COUPLING, "listen": "10.0.0.2:7580"}},
            "coupling.domains: eureka: 10.0.0.2:7580 is the address of this domain",
        ),
        (
            {"controller": COUPLING["listen"]},
            "coupling.listen: 10.0.0.1:7580 is the address of the controller",
        ),
        (
            {"coupling": {**COUPLING, "domains": {"eureka": "h:1", "lens": "h:1"}}},
            "coupling.domains: lens: h:1 is the address of domain eureka",
        ),
    ],
)
def test_a_mistake_is_refused_with_one_line(more, line):
    with pytest.raises(CoschedError, match=line) as error:
        parse_config(document(**more))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ': controller: is missing; write controller = "HOST:PORT"'),
        ('controller = ""\n', ":1: controller: '' is not HOST:PORT, with a port from 1"),
    ],
    ids=["no key", "empty"],
)
def test_file_without_a_controller_is_refused_with_what_to_write(text, line, tmp_path):
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    paths.config.write_text(f'{text}[nodes]\nn1 = "127.0.0.1:2"\n')
    with pytest.raises(CoschedError) as error:
        load_config(paths.config)
    assert str(error.value).startswith(f"{paths.config}{line}")


def test_another_address_needs_a_restart():
    old = parse_config(document())
    new = replace(old, coupling=replace(old.coupling, listen="127.0.0.1:9"))
    change = reload(old, new, CONTROLLER_ALONE)
    assert change.restart == {"coupling.listen": CONTROLLER_ALONE}
    assert change.config == old


def test_keygen_makes_the_keys_of_members_and_of_the_domain(tmp_path):
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    paths.config.write_text(write_config(parse_config(document())))
    words = ["cluster", "keygen", "--run-dir", str(tmp_path)]
    done = CliRunner().invoke(cosched, words)
    assert done.output.splitlines() == [
        f"made 2 pairs of keys in {paths.keys}",
        f"made 1 pair of keys in {paths.peers}",
    ]
    assert CliRunner().invoke(cosched, words).output.splitlines() == [
        f"each member has its keys in {folder} already"
        for folder in (paths.keys, paths.peers)
    ]
    assert load_config(paths.config) == parse_config(document())
    assert (paths.peers / "intrepid.public").exists()
    (paths.keys / "n1.secret").unlink()
    assert CliRunner().invoke(cosched, words).output.splitlines()[0] == (
        "n1.secret is not here: each machine has its own; for a new pair remove n1.public "
        "first"
    )
    assert not (paths.keys / "n1.secret").exists()


def test_gate_of_a_domain_without_slurm_is_one_line(tmp_path):
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    words = ["cluster", "gate", "--run-dir", str(tmp_path)]
    assert str(CliRunner().invoke(cosched, words).exception) == (
        f"{paths.config}: is missing; write it first, or name another --run-dir"
    )
    paths.config.write_text(write_config(parse_config(document())))
    assert str(CliRunner().invoke(cosched, words).exception) == (
        f'{paths.config}: has no engine = "slurm", so it has no gate'
    )


def test_public_key_of_another_domain_that_is_missing_is_asked_for(tmp_path):
    """No command here can make the key of another domain."""
    paths = DomainPaths(tmp_path)
    coupled = parse_config(document()).coupled
    make_keys(paths.peers, [coupled.name])
    why = r"eureka\.public: No such file or directory; copy the NAME\.public of each"
    with pytest.raises(CoschedError, match=why):
        connect(paths, coupled, print)
