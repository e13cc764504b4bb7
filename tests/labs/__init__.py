"""Describes the lab that tests use: how many nodes it has, and whether these share CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_crowded_nodes, plan_nodes
from cosched.linux.cpu_surroundings import usable_siblings

#: More nodes than these share the CPUs of the machine.
OWN_CPUS = 2


@dataclass(frozen=True)
class LabSize:
    """A lab of nodes with one CPU each."""

    nodes: int
    shares_cpus: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"lab{number}" for number in range(1, self.nodes + 1))

    @property
    def last(self) -> str:
        return self.names[-1]

    @property
    def hosts(self) -> str:
        """The names with commas between them, as --hosts takes them."""
        return ",".join(self.names)

    @property
    def words(self) -> tuple[str, ...]:
        """The options of ``cosched lab up``."""
        share = ("--share-cpus",) if self.shares_cpus else ()
        return ("--nodes", str(self.nodes), *share)

    @property
    def bench_words(self) -> tuple[str, ...]:
        """The options of a bench on such a lab that is up."""
        share = ("--shared-cpus",) if self.shares_cpus else ()
        return ("--nodes", str(self.nodes), *share)

    def up(self, run_dir: Path, *, daemons: bool = True) -> Lab:
        """Makes the lab in this process."""
        plan = plan_crowded_nodes if self.shares_cpus else plan_nodes
        return life.make_lab(run_dir, plan(self.nodes, 1, usable_siblings()), daemons)
