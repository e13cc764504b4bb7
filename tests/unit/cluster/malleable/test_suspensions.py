"""Jobs that are suspended so that waiting ones borrow their nodes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from test_resizing_properties import NODES, Agents

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import (
    ContinueJob,
    EndJob,
    SuspendJob,
    WakeAt,
    Why,
)
from cosched.core.cluster.queue.queue_events import (
    BoundsChanged,
    JobCancelled,
    JobContinued,
    JobEnded,
    JobRecovered,
    JobSubmitted,
    JobSuspended,
    NodesDrained,
    NodesLost,
    SettingsChanged,
    SuspendRefused,
    Ticked,
)
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, HARVESTS, NEVER
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import (
    MOLDABLE,
    Control,
    Distribution,
    SizePolicy,
)
from cosched.core.cluster.queue.sizes.suspension import Suspended, Suspension
from cosched.core.errors import CoschedError
from cosched.sim.malleable.driver import simulate

FR = Distribution.FAVOUR_RUNNING
ONCE = Suspension(100, 1)


def policy(suspension=ONCE, harvest=NEVER, **control):
    sizes = SizePolicy(
        harvest, FR, None, Control(**{"spared_ns": 5} | control), suspension=suspension
    )
    return Policy(FCFS, InOrder, sizes)


class Played:
    """A queue of four nodes whose commands are kept."""

    def __init__(self, policy, grace=None):
        self.queue = QueueMachine(Elastic(((0, 3),)), policy, grace)

    def feed(self, event, tick=True):
        """Returns the commands of an event and its tick, but wake-ups."""
        found = list(self.queue.handle(event))
        if tick:
            found += self.queue.handle(Ticked(event.now_ns))
        return [each for each in found if not isinstance(each, WakeAt)]

    def submit(self, number, size, run=50, at=0, least=None):
        if least is None:
            return self.feed(JobSubmitted(at, Job(number, size, run, at)))
        job = MalleableJob(number, size, run, at, minimum=least)
        return self.feed(JobSubmitted(at, job))


def nodes_of(command):
    return command.nodes


def lent(policy=None):
    """Returns a queue whose job 1 is suspended, and job 2 runs on its nodes since 20."""
    played = Played(policy or policy_once())
    played.submit(1, 4, run=200)
    assert played.submit(2, 3, at=10) == [SuspendJob(1, 2)]
    (start,) = played.feed(JobSuspended(20, 1))
    assert (start.job.number, start.nodes, start.lender) == (2, ((0, 2),), 1)
    return played


def policy_once():
    return policy(ONCE)


def test_first_job_borrows_nodes_and_gives_them_back():
    played = lent()
    assert played.feed(JobEnded(60, 2)) == [ContinueJob(1)]
    assert played.feed(JobContinued(61, 1)) == []
    run = played.queue.place.running[1]
    assert (run.end_ns, run.suspended_ns) == (200 + 41, 41)
    assert played.feed(JobEnded(241, 1)) == []
    assert played.queue.place.free == 4


def test_forecast_counts_the_time_of_suspensions():
    """Job 2 runs for 50 on nodes of job 1, which then ends at 250."""
    played = lent()
    played.submit(3, 4, run=150, at=30)
    assert forecast(played.queue, 40) == {3: 250}
    ahead = Played(policy_once())
    ahead.submit(1, 4, run=200)
    ahead.submit(2, 3, at=10)
    ahead.submit(3, 4, run=150, at=15)
    assert forecast(ahead.queue, 15) == {2: 15, 3: 250}


def test_longest_running_suitable_job_is_suspended():
    played = Played(policy())
    played.submit(1, 1, run=500)  # too small
    played.submit(2, 2, run=500, at=5)
    played.submit(3, 1, run=500, at=6)
    assert played.submit(4, 2, at=10) == [SuspendJob(2, 4)]


def test_equal_ages_go_by_number():
    played = Played(policy())
    for number in (1, 2):
        played.submit(number, 2, run=500)
    assert played.submit(3, 2, at=10) == [SuspendJob(1, 3)]


def test_long_job_borrows_nothing():
    played = Played(policy())
    played.submit(1, 4, run=500)
    assert played.submit(2, 4, run=101, at=10) == []
    assert played.feed(JobCancelled(11, 2)) == []
    assert played.submit(3, 4, run=100, at=12) == [SuspendJob(1, 3)]


def test_job_without_a_limit_borrows_nothing():
    played = Played(policy())
    played.submit(1, 4, run=500)
    job = Job(2, 4, 50, 10, limited=False)
    assert played.feed(JobSubmitted(10, job)) == []


def test_job_that_has_no_limit_may_be_suspended_after_its_expected_end():
    for limited, orders in ((True, []), (False, [SuspendJob(1, 2)])):
        played = Played(policy())
        job = Job(1, 4, 50, 0, limited=limited)
        played.feed(JobSubmitted(0, job))
        assert played.submit(2, 4, at=60) == orders


def test_size_on_loan_counts_for_length():
    """With half its ideal a malleable job takes twice as long."""
    played = Played(policy())
    for number in (1, 2):
        played.submit(number, 2, run=500)
    assert played.submit(3, 4, run=51, at=10, least=1) == []
    played.feed(JobCancelled(11, 3))
    assert played.submit(4, 4, run=50, at=12, least=1) == [SuspendJob(1, 4)]
    (start,) = played.feed(JobSuspended(13, 1))
    assert start.nodes == ((0, 1),)


def test_harvest_comes_first():
    played = Played(policy(harvest=EVEN))
    played.submit(1, 4, run=500, least=1)
    assert [each.number for each in played.submit(2, 2, at=10)] == [1]  # it shrinks
    assert not played.queue.planner.counts.suspensions


def test_young_job_is_spared():
    played = Played(policy(protected_ns=30))
    played.submit(1, 4, run=500)
    assert played.submit(2, 4, at=29) == []
    played = Played(policy(protected_ns=30))
    played.submit(1, 4, run=500)
    assert played.submit(2, 4, at=30) == [SuspendJob(1, 2)]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_suspensions_of_a_job_are_bounded(most):
    played = Played(policy(Suspension(100, most)))
    played.submit(1, 4, run=5000)
    now, times = 10, 0
    for number in range(2, 8):
        found = played.submit(number, 4, at=now)
        if not found:
            break
        times += 1
        assert found == [SuspendJob(1, number)]
        played.feed(JobSuspended(now + 1, 1))
        assert played.feed(JobEnded(now + 50, number)) == [ContinueJob(1)]
        assert played.feed(JobContinued(now + 51, 1)) == []
        now += 100
    assert times == most


def test_job_that_has_continued_is_spared():
    played = Played(policy(Suspension(100, 5)))
    played.submit(1, 4, run=5000)
    played.submit(2, 4, at=10)
    played.feed(JobSuspended(11, 1))
    played.submit(3, 4, at=12)
    assert played.feed(JobEnded(50, 2)) == [ContinueJob(1)]
    assert played.feed(JobContinued(50, 1)) == []
    assert played.feed(Ticked(54), tick=False) == []
    assert played.feed(Ticked(55), tick=False) == [SuspendJob(1, 3)]


def test_refused_suspension_spares_the_job_and_tries_another():
    played = Played(policy())
    for number in (1, 2):
        played.submit(number, 2, run=500, at=number)
    assert played.submit(3, 2, at=10) == [SuspendJob(1, 3)]
    assert played.feed(SuspendRefused(11, 1)) == [SuspendJob(2, 3)]


def test_cancelled_borrower_lets_the_job_continue():
    played = Played(policy())
    played.submit(1, 4, run=200)
    played.submit(2, 4, at=10)
    assert played.feed(JobCancelled(11, 2)) == []
    assert played.feed(JobSuspended(12, 1)) == [ContinueJob(1)]


def test_borrower_that_needs_no_loan_lets_the_job_continue():
    """Its nodes have come free meanwhile."""
    played = Played(policy())
    for number, run in ((1, 500), (2, 400)):
        played.submit(number, 2, run=run, at=number)
    assert played.submit(3, 2, at=10) == [SuspendJob(1, 3)]
    (start,) = played.feed(JobEnded(11, 2))
    assert (start.job.number, start.lender) == (3, None)
    assert played.feed(JobSuspended(12, 1)) == [ContinueJob(1)]


def test_end_of_the_owner_gives_the_borrower_its_nodes():
    played = lent()
    assert played.feed(JobCancelled(25, 1)) == [EndJob(1, Why.CANCELLED)]
    played.feed(JobEnded(26, 1))
    place = played.queue.place
    assert (place.free_nodes, place.loans) == (((3, 3),), {})
    assert place.nodes_of(2) == ((0, 2),)
    played.feed(JobEnded(30, 2))
    assert place.free == 4


def test_lost_node_ends_both_jobs():
    played = lent()
    ends = played.feed(NodesLost(25, ((1, 1),)))
    assert ends == [EndJob(1, Why.NODE_LOST), EndJob(2, Why.NODE_LOST)]
    played.feed(JobEnded(26, 2))
    played.feed(JobEnded(27, 1))
    assert played.queue.place.free == 3


def test_lost_node_that_is_not_lent_ends_its_owner():
    played = lent()
    assert played.feed(NodesLost(25, ((3, 3),))) == [EndJob(1, Why.NODE_LOST)]
    played.feed(JobEnded(26, 1))
    assert played.feed(JobEnded(30, 2)) == []
    assert played.queue.place.free == 3


def test_drained_node_is_not_lent():
    played = Played(policy())
    played.submit(1, 4, run=200)
    played.submit(2, 4, at=10)
    played.feed(NodesDrained(11, ((0, 0),)))
    assert played.feed(JobSuspended(12, 1)) == [ContinueJob(1)]


def test_limit_leaves_out_the_time_of_a_suspension():
    played = Played(policy(), grace=10)
    played.submit(1, 4, run=200)
    played.submit(2, 4, run=50, at=10)
    played.feed(JobSuspended(20, 1))
    assert played.queue.wake_ns == 20 + 50 + 10  # that of job 2: job 1 stands still
    played.feed(JobEnded(70, 2))
    played.feed(JobContinued(75, 1))
    assert played.feed(Ticked(264), tick=False) == []
    assert played.feed(Ticked(265), tick=False) == [EndJob(1, Why.WALLTIME)]


def test_borrower_keeps_its_size():
    played = lent(policy(harvest=EVEN))
    played.submit(3, 1, at=30)
    assert played.feed(JobEnded(60, 2)) == [ContinueJob(1)]


def test_bounds_of_a_suspended_job_may_change():
    played = Played(policy(harvest=EVEN))
    played.submit(1, 4, run=400, least=4)
    assert played.submit(2, 2, at=10) == [SuspendJob(1, 2)]
    played.feed(JobSuspended(20, 1))
    assert played.feed(BoundsChanged(21, 1, 1, 2)) == []
    assert played.feed(JobEnded(60, 2)) == [ContinueJob(1)]
    played.feed(JobContinued(61, 1))
    (resize,) = played.feed(Ticked(66), tick=False)
    assert (resize.number, resize.nodes) == (1, ((0, 1),))


def test_suspended_job_continues_without_the_setting():
    played = lent()
    easy = Policy(FCFS, Easy, SizePolicy(EVEN, FR))
    assert played.feed(SettingsChanged(30, easy, None)) == []
    played.submit(3, 4, at=31)
    assert played.feed(JobEnded(60, 2)) == [ContinueJob(1)]
    assert played.feed(JobContinued(61, 1)) == []


@pytest.mark.parametrize("word", ["stops", "stopped", "continues"])
def test_restart_goes_on_where_it_was(word):
    played = Played(policy())
    since = None if word == "stops" else 15
    found = Suspended(2, since, word == "continues", 1, 0)
    played.feed(
        JobRecovered(20, Job(1, 4, 200, 0), ((0, 3),), 0, suspension=found), tick=False
    )
    commands = played.feed(JobSubmitted(20, Job(2, 4, 50, 10)))
    if word == "stops":
        assert commands == []
        commands = played.feed(JobSuspended(21, 1))
    if word == "continues":
        assert commands == []
        assert played.feed(JobContinued(22, 1)) == []
        assert played.queue.place.running[1].end_ns == 200 + 7
    else:
        assert [each.lender for each in commands] == [1]


def test_restart_with_a_borrower():
    played = Played(policy(), grace=10)
    found = Suspended(2, 15, False, 1, 30)
    job = Job(1, 4, 200, 0)
    event = JobRecovered(20, job, ((0, 3),), 0, suspension=found)
    played.feed(event, tick=False)
    event = JobRecovered(20, Job(2, 3, 50, 10), ((0, 2),), 16, lender=1)
    assert played.feed(event) == []
    assert played.queue.wake_ns == 16 + 50 + 10
    assert played.feed(JobEnded(30, 2)) == [ContinueJob(1)]
    played.feed(JobContinued(35, 1))
    assert played.queue.place.running[1].suspended_ns == 30 + 20


def test_restart_without_the_owner_leaves_the_nodes_to_the_borrower():
    played = Played(policy())
    event = JobRecovered(20, Job(2, 3, 50, 10), ((0, 2),), 16, lender=1)
    played.feed(event)
    assert played.queue.place.free == 1
    assert not played.queue.place.loans


def test_easy_refuses_suspensions():
    sizes = SizePolicy(EVEN, FR, suspension=ONCE)
    with pytest.raises(CoschedError, match=r"^suspend: does not combine with easy"):
        QueueMachine(Elastic(((0, 3),)), Policy(FCFS, Easy, sizes))


@pytest.mark.parametrize("wrong", [(0, 1), (5, 0)])
def test_bad_strategies_are_refused(wrong):
    with pytest.raises(CoschedError, match="want 1 or more"):
        Suspension(*wrong)


def test_a_queue_without_sizes_suspends_nothing():
    played = Played(Policy(FCFS, InOrder, MOLDABLE))
    played.submit(1, 4)
    with pytest.raises(CoschedError, match="cannot be suspended"):
        played.feed(JobSuspended(1, 1))


# --- random runs --------------------------------------------------------------------------


def step(agents, random):
    """Lets one thing happen, chosen so that jobs often wait for suspended ones."""
    pick = random.randrange(1000)
    word = random.choices(
        ["submit", "wait", "end", "stop", "continue", "refuse", "cancel", "done",
         "restart", "drain", "join", "lose", "bounds"],
        [14, 6, 3, 12, 12, 1, 1, 4, 1, 0.3, 2, 0.3, 1],
    )[0]  # fmt: skip
    match word:
        case "submit":
            least = random.randint(1, NODES)
            run, rigid = random.choice([5, 20, 500]), random.random() < 0.6
            agents.submit(least=least, more=random.randint(0, 4), run=run, rigid=rigid)
        case "wait":
            agents.wait(steps=random.randint(1, 15))
        case "end" if agents.on:
            agents.end(pick=pick)
        case "stop" if agents.orders("stops"):
            agents.suspended(pick=pick, tick=random.random() < 0.8)
        case "continue" if agents.orders("continues"):
            agents.continued(pick=pick)
        case "refuse" if agents.orders("stops"):
            agents.suspend_refused(pick=pick)
        case "cancel" if agents.queue.jobs:
            agents.cancel(pick=pick)
        case "done" if agents.changes:
            agents.done(pick=pick, cost=1, tick=True)
        case "restart":
            agents.restart(policy=agents.policy, kept=random.random() < 0.5)
        case "drain" | "join" | "lose":
            getattr(agents, word)(nodes={random.randrange(NODES)})
        case "bounds" if agents.elastic():
            sizes = (random.randint(1, NODES), random.randint(1, NODES))
            agents.rebound(pick=pick, sizes=sizes, tick=True)


def test_random_runs_give_no_node_twice_and_every_job_continues():
    counts = Counter()
    for seed in range(250):
        random = Random(seed)
        suspension = Suspension(random.choice([30, 1000]), random.randint(1, 3))
        agents = Agents()
        harvest, spared_ns = random.choice(list(HARVESTS.values())), random.choice([1, 9])
        agents.policy = policy(suspension, harvest, spared_ns=spared_ns)
        agents.begin(policy=agents.policy, grace=random.choice([None, 10]))
        for _ in range(80):
            step(agents, random)
            counts["loans"] += bool(agents.loans)
            counts["suspended"] += bool(agents.stops)
            agents.each_node_has_one_job()
            agents.the_queue_knows_what_its_driver_knows()
            agents.plan_promises_no_more_than_there_is()
            assert all(times <= suspension.most for times in agents.stopped.values())
        agents.teardown()
    assert counts["suspended"] > 300
    assert counts["loans"] > 1000


def test_simulated_jobs_lose_no_more_than_the_bounds():
    """Work is done once: a suspended job runs as long as alone, and is away bounded."""
    suspended = 0
    for seed in range(60):
        random = Random(seed)
        most, longest = random.randint(1, 2), 30
        jobs, submit = [], 0
        for number in range(25):
            submit += random.randint(0, 12)
            size = random.randint(1, NODES)
            run = random.randint(1, 80)
            jobs.append(MalleableJob(number, size, run, submit, minimum=size))
        sizes = SizePolicy(
            NEVER, FR, None, Control(spared_ns=1), suspension=Suspension(longest, most)
        )
        found = simulate(jobs, NODES, sizes, InOrder)
        suspended += found.counts.suspensions
        for job, start, end in zip(jobs, found.start_ns, found.end_ns, strict=True):
            assert 0 <= end - start - job.walltime_ns <= most * longest
    assert suspended > 50
