"""Some settings of a new domain.toml are taken at once; others need a restart."""

from dataclasses import fields, replace

import pytest

from cosched.cluster.config import (
    DomainConfig,
    LifeSettings,
    QueueSettings,
    SecuritySettings,
    StartupSettings,
)
from cosched.cluster.controller.reloading import compare
from cosched.core.errors import CoschedError

OLD = DomainConfig("d", "a:1", {"n1": "a:2", "n2": "a:3"})


def test_live_settings_are_taken_and_named():
    new = replace(
        OLD, queue=QueueSettings("fcfs", 2, 5, 6), life=LifeSettings(10**9, 3 * 10**9)
    )
    change = compare(OLD, new)
    assert change.config == new
    assert change.text == (
        "changed: queue.policy, queue.jobs_per_node, queue.default_time, queue.grace, "
        "life.lost_after"
    )


def test_other_settings_stay_and_need_a_restart():
    new = replace(
        OLD,
        controller="a:9",
        nodes={"n2": "a:3", "n1": "a:2"},
        slots=3,
        startup=StartupSettings(chunk_bytes=1),
    )
    change = compare(OLD, new)
    assert (change.config, change.changed) == (OLD, ())
    assert change.text == (
        "needs a restart of the domain: controller, nodes, slots, startup.chunk"
    )


def test_same_file_changes_nothing():
    assert compare(OLD, OLD).text == "nothing has changed"


def test_live_part_must_fit_the_part_that_stays():
    life = LifeSettings(beat_ns=10**8, lost_after_ns=10**9)
    with pytest.raises(CoschedError, match="at least twice the old"):
        compare(OLD, replace(OLD, life=life))


COUPLING = {"listen": "a:8", "domains": {"e": "b:8"}, "metrics": "a:9", "release": "5min"}
COUPLED = replace(OLD, coupling=COUPLING)


def with_coupling(**changed):
    return replace(COUPLED, coupling={**COUPLED.coupling, **changed})


def test_settings_of_pairs_are_taken():
    new = with_coupling(scheme="yield", release="3min", same_names=["e"])
    change = compare(COUPLED, new)
    assert change.config == new
    names = ("coupling.release", "coupling.same_names", "coupling.scheme")
    assert (change.changed, change.restart) == (names, ())


def test_addresses_of_other_domains_need_a_restart():
    new = with_coupling(domains={"e": "b:8", "f": "c:8"}, listen="a:7", scheme="yield")
    del new.coupling["metrics"]
    change = compare(COUPLED, new)
    assert change.changed == ("coupling.scheme",)
    assert change.restart == ("coupling.domains", "coupling.listen", "coupling.metrics")
    assert change.config == with_coupling(scheme="yield")


def test_settings_for_a_domain_that_is_not_coupled_yet_are_refused():
    new = with_coupling(domains={"e": "b:8", "f": "c:8"}, same_names=["f"])
    with pytest.raises(CoschedError, match="'f' is not in coupling"):
        compare(COUPLED, new)


@pytest.mark.parametrize(("old", "new"), [(OLD, COUPLED), (COUPLED, OLD)])
def test_to_couple_a_domain_or_to_end_it_needs_a_restart(old, new):
    change = compare(old, new)
    assert (change.config, change.restart) == (old, ("coupling",))


def test_policy_must_suit_the_pairs_that_stay():
    new = replace(OLD, queue=QueueSettings("conservative"))
    with pytest.raises(CoschedError, match="conservative cannot hold or yield"):
        compare(COUPLED, new)


def test_each_setting_is_compared():
    tables = {
        "queue": QueueSettings,
        "startup": StartupSettings,
        "life": LifeSettings,
        "security": SecuritySettings,
    }
    for name, kind in tables.items():
        for field in fields(kind):
            value = getattr(kind(), field.name)
            other = f"{value}x" if isinstance(value, str) else (value or ("n1",)) * 2
            new = replace(OLD, **{name: replace(kind(), **{field.name: other})})
            if field.name == "beat_ns":
                continue  # tested above
            change = compare(OLD, new)
            assert len(change.changed) + len(change.restart) == 1, field.name
