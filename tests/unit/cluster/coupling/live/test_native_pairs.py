"""The controller of our own domain starts jobs together with those of other domains."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from cosched.cluster.engines.native.job_answers import JobAnswers
from cosched.cluster.record import State
from cosched.config.coupling import CouplingTable
from cosched.core.cluster.coupling.state import Stage
from cosched.core.config.tables import read
from cosched.core.errors import CoschedError
from tests.unit.cluster.coupling.live.native_sites import (
    Crash,
    has_nodes,
    make_sites,
    until,
)

#: More actions than a controller has for a pair.
ACTIONS_MOST = 24
SCHEMES = [(one, other) for one in ("hold", "yield") for other in ("hold", "yield")]


@asynccontextmanager
async def opened(folder, **more):
    sites = make_sites(folder, **more)
    try:
        yield sites.values()
    finally:
        for site in sites.values():
            site.close()


def guarded(make):
    """Runs a coroutine; an error in a callback fails it."""
    errors = []

    def note(_loop, context):
        if not isinstance(context.get("exception"), Crash):
            errors.append(context)

    async def whole():
        asyncio.get_running_loop().set_exception_handler(note)
        return await make()

    result = asyncio.run(whole())
    assert not errors
    return result


def run(folder, scenario, **more):
    """Runs a scenario with two domains."""

    async def make():
        async with opened(folder, **more) as sites:
            await scenario(*sites)

    guarded(make)


def together(al, be, a, b, apart_s=0.5):
    """Whether both jobs have begun, each once; they know each other then."""
    if a not in al.began or b not in be.began:
        return False
    assert len(al.began[a]) == len(be.began[b]) == 1
    assert abs(al.began[a][0] - be.began[b][0]) < apart_s
    assert dict(al.mates[a])["be"].startswith(f"{b}@10.0.0.")
    assert dict(be.mates[b])["al"].startswith(f"{a}@10.0.0.")
    return True


async def over(*jobs):
    for site, number in jobs:
        await until(lambda s=site, n=number: s.state(n).over, f"{number} has not ended")


@pytest.mark.parametrize("schemes", SCHEMES)
def test_a_pair_starts_together_though_one_waits_for_nodes(tmp_path, schemes):
    async def scenario(al, be):
        long = be.submit(nodes=2, run_s=0.3)
        a = al.submit("mate=g@be")
        others = [al.submit(nodes=1) for _ in range(3)]
        b = be.submit("mate=g@al")
        await until(lambda: together(al, be, a, b), "no pair")
        await over((be, long), (al, a), (be, b), *((al, each) for each in others))
        assert {al.state(a), be.state(b)} == {State.DONE}
        # The wait of the pair delayed no other job.
        assert all(al.began[each][0] < al.began[a][0] for each in others)

    run(tmp_path, scenario, schemes=schemes)


@pytest.mark.parametrize("crashing", ["al", "be"])
def test_a_controller_that_crashes_before_any_action_breaks_no_pair(tmp_path, crashing):
    async def scenario(at, al, be):
        victim = {"al": al, "be": be}[crashing]
        a = al.submit("mate=g@be")
        await until(lambda: al.stage(a) is Stage.HOLDING, "it does not hold")
        victim.crash_at = victim.actions + at
        b = 1
        with suppress(Crash):  # it was stored before its user got the number
            b = be.submit("mate=g@al")

        def done():
            if victim.jobs is None:
                victim.start()
            began = a in al.began and b in be.began
            return began and al.state(a).over and be.state(b).over

        await until(done, f"no end after action {at}")
        assert together(al, be, a, b, apart_s=3.0)  # an order may be sent again
        assert al.state(a) is be.state(b) is State.DONE
        return victim.life > 1

    async def one(at):
        folder = tmp_path / str(at)
        folder.mkdir()
        async with opened(folder) as (al, be):
            return await scenario(at, al, be)

    async def all_at_once():
        return await asyncio.gather(*map(one, range(1, ACTIONS_MOST)))

    crashed = guarded(all_at_once)
    assert sum(crashed) > 10
    assert not crashed[-1]  # no action was left out


def test_a_held_job_is_cancelled_and_its_nodes_are_free(tmp_path):
    async def scenario(al, be):
        a = al.submit("mate=g@be", nodes=2)
        await until(lambda: al.stage(a) is Stage.HOLDING, "it does not hold")
        assert "holds 2 nodes" in al.pairs.explain(a)
        al.submitting.cancel(a)
        assert al.state(a) is State.CANCELLED
        other = al.submit(nodes=2)
        b = be.submit("mate=g@al")  # it does not wait for a mate that is over
        await over((al, other), (be, b))
        assert al.state(other) is be.state(b) is State.DONE
        assert a not in al.began

    run(tmp_path, scenario)


def test_a_job_is_cancelled_while_it_is_prepared(tmp_path):
    async def scenario(al, be):
        be.prepares = lambda _number: False
        a, b = al.submit("mate=g@be"), be.submit("mate=g@al")
        await until(lambda: al.stage(a) is Stage.PREPARED, "it is not prepared")
        al.submitting.cancel(a)
        be.submitting.cancel(b)
        await over((al, a), (be, b))
        assert al.state(a) is be.state(b) is State.CANCELLED
        assert not al.began
        assert not be.began
        await over((al, al.submit(nodes=2)))

    run(tmp_path, scenario)


def test_a_held_submission_keeps_its_mate_waiting(tmp_path):
    async def scenario(al, be):
        a = al.submit("mate=g@be", held=True)
        b = be.submit("mate=g@al")
        await until(lambda: has_nodes(be, b), "it does not hold")
        al.jobs.batch_jobs.unhold([a])
        await until(lambda: together(al, be, a, b), "no pair")
        c = al.submit("mate=h@be")
        with pytest.raises(CoschedError, match="has mates, which would start without it"):
            al.jobs.batch_jobs.hold([c])

    run(tmp_path, scenario)


def test_a_group_of_other_members_is_refused_at_submission_and_forgotten(tmp_path):
    async def scenario(al, be):
        a = al.submit("mate=g@be")
        await until(lambda: al.stage(a) is Stage.HOLDING, "it does not hold")
        record = be.submitting.submit(be.record("mate=g@al,within=60s"))
        with pytest.raises(CoschedError, match=r"al refuses its group: .* other jobs"):
            await be.submitting.expect_accord(record)
        assert be.state(record.number) is State.CANCELLED
        right = be.submitting.submit(be.record("mate=g@al"))
        await be.submitting.expect_accord(right)
        await until(lambda: together(al, be, a, right.number), "no pair")

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("mates", "line"),
    [
        ("mate=g@eurka", "domain 'eurka' is not coupled; known: be"),
        ("mate=g@al", "al is this domain"),
        ("within=60s", "name at least one"),
        ("mate=g", "is not GROUP@DOMAIN"),
        ("mate=g@be,mate=h@be", "a job is in one group"),
        ("mate=g@be,after=lens", "is no domain of the group"),
    ],
)
def test_mates_that_cannot_be_are_refused_and_not_stored(tmp_path, mates, line):
    async def scenario(al, _be):
        with pytest.raises(CoschedError, match=line):
            al.submit(mates)
        assert al.store.find(1) is None

    run(tmp_path, scenario)


def test_a_second_job_of_a_group_and_one_that_is_too_large_are_refused(tmp_path):
    async def scenario(al, _be):
        al.submit("mate=g@be")
        with pytest.raises(CoschedError, match="job 1 is in it"):
            al.submit("mate=g@be")
        assert al.state(2) is State.CANCELLED
        with pytest.raises(CoschedError, match="infeasible: needs 9 nodes"):
            al.submit("mate=h@be", nodes=9)

    run(tmp_path, scenario)


def test_the_name_of_a_group_can_be_used_again_when_its_jobs_are_forgotten(tmp_path):
    async def scenario(al, be):
        a, b = al.submit("mate=g@be"), be.submit("mate=g@al")
        await until(lambda: together(al, be, a, b), "no pair")
        await over((al, a), (be, b))
        with pytest.raises(CoschedError, match=f"job {a} is in it"):
            al.submit("mate=g@be")

        waiting = {al: "mate=x@be", be: "mate=y@al"}
        for site, mates in waiting.items():
            site.submit(mates)

        def forgotten(site, number):
            """A domain forgets jobs at the next job with mates, also if it refuses that."""
            with pytest.raises(CoschedError, match="is in it"):
                site.submit(waiting[site])
            return site.stage(number) is None

        await until(lambda: forgotten(al, a) and forgotten(be, b), "a job is not forgotten")
        c, d = al.submit("mate=g@be"), be.submit("mate=g@al")
        await until(lambda: together(al, be, c, d), "no pair")

    run(tmp_path, scenario, remember="300ms")


def test_three_domains_start_together(tmp_path):
    async def scenario(al, be, ce):
        sites = {"al": al, "be": be, "ce": ce}
        busy = ce.submit(nodes=2, run_s=0.3)
        jobs = {}
        for name, site in sites.items():
            others = [f"mate=g@{other}" for other in sites if other != name]
            jobs[name] = site.submit(",".join(others))
        await over(*((sites[name], job) for name, job in jobs.items()), (ce, busy))
        begins = [sites[name].began[job][0] for name, job in jobs.items()]
        assert max(begins) - min(begins) < 0.5
        assert [name for name, _ in al.mates[jobs["al"]]] == ["be", "ce"]

    names = ("al", "be", "ce")
    run(tmp_path, scenario, names=names, schemes=("hold", "yield", "hold"))


def test_each_other_domain_has_its_state_and_its_jobs(tmp_path):
    def about(site):
        (found,) = site.pairs.domains()
        assert (found["down_since_ns"] is not None) == (found["state"] == "down")
        return found["domain"], found["state"], found["waiting"], found["running"]

    async def scenario(al, be):
        assert about(al) == ("be", "unknown", 0, 0)
        be.crash()
        a = al.submit("mate=g@be", run_s=1)
        assert about(al) == ("be", "up", 1, 0)
        await until(lambda: about(al) == ("be", "down", 1, 0), "be is not down")
        be.start()
        b = be.submit("mate=g@al", run_s=1)
        await until(lambda: about(al) == ("be", "up", 0, 1), "no pair")
        await over((al, a), (be, b))
        assert about(al) == ("be", "up", 0, 0)

    run(tmp_path, scenario, answer="2s")


def test_jobs_without_mates_do_not_wait_for_a_domain_that_is_down(tmp_path):
    async def scenario(al, be):
        be.crash()
        a = al.submit("mate=g@be")
        others = [al.submit(nodes=2) for _ in range(3)]
        await over(*((al, each) for each in others))
        assert a not in al.began
        be.start()
        b = be.submit("mate=g@al")
        await until(lambda: together(al, be, a, b), "no pair")

    run(tmp_path, scenario, schemes=("yield", "yield"))


def test_a_hold_outlasts_a_drain_and_moves_from_a_lost_node(tmp_path):
    async def scenario(al, be):
        a = al.submit("mate=g@be")
        await until(lambda: al.stage(a) is Stage.HOLDING, "it does not hold")
        for member in al.members.by_number:
            al.jobs.node_drained(member)
        assert al.stage(a) is Stage.HOLDING
        first, second = al.members.by_number
        al.jobs.node_joined(second)
        al.jobs.node_lost(first)  # the job had the lowest node
        assert al.stage(a) is Stage.QUEUING
        b = be.submit("mate=g@al")
        await until(lambda: together(al, be, a, b), "no pair")
        assert dict(be.mates[b])["al"] == f"{a}@10.0.0.2"

    run(tmp_path, scenario)


def test_exclusive_job_with_mates_survives_a_restart_with_shared_nodes(tmp_path):
    async def scenario(al, be):
        a = al.submit("mate=g@be", exclusive=True)
        await until(lambda: has_nodes(al, a), "no nodes")
        held = al.submit("mate=h@be", exclusive=True, held=True)
        al.crash()
        al.config = replace(al.config, queue=replace(al.config.queue, jobs_per_node=2))
        al.start()
        al.jobs.batch_jobs.unhold([held])
        b = be.submit("mate=g@al")
        await until(lambda: together(al, be, a, b), "no pair")
        await over((al, a), (be, b))

    run(tmp_path, scenario)


@pytest.mark.parametrize("known", [True, False])
def test_mates_in_a_domain_that_was_removed_leave_no_job_without_an_end(tmp_path, known):
    """known: the job was announced; its mate's domain counts as down then."""

    async def scenario(al, be):
        a = al.submit("mate=g@be", nodes=2)
        await until(lambda: al.stage(a) is Stage.HOLDING, "it does not hold")
        be.crash()
        al.crash()
        if not known:  # the controller ended before it announced the job
            (al.folder / "mates.sqlite").unlink()
        table = {"listen": "127.0.0.1:1", "domains": {"ce": "127.0.0.1:2"}, "answer": "2s"}
        al.config = replace(al.config, coupling=read(CouplingTable, table))
        al.start()
        if known:
            await over((al, a))
            assert al.state(a) is State.DONE
            answers = JobAnswers(al.jobs, al.store, al.members)
            assert answers.why(al.record_of(a), answers.waits()) == (
                "ended with status 0; started without g@be: be does not answer"
            )
        else:
            assert al.state(a) is State.CANCELLED
            assert "domain 'be' is not coupled; known: ce" in al.record_of(a).reason

    run(tmp_path, scenario)


@pytest.mark.parametrize("cancelled", [False, True])
def test_size_of_a_job_with_mates_is_known_once_a_node_has_joined(tmp_path, cancelled):
    async def scenario(al, be):
        long = al.submit(nodes=2, run_s=0.3)
        a = al.submit("mate=g@be", nodes=0, ppn=0, ranks=4)
        await until(lambda: al.state(long) is State.RUNNING, "no start")
        al.crash()
        al.config = replace(al.config, slots=0)
        if cancelled:
            al.early = lambda: al.submitting.cancel(a)
        al.start()
        if cancelled:
            assert al.state(a) is State.CANCELLED
            return
        b = be.submit("mate=g@al")
        await until(lambda: together(al, be, a, b), "no pair")
        assert al.record_of(a).hosts == tuple(al.config.node_names[:1])

    run(tmp_path, scenario)
