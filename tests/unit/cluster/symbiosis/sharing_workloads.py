"""Random jobs for nodes with two halves, and a log of what became of them."""

from __future__ import annotations

from hypothesis import strategies as st

from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.placement import USUAL_PARTS, placement_of
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.policies import Policy
from cosched.core.symbiosis.labels import LabelRecord
from cosched.sim.symbiotic.datastar import DATASTAR, NPB
from cosched.sim.symbiotic.driver import SharedMachine
from cosched.sim.symbiotic.stream import StreamJob
from cosched.sim.symbiotic.symbiotic_runs import NAMES, ORDERS
from cosched.sim.virtual_time import VirtualTime

MODELS = (DATASTAR, NPB)


@st.composite
def streams(draw, nodes):
    """(model, stream) of jobs that fit on so many nodes."""
    model = draw(st.sampled_from(MODELS))
    labels = model.labels
    stream = []
    count = draw(st.integers(1, 25))
    submits = sorted(draw(st.lists(st.integers(0, 60), min_size=count, max_size=count)))
    for number, submit in enumerate(submits):
        application = draw(st.sampled_from(model.matrix.names))
        run = draw(st.integers(0, 50))
        told = draw(st.integers(1, 60))
        size = draw(st.integers(1, 2 * nodes))
        job = SharingJob(
            number, size, told, submit, application=application, limits=labels[application]
        )
        stream.append(StreamJob(job, run, number % 3, job.limits))
    return model, stream


def halves(model, nodes, placement, overrun=5, share_up_to=1.0):
    learner = Learner(model.labels)
    chosen = placement_of(placement, learner)
    return Halves(((0, nodes - 1),) if nodes else (), chosen, learner, overrun, share_up_to)


def scheduler(model, nodes, placement, share_up_to=1.0):
    place = halves(model, nodes, placement, share_up_to=share_up_to)
    return QueueMachine(place, Policy(ORDERS["fcfs"], Easy))


def run(model, stream, nodes, placement, order="fcfs", queue_limit=12, share_up_to=1.0):
    """The machine after all is over."""
    engine = VirtualTime()
    machine = SharedMachine(
        engine,
        stream,
        halves(model, nodes, placement, share_up_to=share_up_to),
        Policy(ORDERS[order], Easy),
        model.matrix,
        queue_limit,
        LabelRecord(),
    )
    engine.run(lambda: None)
    return machine


placements = st.sampled_from(NAMES)
sharing_placements = st.sampled_from(tuple(USUAL_PARTS))
