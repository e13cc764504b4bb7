"""Plans the runs of each of Yoo and Jette's figures (section 3.2), and of the fleet.

Pure, except that it reads workload files.

A plan is a list of points: a workload, a setup, and the place in the figure. There are two
scales. ``lab`` is for two nodes of one core: a figure takes minutes, and slices and GMET
are as long relative to the jobs as in the paper. ``paper`` is for a cluster.

Figs. 2 and 3 compare the paper's policy (arm ``paper``) with the other ways to share nodes.
Fig. 4 to 6 sweep its slice, GMET and degree of multiprogramming (DOM). cosched has its
default settings in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.bench.run.arms import Arm, Setup
from cosched.bench.workload.file import JobSpec, Workload, load_workload

ROOT = Path(__file__).parents[3]
WORKLOADS = ROOT / "benchmarks" / "workloads"
BULK = ROOT / "benchmarks" / "programs" / "bulk.c"
AUTO = {"slice": "auto", "gmet": "auto"}
THREE = ("workload1", "workload2", "workload3")
#: The arms that take turns of a fixed length.
FIXED = (Arm.GANG, Arm.MESSAGES, Arm.PAPER)

#: The fleet's work a rank: some 1.5 s; its grains, in units of a nanosecond or so.
FLEET_WORK = 1_200_000_000
FLEET_GRAINS = (30_000, 300_000, 3_000_000, 30_000_000)
FLEET_DOMS = (2, 4)
FLEET_PLACEMENTS = ("spread", "double", "uneven")


@dataclass(frozen=True, slots=True)
class Scale:
    """Lengths that belong together. A length in text has its unit, or is ``auto``."""

    folder: str  #: the workloads of Figs. 2 to 6
    arms: tuple[Arm, ...]  #: those of Figs. 2 and 3
    #: Slice and GMET of the arms that take turns of a fixed length.
    turns: Mapping[str, str]
    wait_gmet: str  #: the GMET of Fig. 4
    wait_slices: tuple[str, ...]  #: the slices of Fig. 4
    gmet_slice: str  #: the slice of Fig. 5
    gmets: tuple[str, ...]  #: the axis of Fig. 5
    slice_gmet: str  #: the GMET of Fig. 6
    slices: tuple[str, ...]  #: the axis of Fig. 6
    auto_folder: str  #: the workloads beside slice=auto
    auto_slices: tuple[str, ...]  #: the fixed slices beside slice=auto
    limit_s: float  #: a longer run counts as failed


SCALES = {
    "lab": Scale(
        folder="yoo",
        arms=(Arm.BATCH, Arm.KERNEL, Arm.GANG, Arm.PAPER, Arm.COSCHED),
        turns={"slice": "0.5s", "gmet": "167ms"},
        wait_gmet="67ms",
        wait_slices=("0.5s", "1s"),
        gmet_slice="0.5s",
        gmets=("35ms", "100ms", "167ms", "335ms"),
        slice_gmet="167ms",
        slices=("0.5s", "1s", "1.5s"),
        auto_folder="lab",
        auto_slices=("1s", "2s", "4s", "8s"),
        limit_s=600.0,
    ),
    "paper": Scale(
        folder="paper",
        # No gang: its driver must reach all nodes' daemons.
        arms=(Arm.BATCH, Arm.KERNEL, Arm.PAPER, Arm.COSCHED),
        turns={"slice": "15s", "gmet": "5s"},
        wait_gmet="2s",
        wait_slices=("15s", "30s"),
        gmet_slice="30s",
        gmets=("2s", "5s", "10s", "15s", "20s"),
        slice_gmet="5s",
        slices=("5s", "10s", "15s", "20s", "30s"),
        auto_folder="paper",
        auto_slices=("5s", "15s", "60s", "240s"),
        limit_s=4 * 3600.0,
    ),
}


@dataclass(frozen=True, slots=True)
class Way:
    """A point of a figure."""

    workload: Workload  #: the jobs
    setup: Setup  #: the arm and its settings
    series: str  #: its line or bar
    x: str  #: its place on the axis


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole figure."""

    figure: str  #: a key of PLANS
    title: str  #: above the figure
    xlabel: str  #: the words below the axis
    ways: tuple[Way, ...]  #: its points
    repeats: int = 3  #: the usual number of runs of each way
    value: str = "mean_response_s"  #: the drawn figure, mean_response_s or mean_wait_s
    seen: int = 0  #: runs of each program alone before, so that its length is known

    @property
    def workloads(self) -> list[Workload]:
        """Each once."""
        return list({way.workload.title: way.workload for way in self.ways}.values())


Load = Callable[[str], Workload]


def make_plan(figure: str, scale: Scale, arms: Sequence[Arm] | None, quick: bool) -> Plan:
    """The plan of a figure.

    arms: of Figs. 2 and 3, other than the usual ones. quick: the same with a few jobs of
    the smallest size, to see that it works; its times mean nothing.
    """

    folder = scale.auto_folder if figure == "auto" else scale.folder

    def load(name: str) -> Workload:
        return load_workload(WORKLOADS / folder / f"{name}.toml")

    plan = PLANS[figure](scale, load, arms)
    return _quick(plan) if quick else plan


def _quick(plan: Plan) -> Plan:
    """The plan's two ends: its first and last workloads and places on the axis."""
    ends = (plan.ways[0], plan.ways[-1])
    places = {way.x for way in ends}
    titles = {way.workload.title for way in ends}
    ways = tuple(
        replace(way, workload=shrunk(way.workload))
        for way in plan.ways
        if way.x in places and way.workload.title in titles
    )
    return replace(plan, ways=ways, repeats=1)


def shrunk(workload: Workload) -> Workload:
    """Two of its jobs, of the smallest size."""
    first, *others = workload.jobs
    count = 1 if others else 2
    jobs = tuple(_shrunk_job(spec, count) for spec in (first, *others[:1]))
    return replace(workload, jobs=jobs)


def _shrunk_job(spec: JobSpec, count: int) -> JobSpec:
    """Class S of a NAS benchmark, or few short steps of bulk.c."""
    small = tuple("S" if word in ("W", "A", "B") else word for word in spec.command)
    args = ("--steps", "20", "--work", "30000") if spec.source else spec.args
    return replace(spec, count=count, command=small, args=args)


# --- the paper's figures ---


def _setup(arm: Arm, turns: Mapping[str, str]) -> Setup:
    """The arm, with turns of a fixed length if it takes such."""
    return Setup(arm, turns if arm in FIXED else {})


def _compared(
    figure: str, title: str, xlabel: str, names: Mapping[str, str]
) -> Callable[[Scale, Load, Sequence[Arm] | None], Plan]:
    """Returns the plan of every workload, by its file, under every arm. names: x of each
    file."""

    def plan(scale: Scale, load: Load, arms: Sequence[Arm] | None) -> Plan:
        ways = tuple(
            Way(load(name), _setup(arm, scale.turns), arm.value, x)
            for name, x in names.items()
            for arm in arms or scale.arms
        )
        return Plan(figure, title, xlabel, ways)

    return plan


_fig2 = _compared(
    "fig2",
    "Mean response of three workloads (Fig. 2)",
    "workload",
    {name: name[-1] for name in THREE},
)
_fig3 = _compared(
    "fig3",
    "Mean response by the degree of multiprogramming (Fig. 3)",
    "degree of multiprogramming",
    {f"dom{n}": str(n) for n in (2, 3, 4, 5)},
)


def _fig4(scale: Scale, load: Load, _arms: Sequence[Arm] | None) -> Plan:
    many = load("many")
    ways = [Way(many, Setup(Arm.BATCH), "batch", "batch")]
    for dom in (2, 3, 4):
        for slice_ in scale.wait_slices:
            settings = {"slice": slice_, "gmet": scale.wait_gmet}
            setup = Setup(Arm.PAPER, settings, dom)
            ways.append(Way(many, setup, "paper", f"({slice_}, {dom})"))
        ways.append(Way(many, Setup(Arm.COSCHED, {}, dom), "cosched", f"(auto, {dom})"))
    return Plan(
        "fig4",
        "Mean wait of many jobs (Fig. 4)",
        "(slice, degree of multiprogramming)",
        tuple(ways),
        value="mean_wait_s",
    )


def _swept(points: Sequence[tuple[str, Mapping[str, str]]], load: Load) -> tuple[Way, ...]:
    """Three workloads under the paper's policy over settings; beside them the kernel and
    cosched, to which the settings do not apply. Fig. 2 has the other arms."""
    ways = []
    for name in THREE:
        workload = load(name)
        for arm in (Arm.KERNEL, Arm.COSCHED):
            series = f"{arm.value}, workload {name[-1]}"
            ways.append(Way(workload, Setup(arm), series, "any"))
        for x, settings in points:
            series = f"{Arm.PAPER.value}, workload {name[-1]}"
            ways.append(Way(workload, Setup(Arm.PAPER, settings), series, x))
    return tuple(ways)


def _fig5(scale: Scale, load: Load, _arms: Sequence[Arm] | None) -> Plan:
    points = [(gmet, {"slice": scale.gmet_slice, "gmet": gmet}) for gmet in scale.gmets]
    return Plan(
        "fig5",
        f"Mean response by GMET, slice {scale.gmet_slice} (Fig. 5)",
        "GMET",
        _swept(points, load),
    )


def _fig6(scale: Scale, load: Load, _arms: Sequence[Arm] | None) -> Plan:
    points = [
        (slice_, {"slice": slice_, "gmet": scale.slice_gmet}) for slice_ in scale.slices
    ]
    return Plan(
        "fig6",
        f"Mean response by the slice, GMET {scale.slice_gmet} (Fig. 6)",
        "slice",
        _swept(points, load),
    )


# --- beyond the paper ---


def _auto(scale: Scale, load: Load, _arms: Sequence[Arm] | None) -> Plan:
    """Three workloads with fixed slices, and with one that adapts itself to the lengths of
    jobs that the nodes have seen."""
    points = [*((s, {"slice": s}) for s in scale.auto_slices), ("auto", AUTO)]
    ways = tuple(
        Way(load(name), Setup(Arm.COSCHED, settings), f"cosched, workload {name[-1]}", x)
        for name in THREE
        for x, settings in points
    )
    return Plan("auto", "Mean response by the slice, and slice=auto", "slice", ways, seen=2)


def fleet_workload(grain: int, dom: int, placement: str) -> Workload:
    """``dom`` jobs of bulk.c.

    spread: a rank on each of two nodes. double: two on each, with half the work. uneven:
    every other job has both its ranks on the first node, so that the nodes' jobs differ.
    """

    def job(name: str, ranks: int, ppn: int, count: int) -> JobSpec:
        steps = FLEET_WORK // ppn // grain
        args = ("--steps", str(steps), "--work", str(grain))
        return JobSpec(name, ranks, source=BULK, args=args, count=count, ppn=ppn)

    jobs = {
        "spread": (job("spread", 2, 1, dom),),
        "double": (job("double", 4, 2, dom),),
        "uneven": (job("spread", 2, 1, dom - dom // 2), job("packed", 2, 2, dom // 2)),
    }[placement]
    title = f"{placement}, {dom} jobs, grain {grain}"
    return Workload(title, "", jobs, origin="fleet")


def _fleet(_scale: Scale, _load: Load, _arms: Sequence[Arm] | None) -> Plan:
    ways = [
        Way(
            fleet_workload(grain, dom, placement),
            Setup(arm),
            f"{arm.value}, {placement}, {dom}",
            str(grain),
        )
        for placement in FLEET_PLACEMENTS
        for dom in FLEET_DOMS
        for grain in FLEET_GRAINS
        for arm in (Arm.KERNEL, Arm.COSCHED)
    ]
    return Plan(
        "fleet",
        "Where coscheduling pays: mean response, cosched / kernel",
        "computation between two messages",
        tuple(ways),
        repeats=1,
    )


PLANS: Mapping[str, Callable[[Scale, Load, Sequence[Arm] | None], Plan]] = {
    "fig2": _fig2,
    "fig3": _fig3,
    "fig4": _fig4,
    "fig5": _fig5,
    "fig6": _fig6,
    "auto": _auto,
    "fleet": _fleet,
}
