"""The machine: invariants over random histories."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cosched.core.node.cpu_need import Use, mostly_waits
from cosched.core.node.groups import connected, fits
from cosched.core.node.messages import (
    AlarmRang,
    MessageTrapped,
    Mode,
    ModeChosen,
    RestChosen,
    SettingsChanged,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    TurnGiven,
    UseRead,
)
from cosched.core.node.resting_jobs import LONGEST_NS
from cosched.core.node.settings import GMET_LEAST_NS, Order, Settings
from cosched.core.node.slices.free import PRECEDENCE
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import Node
from tests.unit.core.machine_promises import check
from tests.unit.core.node_moment import Moment


def taking_part(machine):
    return [job for job in machine.jobs.values() if job.mode.takes_part]


def barred(jobs, key):
    """Whether a mode keeps a job from a turn that it is given."""
    job = jobs[key]
    raised = [j for j in jobs.values() if j.mode is Mode.RAISED and j.cpus & job.cpus]
    return not job.mode.takes_part or (raised and job.mode is not Mode.RAISED)


def with_tasks(node):
    """The keys of the jobs that have tasks."""
    return sorted(key for key, job in node.machine.jobs.items() if job.tasks)


JOBS = st.sampled_from("abcde")
#: Most turns last longer than a GMET, and some for several slices.
PAUSES_NS = st.integers(0, 300 * NS_PER_MS) | st.integers(0, 5 * NS_PER_S)
OWNERS_MODES = [mode for mode in Mode if mode is not Mode.RESTING]
#: Some jobs that need all of their CPUs compete with narrow jobs side by side.
CROWDED = [frozenset({0}), frozenset({0}), frozenset({1}), frozenset({0, 1})]
CPU_SETS = st.sampled_from(CROWDED) | st.sets(st.integers(0, 3), min_size=1).map(frozenset)


class NodeMachine(RuleBasedStateMachine):
    """Random histories of a node with four CPUs and up to five jobs."""

    def __init__(self):
        super().__init__()
        self.node = Node()
        self.next_task = 1
        self.seen_ns = self.node.now_ns
        self.ages_ns = {}

    def send(self, kind, **fields):
        for gone in set(self.node.published) - set(self.node.machine.jobs):
            for record in (self.node.published, self.node.modes, self.node.frozen):
                record.pop(gone, None)
        before = Moment(self.node)
        commands = self.node.send(kind, **fields)
        check(before, self.node, kind, fields, commands)
        self.count_ages(before)
        return commands

    def count_ages(self, before):
        """Each job has exactly the CPU time in which it was scheduled."""
        passed_ns = self.node.now_ns - self.seen_ns
        self.seen_ns = self.node.now_ns
        for key, job in self.node.machine.jobs.items():
            was = before.jobs.get(key)
            ran_ns = passed_ns if was is not None and was.scheduled else 0
            self.ages_ns[key] = ran_ns + (self.ages_ns[key] if was is not None else 0)
            assert job.age_ns(self.node.now_ns) == self.ages_ns[key]

    @initialize(
        align=st.booleans(),
        auto=st.booleans(),
        order=st.sampled_from(Order),
        gmet_ms=st.sampled_from([20, 100, 400]),
        crowd=st.lists(st.sampled_from(CROWDED), max_size=5),
    )
    def begin(self, align, auto, order, gmet_ms, crowd):
        """Each kind of slices has histories of its own from the first job on. Jobs that
        compete start together, with a task on each of their CPUs."""
        begun = Settings(NS_PER_S, gmet_ms * NS_PER_MS, align, auto, order=order)
        self.send(SettingsChanged, settings=begun)
        for job, cpus in zip("dbace", crowd, strict=False):
            for _ in cpus:
                self.register(job=job, cpus=cpus, after=0)

    @rule(job=JOBS, cpus=CPU_SETS, after=st.integers(0, 3 * NS_PER_S))
    def register(self, job, cpus, after):
        self.send(TaskRegistered, after_ns=after, job=job, task=self.next_task, cpus=cpus)
        self.next_task += 1

    @rule(job=JOBS, cpus=CPU_SETS, after=st.integers(0, 3 * NS_PER_S))
    def launch(self, job, cpus, after):
        new = {"job": job, "task": self.next_task, "cpus": cpus, "launcher": True}
        self.send(TaskRegistered, after_ns=after, **new)
        self.next_task += 1

    @precondition(lambda self: with_tasks(self.node))
    @rule(
        data=st.data(), cpus=CPU_SETS, after=st.integers(0, NS_PER_S), another=st.booleans()
    )
    def come_to_mpi(self, data, cpus, after, another):
        job = data.draw(st.sampled_from(with_tasks(self.node)))
        before = dict(self.node.machine.jobs[job].tasks)
        old = data.draw(st.sampled_from(sorted(before)))
        task = self.next_task if another else old
        self.next_task += another
        new = {"job": job, "task": task, "cpus": cpus, "replaces": old}
        self.send(TaskRegistered, after_ns=after, **new)
        del before[old]
        state = self.node.machine.jobs[job]
        assert state.tasks == {**before, task: cpus}
        assert state.cpus >= cpus

    @precondition(lambda self: self.node.machine.jobs)
    @rule(data=st.data(), after=st.integers(0, NS_PER_S))
    def exit(self, data, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        task = data.draw(st.sampled_from(sorted(self.node.machine.jobs[job].members)))
        self.send(TaskExited, after_ns=after, job=job, task=task)

    def wait_for(self, data, ends_ns):
        """Passes some time, or the time until one of these ends or just before it."""
        coming_ns = sorted(end_ns for end_ns in ends_ns if end_ns > self.node.now_ns)
        if coming_ns and data.draw(st.booleans()):
            early_ns = data.draw(st.sampled_from([0, 1, 10 * NS_PER_MS]))
            end_ns = data.draw(st.sampled_from(coming_ns))
            self.node.now_ns = max(self.node.now_ns, end_ns - early_ns)
        else:
            self.node.now_ns += data.draw(PAUSES_NS)

    @rule(data=st.data(), times=st.integers(1, 4))
    def end_slices(self, data, times):
        machine = self.node.machine
        for _ in range(times):
            running = [job for job in machine.jobs.values() if job.scheduled]
            ends_ns = [job.since_ns + machine.slice_ns(job.key) for job in running]
            self.wait_for(data, ends_ns)
            self.send(SliceEnded)

    @precondition(lambda self: with_tasks(self.node))
    @rule(data=st.data(), times=st.integers(1, 4))
    def trap(self, data, times):
        """Messages are the most frequent events, and most of them reach waiting jobs."""
        for _ in range(times):
            jobs, settings = self.node.machine.jobs, self.node.machine.settings
            able = with_tasks(self.node)
            waiting = [key for key in able if not jobs[key].scheduled]
            state = jobs[data.draw(st.sampled_from(waiting * 3 + able))]
            self.wait_for(
                data,
                [
                    job.since_ns + much * settings.gmet_within_ns(slice_ns)
                    for key, job in jobs.items()
                    if job.scheduled
                    for slice_ns in [self.node.machine.slice_ns(key)]
                    for much in (1, PRECEDENCE)
                ],
            )
            self.ask(data, state)

    def ask(self, data, state):
        """Delivers a message, sometimes one that was sent in an earlier epoch."""
        epoch = max(0, state.epoch - data.draw(st.sampled_from([0, 0, 0, 1])))
        task = next(iter(state.tasks))
        self.send(MessageTrapped, job=state.key, task=task, epoch=epoch)

    @precondition(lambda self: self.node.machine.jobs)
    @rule(data=st.data(), after=st.integers(0, 300 * NS_PER_MS))
    def give_turn(self, data, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        self.send(TurnGiven, after_ns=after, job=job)
        if not barred(self.node.machine.jobs, job):
            assert self.node.machine.jobs[job].scheduled

    @precondition(lambda self: self.node.machine.jobs)
    @rule(
        data=st.data(),
        after=st.integers(0, NS_PER_S),
        waited_ns=st.integers(0, 8 * NS_PER_S),
        cpu_ns=st.none() | st.integers(0, 8 * NS_PER_S),
    )
    def read_use(self, data, after, waited_ns, cpu_ns):
        key = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        before = self.node.running
        self.send(UseRead, after_ns=after, uses=((key, Use(waited_ns, cpu_ns)),))
        assert 0 <= self.node.machine.jobs[key].need <= 100
        assert self.node.running == before

    @precondition(lambda self: self.node.machine.jobs)
    @rule(
        data=st.data(), mode=st.sampled_from(OWNERS_MODES), after=st.integers(0, NS_PER_S)
    )
    def choose(self, data, mode, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        self.send(ModeChosen, after_ns=after, job=job, mode=mode)
        assert self.node.machine.jobs[job].mode is mode

    @rule(
        jobs=st.frozensets(JOBS, max_size=2),
        after=st.integers(0, NS_PER_S),
        lasts=st.integers(1, 6 * NS_PER_S),
        ended=st.booleans(),
    )
    def rest(self, jobs, after, lasts, ended):
        until_ns = self.node.now_ns + after + lasts
        self.send(RestChosen, after_ns=after, jobs=tuple(sorted(jobs)), until_ns=until_ns)
        self.published_statuses_agree_with_the_machine()
        self.modes_are_those_that_owners_chose()
        self.scheduled_jobs_fit_and_no_other_job_fits_beside_them()
        if ended:
            self.send(RestChosen, jobs=(), until_ns=0)
        else:
            resting = self.resting()
            self.send(SliceEnded, after_ns=min(lasts, LONGEST_NS) - 1)
            assert self.resting() == resting
            self.send(SliceEnded, after_ns=1)
        modes = {job.mode for job in self.node.machine.jobs.values()}
        assert Mode.RESTING not in modes

    def resting(self):
        jobs = self.node.machine.jobs
        return {key for key, job in jobs.items() if job.mode is Mode.RESTING}

    @precondition(lambda self: self.node.alarm_ns is not None)
    @rule()
    def ring(self):
        self.node.now_ns = max(self.node.now_ns, self.node.alarm_ns)
        self.node.alarm_ns = None
        self.send(AlarmRang)

    @rule(
        slice_s=st.integers(1, 3),
        gmet_ms=st.integers(0, 2000),
        switches=st.tuples(st.booleans(), st.booleans(), st.booleans()),
        order=st.sampled_from(Order),
    )
    def change(self, slice_s, gmet_ms, switches, order):
        align, slice_auto, gmet_auto = switches
        gmet_ns = GMET_LEAST_NS if gmet_auto else gmet_ms * NS_PER_MS
        new = Settings(
            slice_s * NS_PER_S, gmet_ns, align, slice_auto, gmet_auto, order=order
        )
        self.send(SettingsChanged, settings=new)

    @invariant()
    def scheduled_jobs_fit_and_no_other_job_fits_beside_them(self):
        jobs = taking_part(self.node.machine)
        running = [job for job in jobs if job.scheduled]
        assert fits(running)
        for job in jobs:
            assert job.scheduled or not fits([*running, job])

    @invariant()
    def every_group_runs_exactly_one_job_if_no_two_fit(self):
        for group in connected(taking_part(self.node.machine)):
            running = [job for job in group if job.scheduled]
            assert running
            pairs = [(a, b) for a in group for b in group if a.key < b.key]
            if not any(fits(pair) for pair in pairs):
                assert len(running) == 1

    @invariant()
    def waiting_jobs_have_few_percent_and_scheduled_ones_the_rest(self):
        part = taking_part(self.node.machine)
        if part:
            assert set(self.node.shares) == {job.key for job in part}
        for group in connected(part):
            paper = self.node.machine.settings.order is Order.PAPER
            leaves = any(job.scheduled and mostly_waits(job.need) for job in group)
            fills = leaves and not paper
            waiting = [job for job in group if not job.scheduled]
            filling = [job for job in waiting if fills and not mostly_waits(job.need)]
            each = max(1, 10 // max(1, len(filling)))
            low = {job.key: each if job in filling else int(paper) for job in waiting}
            for job in group:
                assert self.node.shared[job.key] == job.cpus
                share = low.get(job.key, 100 - sum(low.values()))
                assert self.node.shares[job.key] == share

    @invariant()
    def published_statuses_agree_with_the_machine(self):
        for key, job in self.node.machine.jobs.items():
            told = job.scheduled or job.mode is Mode.RELEASED
            assert self.node.published[key] == (job.epoch, told)
            members = set() if job.mode is Mode.RELEASED else set(job.members)
            assert self.node.members.get(key, set()) == members

    @invariant()
    def modes_are_those_that_owners_chose(self):
        jobs = self.node.machine.jobs
        for key, job in jobs.items():
            assert self.node.modes.get(key, Mode.COSCHEDULED) is job.mode
            assert job.mode.takes_part or not job.scheduled
            overlapping = [j for j in jobs.values() if j is not job and j.cpus & job.cpus]
            if job.mode is Mode.RAISED and job.scheduled:
                assert not any(other.scheduled for other in overlapping)
        frozen = {key for key, job in jobs.items() if job.mode.stops}
        assert set(self.node.frozen) & set(jobs) == frozen
        for key in frozen:
            assert self.node.frozen[key] >= set(jobs[key].members)

    @invariant()
    def job_has_processes_and_joins_with_its_first_task(self):
        for job in self.node.machine.jobs.values():
            assert job.members
            assert job.joined or not job.tasks
            assert not job.tasks.keys() & job.launchers.keys()

    @invariant()
    def raised_job_waits_only_for_raised_jobs(self):
        for job in taking_part(self.node.machine):
            if job.mode is Mode.RAISED and not job.scheduled:
                assert any(
                    other.mode is Mode.RAISED and other.scheduled and other.cpus & job.cpus
                    for other in self.node.machine.jobs.values()
                )

    @invariant()
    def published_contention_agrees_with_the_machine(self):
        for group in connected(taking_part(self.node.machine)):
            waits = any(not job.scheduled for job in group)
            for job in group:
                assert (job.key in self.node.contended) == waits
        for key, job in self.node.machine.jobs.items():
            assert job.mode.takes_part or key not in self.node.contended

    @invariant()
    def timer_runs_exactly_while_a_job_waits(self):
        if self.node.orders is not None:
            waiting = any(not job.scheduled for job in taking_part(self.node.machine))
            assert self.node.orders.idle == (not waiting)

    @invariant()
    def a_turn_ends_in_time(self):
        node, settings = self.node, self.node.machine.settings
        paper = settings.order is Order.PAPER
        by_rest = settings.slice_auto and settings.order is Order.REST
        if paper or settings.align or by_rest:
            return
        for group in connected(taking_part(node.machine)):
            running = [job for job in group if job.scheduled]
            if len(running) < len(group):
                due_ns = min(j.since_ns + node.machine.slice_ns(j.key) for j in running)
                assert node.orders.deadline_ns <= max(node.now_ns, due_ns)


TestNodeMachine = NodeMachine.TestCase
TestNodeMachine.settings = settings(max_examples=70, stateful_step_count=50)
