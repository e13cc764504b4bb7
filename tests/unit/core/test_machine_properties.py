"""The machine: invariants over random histories."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
from cosched.core.node.settings import GMET_LEAST_NS, Order, Settings
from cosched.core.node.slices.free import LEAD_SLICES
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import PERIODS_NS, Node


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
OWNERS_MODES = [mode for mode in Mode if mode is not Mode.RESTING]
CPU_SETS = st.sets(st.integers(0, 3), min_size=1).map(frozenset)


class NodeMachine(RuleBasedStateMachine):
    """Random histories of a node with four CPUs and up to five jobs."""

    def __init__(self):
        super().__init__()
        self.node = Node()
        self.next_task = 1
        self.since = {}

    def send(self, kind, **fields):
        for gone in set(self.node.published) - set(self.node.machine.jobs):
            for record in (self.node.published, self.node.modes, self.node.frozen):
                record.pop(gone, None)
        before = self.node.running
        now_before = {k: j.since_ns for k, j in self.node.machine.jobs.items()}
        commands = self.node.send(kind, **fields)
        if kind is MessageTrapped:
            for job in before - self.node.running:
                ran = self.node.now_ns - now_before[job]
                assert ran >= self.node.machine.settings.gmet_ns
        return commands

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

    @rule(after=st.integers(0, 2 * NS_PER_S))
    def end_slice(self, after):
        self.send(SliceEnded, after_ns=after)

    @precondition(lambda self: with_tasks(self.node))
    @rule(data=st.data(), after=st.integers(0, 300 * NS_PER_MS))
    def trap(self, data, after):
        job = data.draw(st.sampled_from(with_tasks(self.node)))
        self.node.now_ns += after
        state = self.node.machine.jobs[job]
        epoch = state.epoch - data.draw(st.integers(0, 1))
        self.send(
            MessageTrapped, job=job, task=next(iter(state.tasks)), epoch=max(0, epoch)
        )

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
        lasts=st.integers(1, NS_PER_S),
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
            self.send(SliceEnded, after_ns=lasts)
        modes = {job.mode for job in self.node.machine.jobs.values()}
        assert Mode.RESTING not in modes

    @precondition(lambda self: self.node.alarm_ns is not None)
    @rule()
    def ring(self):
        self.node.now_ns = max(self.node.now_ns, self.node.alarm_ns)
        self.node.alarm_ns = None
        self.send(AlarmRang)
        assert not any(
            job.awaits_gmet and job.scheduled for job in self.node.machine.jobs.values()
        )

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


TestNodeMachine = NodeMachine.TestCase
TestNodeMachine.settings = settings(max_examples=70, stateful_step_count=50)


@settings(max_examples=40)
@given(
    count=st.integers(2, 6),
    align=st.booleans(),
    auto=st.booleans(),
    traps=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 400)), max_size=300),
)
def test_no_job_starves_while_the_timer_ticks(count, align, auto, traps):
    """Each job is scheduled within a bounded number of slices, if the timer keeps time."""
    node = Node(Settings(NS_PER_S, 100 * NS_PER_MS, align, slice_auto=auto))
    jobs = "abcdef"[:count]
    for job in jobs:
        node.register(job)
    bound_ns = (count + LEAD_SLICES) * (LEAD_SLICES + 2) * NS_PER_S
    bound_ns = PERIODS_NS if auto else bound_ns
    last_seen = dict.fromkeys(jobs, node.now_ns)
    pulls = iter(traps)

    def advance_to(target_ns):
        while node.now_ns < target_ns:
            deadline = (
                (node.now_ns // NS_PER_S + 1) * NS_PER_S
                if align
                else node.orders.deadline_ns
            )
            step_to = max(node.now_ns, min(target_ns, deadline))
            node.now_ns = step_to
            if step_to == deadline:
                node.send(SliceEnded)
            for job in node.running:
                last_seen[job] = node.now_ns
            for job in jobs:
                assert node.now_ns - last_seen[job] <= bound_ns, job
            if node.now_ns >= target_ns:
                return

    for index, after_ms in pulls:
        advance_to(node.now_ns + after_ms * NS_PER_MS)
        if node.alarm_ns is not None and node.now_ns >= node.alarm_ns:
            node.alarm_ns = None
            node.send(AlarmRang)
        node.trap(jobs[index % count])
    advance_to(node.now_ns + bound_ns + NS_PER_S)
