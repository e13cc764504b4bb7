"""Each table of a file is declared once: what is written is read back equal, a reload takes
the live keys and no others, and mistakes have their place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cosched.bench.simulate.models import Calibration
from cosched.bench.workload.file import Workload
from cosched.config.coupling import CouplingTable
from cosched.config.domain import DomainConfig
from cosched.config.queue import QueueSettings
from cosched.config.slurm import SlurmDomain
from cosched.core.config.kinds import duration, whole
from cosched.core.config.mistakes import Invalid
from cosched.core.config.schema import Sections
from cosched.core.config.tables import (
    REQUIRED,
    check,
    fill,
    key,
    keys_of,
    parse,
    read,
    reload,
    table,
    write,
)
from cosched.core.config.words import CARRIERS
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.documents import decode_toml, encode_toml, parse_text
from cosched.shm.region_values import CARRIERS as IN_REGIONS
from tests.unit.core.settings_samples import required, tables_of, values_of

FILES = (Sections, DomainConfig, SlurmDomain, Workload, Calibration)
COUPLING = CouplingTable("127.0.0.1:4", {"e": "127.0.0.1:5"}, metrics="127.0.0.1:3")
#: The values of keys that take few of those of their kind, or one: a random value would
#: nearly always be refused.
SAMPLES = {
    "name": st.sampled_from(("e", "e.f", "e-1")),
    "queue.block": st.just(1),
    "symbiosis.parts": st.just(2),
    "security.root_from": st.just(("n1",)),
    "coupling.users": st.just({"e/a": "b"}),
    "coupling.same_names": st.just(("e",)),
    "resources.features": st.just({"fast": "n1"}),
    "resources.counts": st.just({"gpu": {"n1": 2}}),
    "resources.licences": st.just({"matlab": 1}),
}
RELOADED = (
    DomainConfig("d", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, coupling=COUPLING),
    SlurmDomain("d", "slurm", COUPLING),
)
#: Keys that a coupled domain cannot change.
NOT_COUPLED = ("queue.size", "queue.unit", "symbiosis.parts")
UNCOUPLED = DomainConfig(
    "d", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, queue=QueueSettings("fcfs")
)

WITH_CPUS = replace(UNCOUPLED, queue=QueueSettings("fcfs", unit="cpu"))


def _base(old: Any, path: str) -> Any:
    """Returns a configuration in which this key can change."""
    if path.startswith("resources."):
        return WITH_CPUS
    return UNCOUPLED if path in NOT_COUPLED else old


@pytest.mark.parametrize("schema", FILES)
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_written_file_is_read_back_equal(schema: type, data: st.DataObject) -> None:
    value = data.draw(tables_of(schema))
    comments = {each.path: each.about for each in keys_of(schema)}
    text = encode_toml(write(value), comments)
    values, mistakes = parse(schema, decode_toml(text, "f"))
    assert not mistakes, text
    assert fill(schema, values) == value


@pytest.mark.parametrize(
    ("old", "path"),
    [
        (_base(old, each.path), each.path)
        for old in RELOADED
        for each in keys_of(type(old))
        if each.path != "engine"
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_reload_takes_live_keys_alone(old: Any, path: str, data: st.DataObject) -> None:
    changed = next(each for each in keys_of(type(old)) if each.path == path)
    values, _ = parse(type(old), write(old))
    samples = SAMPLES[path] if path in SAMPLES else values_of(changed)
    value = data.draw(samples)
    new = fill(type(old), {**values, path: value})
    assume(value != values.get(path, changed.default))
    try:
        check(new)
    except Invalid:
        assume(False)
    found = reload(old, new, "the daemon")
    if changed.live:
        assert (found.config, found.changed, found.restart) == (new, (path,), {})
    else:
        restart = {path: changed.restart or "the daemon"}
        assert (found.config, found.changed, found.restart) == (old, (), restart)


@pytest.mark.parametrize("schema", FILES)
def test_default_is_a_value_of_its_kind(schema: type) -> None:
    for each in keys_of(schema):
        if not required(each) and each.default is not None and each.default != "":
            assert each.kind.parse(each.shown(each.default)) == each.default or (
                each.default == () and each.name == "command"
            ), each.path


def test_carriers_are_those_of_the_shim() -> None:
    assert set(CARRIERS) == set(IN_REGIONS.values())


@dataclass(frozen=True, slots=True)
class Inner:
    wait_ns: int = key(duration(2), 5 * NS_PER_S, "A wait.", live=True)
    count: int = key(whole(1, 9), 1, "A number.")


@dataclass(frozen=True, slots=True)
class Outer:
    size: int = key(whole(0), REQUIRED, "A size.")
    inner: Inner = table(Inner)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "f: size: is missing; write size = ... (a whole number of 0 or more)"),
        ("size = 1\ninner = 3", "f:2: inner: is a table: write [inner]"),
        ("size = 1\n[inner]\nwait = 3", "f:3: inner.wait: 3 has no unit; write it like"),
        ("size = 1\n[inner]\nwait = '1ns'", "f:3: inner.wait: '1ns' is too short; write"),
        ("size = 1\n[inner]\ncount = 10", "f:3: inner.count: 10 is not a whole number fr"),
        ("size = 1\n[inner]\ncuont = 1", "f:3: inner.cuont: no such key; did you mean 'c"),
        ("size = 1\nwait = '1s'", "f:2: wait: no such key; it belongs into [inner]"),
        ("size = 1\nzzz = 1", "f:2: zzz: no such key; the keys are size, inner"),
        ('size = "x\\u001b"', "f:1: size: 'x\ufffd' is not a whole number of 0 or more"),
    ],
)
def test_mistake_is_one_line_with_its_place(text: str, line: str) -> None:
    with pytest.raises(CoschedError) as caught:
        parse_text(text, "f", Outer)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_all_mistakes_of_a_file_are_found() -> None:
    with pytest.raises(Invalid) as caught:
        read(Outer, {"size": -1, "inner": {"count": 0, "wait": 1}})
    paths = [each.path for each in caught.value.mistakes]
    assert paths == ["size", "inner.count", "inner.wait"]
