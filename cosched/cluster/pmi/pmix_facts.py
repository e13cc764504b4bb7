"""Lists what a PMIx server and its clients learn of a job, as keys, types and values.

The names of the keys are those of the PMIx standard (``pmix_common.h``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from cosched.cluster.pmi.service import JobLayout, NodeTasks


class Kind(Enum):
    """The type of a fact's value."""

    TEXT = auto()
    FLAG = auto()
    UINT16 = auto()
    UINT32 = auto()
    RANK = auto()
    FACTS = auto()
    NODES = auto()  #: hosts, separated by commas; libpmix compresses them
    PLACES = auto()  #: ranks of each node, separated by semicolons; likewise


@dataclass(frozen=True, slots=True)
class Fact:
    """One key and its value."""

    key: str  #: its name in PMIx
    kind: Kind  #: its type in PMIx
    value: str | int | tuple[Fact, ...]  #: as its kind wants it


def server_facts(layout: JobLayout, directory: Path) -> tuple[Fact, ...]:
    """Returns what the server itself needs. Clients take its host name for their own."""
    return (
        Fact("pmix.srv.nspace", Kind.TEXT, f"{layout.space}.server"),
        Fact("pmix.srv.rank", Kind.RANK, layout.place),
        Fact("pmix.hname", Kind.TEXT, layout.here.host),
        Fact("pmix.srvr.tmpdir", Kind.TEXT, str(directory)),
        Fact("pmix.sys.tmpdir", Kind.TEXT, str(directory)),
        Fact("pmix.srvr.share", Kind.FLAG, True),  # or each client detects the hardware
    )


def job_facts(layout: JobLayout, directory: Path, crowded: bool) -> tuple[Fact, ...]:
    """Returns what each client learns of the job. crowded: this node has fewer CPUs than
    tasks."""
    return (
        *_world_facts(layout.space, layout.nodes),
        Fact("pmix.univ.size", Kind.UINT32, layout.size),
        Fact("pmix.max.size", Kind.UINT32, layout.size),
        Fact("pmix.job.napps", Kind.UINT32, max(1, len(layout.programs))),
        Fact("pmix.tmpdir", Kind.TEXT, str(directory)),
        Fact("pmix.nsdir", Kind.TEXT, str(job_directory(directory))),
        *(
            Fact(
                "pmix.node.arr",
                Kind.FACTS,
                (*facts, *_own_node_facts(layout, place, crowded)),
            )
            for place, facts in enumerate(_node_facts(layout.nodes))
        ),
        *(Fact("pmix.app.arr", Kind.FACTS, facts) for facts in _app_facts(layout)),
        *(
            Fact("pmix.pdata", Kind.FACTS, (*facts, *_own_facts(layout, directory, rank)))
            for rank, facts in enumerate(_rank_facts(layout.nodes))
        ),
    )


def facts_of_another(space: str, nodes: Sequence[NodeTasks]) -> tuple[Fact, ...]:
    """Returns what the server must know of a world without tasks of its own. space: the
    world's name."""
    return (
        *_world_facts(space, nodes),
        *(Fact("pmix.node.arr", Kind.FACTS, facts) for facts in _node_facts(nodes)),
        *(Fact("pmix.pdata", Kind.FACTS, facts) for facts in _rank_facts(nodes)),
    )


def rank_variables(layout: JobLayout, rank: int) -> dict[str, str]:
    """Returns variables of Open MPI's own launcher that scripts read."""
    local = str(rank - layout.here.first)
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(layout.size),
        "OMPI_COMM_WORLD_LOCAL_RANK": local,
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(layout.here.count),
        "OMPI_COMM_WORLD_NODE_RANK": local,
        "OMPI_UNIVERSE_SIZE": str(layout.size),
    }


def job_directory(directory: Path) -> Path:
    """Returns the directory for the files of the job's tasks."""
    return directory / "job"


def rank_directory(directory: Path, rank: int) -> Path:
    """Returns the directory for the files of one task."""
    return job_directory(directory) / str(rank)


def _local_peers(node: NodeTasks) -> str:
    return ",".join(str(node.first + number) for number in range(node.count))


def _world_facts(space: str, nodes: Sequence[NodeTasks]) -> tuple[Fact, ...]:
    return (
        Fact("pmix.jobid", Kind.TEXT, space),
        Fact("pmix.nmap", Kind.NODES, ",".join(node.host for node in nodes)),
        Fact("pmix.pmap", Kind.PLACES, ";".join(map(_local_peers, nodes))),
        Fact("pmix.num.nodes", Kind.UINT32, len(nodes)),
        Fact("pmix.job.size", Kind.UINT32, sum(node.count for node in nodes)),
    )


def _node_facts(nodes: Sequence[NodeTasks]) -> Iterator[tuple[Fact, ...]]:
    for place, node in enumerate(nodes):
        yield (
            Fact("pmix.hname", Kind.TEXT, node.host),
            Fact("pmix.nodeid", Kind.UINT32, place),
            Fact("pmix.node.size", Kind.UINT32, node.count),
            Fact("pmix.local.size", Kind.UINT32, node.count),
            Fact("pmix.lldr", Kind.RANK, node.first),
            Fact("pmix.lpeers", Kind.TEXT, _local_peers(node)),
        )


def _own_node_facts(layout: JobLayout, place: int, crowded: bool) -> tuple[Fact, ...]:
    if not crowded or place != layout.place:
        return ()
    return (Fact("pmix.ndosub", Kind.FLAG, True),)


def _app_facts(layout: JobLayout) -> Iterator[tuple[Fact, ...]]:
    for program in range(max(1, len(layout.programs))):
        ranks = layout.ranks_of(program)
        yield (
            Fact("pmix.appnum", Kind.UINT32, program),
            Fact("pmix.app.size", Kind.UINT32, len(ranks)),
            Fact("pmix.aldr", Kind.RANK, ranks.start),
        )


def _rank_facts(nodes: Sequence[NodeTasks]) -> Iterator[tuple[Fact, ...]]:
    for place, node in enumerate(nodes):
        for number in range(node.count):
            yield (
                Fact("pmix.rank", Kind.RANK, node.first + number),  # must be the first
                Fact("pmix.nodeid", Kind.UINT32, place),
                Fact("pmix.lrank", Kind.UINT16, number),
                Fact("pmix.nrank", Kind.UINT16, number),
            )


def _own_facts(layout: JobLayout, directory: Path, rank: int) -> tuple[Fact, ...]:
    """Returns facts that only the rank itself asks for; empty if it is on another node."""
    if rank not in layout.ranks:
        return ()
    program = layout.program_of(rank)
    return (
        Fact("pmix.grank", Kind.RANK, rank),
        Fact("pmix.apprank", Kind.RANK, rank - layout.ranks_of(program).start),
        Fact("pmix.appnum", Kind.UINT32, program),
        Fact("pmix.reinc", Kind.UINT32, 0),
        Fact("pmix.pdir", Kind.TEXT, str(rank_directory(directory, rank))),
    )
