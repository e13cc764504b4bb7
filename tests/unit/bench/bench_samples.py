"""Results of a bench that never ran."""

from cosched.bench.measure.load import OutsideLoad
from cosched.bench.results.results import Activity, Failure, JobResult, Run
from cosched.bench.results.summary import summarise_arms
from cosched.bench.run.arms import Arm


def load(share):
    """Outside load of ``share`` of two CPUs during 5 s."""
    return OutsideLoad(busy_s=8.0 + 10 * share, jobs_s=7.5, overhead_s=0.5, capacity_s=10)


def run(arm, repeat, responses, share=0.01):
    """A run of two jobs, both submitted at its beginning."""
    jobs = tuple(
        JobResult(f"wavefront.{n}", 0.0, 0.0, response, 3.0 + n / 10)
        for n, response in enumerate(responses, 1)
    )
    activity = Activity(4, 6, 2 * repeat) if arm is Arm.COSCHED else Activity(0, 0, 0)
    return Run(arm, repeat, jobs, load(share), activity)


def failed_run(arm, repeat):
    failure = Failure(
        "job 'wavefront.1' ended with status 3",
        ("reading input", "cannot open 'mesh.dat'"),
    )
    return Run(arm, repeat, (), failure=failure)


BATCH = (
    run(Arm.BATCH, 1, (1.6, 3.2)),
    run(Arm.BATCH, 2, (1.7, 3.3)),
    run(Arm.BATCH, 3, (1.6, 3.1)),
)
KERNEL = (
    run(Arm.KERNEL, 1, (4.0, 4.2)),
    run(Arm.KERNEL, 2, (4.3, 4.4)),
    run(Arm.KERNEL, 3, (9.0, 9.9), share=0.31),
)
COSCHED = (
    run(Arm.COSCHED, 1, (2.9, 3.4)),
    run(Arm.COSCHED, 2, (3.0, 3.3)),
    run(Arm.COSCHED, 3, (3.1, 3.5)),
)


def summaries(*groups):
    return summarise_arms({group[0].arm: group for group in groups})
