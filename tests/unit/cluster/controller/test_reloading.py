"""Some settings of a new domain.toml are taken at once; others need a restart."""

from dataclasses import replace

import pytest

from cosched.config.coupling import CouplingTable
from cosched.config.domain import DomainConfig, LifeSettings, StartupSettings
from cosched.config.queue import QueueSettings
from cosched.config.restarts import CONTROLLER_ALONE, MEMBERS
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.core.config.tables import reload
from cosched.core.errors import CoschedError

OLD = DomainConfig("d", "a:1", {"n1": "a:2", "n2": "a:3"})


def test_live_settings_are_taken_and_named():
    new = replace(
        OLD,
        nodes={"n2": "a:3", "n3": "a:4"},
        queue=QueueSettings("fcfs", 2, 5, 6),
        life=LifeSettings(10**9, 3 * 10**9),
    )
    change = reload(OLD, new, CONTROLLER_ALONE)
    assert change.config == new
    assert change.text == (
        "changed: nodes, queue.policy, queue.jobs_per_node, queue.default_time, "
        "queue.grace, life.lost_after"
    )


def test_other_settings_stay_and_need_a_restart():
    new = replace(
        OLD,
        controller="a:9",
        slots=3,
        startup=StartupSettings(chunk_bytes=1),
        own_daemons=True,
        most_nodes=5,
    )
    change = reload(OLD, new, CONTROLLER_ALONE)
    assert (change.config, change.changed) == (OLD, ())
    assert change.text == (
        "needs a restart of the controller and all agents: controller, slots, "
        "startup.chunk; needs a restart of the controller: most_nodes; needs a restart of "
        "all agents: own_daemons"
    )


def test_settings_that_all_members_must_agree_on_need_a_restart_of_all():
    """Otherwise a restarted controller refuses the agents, which end with their tasks."""
    for name, other in [
        ("name", "e"),
        ("controller", "a:9"),
        ("startup", StartupSettings(arity=2)),
        ("symbiosis", SymbiosisSettings(parts=2)),
    ]:
        new = replace(OLD, **{name: other})
        assert new.digest("n1") != OLD.digest("n1")
        assert set(reload(OLD, new, CONTROLLER_ALONE).restart.values()) == {MEMBERS}


def test_same_file_changes_nothing():
    assert reload(OLD, OLD, CONTROLLER_ALONE).text == "nothing has changed"


def test_live_part_must_fit_the_part_that_stays():
    life = LifeSettings(beat_ns=10**8, lost_after_ns=10**9)
    stays = r"twice life\.beat; life\.beat stays until a restart of the controller and all"
    with pytest.raises(CoschedError, match=stays):
        reload(OLD, replace(OLD, life=life), CONTROLLER_ALONE)


COUPLING = CouplingTable("a:8", {"e": "b:8"}, metrics="a:9")
YIELD = CouplingSettings(scheme=Scheme.YIELD)
COUPLED = replace(OLD, coupling=COUPLING)


def with_coupling(**changed):
    return replace(COUPLED, coupling=replace(COUPLING, **changed))


def test_settings_of_pairs_are_taken():
    new = with_coupling(settings=replace(YIELD, release_ns=5), same_names=("e",))
    change = reload(COUPLED, new, CONTROLLER_ALONE)
    assert change.config == new
    names = ("coupling.same_names", "coupling.scheme", "coupling.release")
    assert (change.changed, change.restart) == (names, {})


def test_addresses_of_other_domains_need_a_restart():
    domains = {"e": "b:8", "f": "c:8"}
    new = with_coupling(domains=domains, listen="a:7", settings=YIELD, metrics=None)
    change = reload(COUPLED, new, CONTROLLER_ALONE)
    assert change.changed == ("coupling.scheme",)
    assert set(change.restart.values()) == {CONTROLLER_ALONE}
    assert [*change.restart] == ["coupling.listen", "coupling.domains", "coupling.metrics"]
    assert change.config == with_coupling(settings=YIELD)


def test_settings_for_a_domain_that_is_not_coupled_yet_are_refused():
    new = with_coupling(domains={"e": "b:8", "f": "c:8"}, same_names=("f",))
    with pytest.raises(CoschedError, match="'f' is not in coupling"):
        reload(COUPLED, new, CONTROLLER_ALONE)


@pytest.mark.parametrize(("old", "new"), [(OLD, COUPLED), (COUPLED, OLD)])
def test_to_couple_a_domain_or_to_end_it_needs_a_restart(old, new):
    change = reload(old, new, CONTROLLER_ALONE)
    assert (change.config, change.restart) == (old, {"coupling": CONTROLLER_ALONE})


def test_policy_must_suit_the_pairs_that_stay():
    new = replace(OLD, queue=QueueSettings("conservative"))
    with pytest.raises(CoschedError, match="conservative cannot hold or yield"):
        reload(COUPLED, new, CONTROLLER_ALONE)
