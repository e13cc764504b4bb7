"""Random jobs for nodes with two halves, and a log of what became of them."""

from __future__ import annotations

from hypothesis import strategies as st

from cosched.core.cluster.symbiosis.datastar import DATASTAR, NPB
from cosched.core.cluster.symbiosis.learner import Learner
from cosched.core.cluster.symbiosis.messages import SharingJob
from cosched.core.cluster.symbiosis.placement import PLACEMENTS, by_learner, spread
from cosched.core.cluster.symbiosis.scheduler import ORDERS, SymbioticScheduler
from cosched.sim.engine import Engine
from cosched.sim.symbiotic.machine import SharedMachine
from cosched.sim.symbiotic.runs import NAMES
from cosched.sim.symbiotic.stream import StreamJob

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
        stream.append(StreamJob(job, run))
    return model, stream


def scheduler(model, nodes, placement, order="fcfs", overrun=5):
    learner = Learner(model.labels)
    chosen = (
        spread(by_learner(learner)) if placement == "learned" else PLACEMENTS[placement]
    )
    return SymbioticScheduler(nodes, chosen, ORDERS[order], learner, overrun)


def run(model, stream, nodes, placement, order="fcfs", queue_limit=12):
    """The machine after all is over."""
    engine = Engine()
    machine = SharedMachine(
        engine,
        stream,
        scheduler(model, nodes, placement, order),
        model.matrix,
        queue_limit,
    )
    engine.run(lambda: None)
    return machine


placements = st.sampled_from(NAMES)
