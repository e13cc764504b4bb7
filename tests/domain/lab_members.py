"""Puts each member of a domain into a lab node of its own (``cosched lab``)."""

import contextlib

from benchmarks.domain_lab import new_lab
from cosched.lab.plan import plan_crowded_nodes
from cosched.linux.cpu_surroundings import usable_siblings


class LabMembers:
    """A lab with a node for each member. The nodes share the CPUs of this machine, and have
    no scheduler daemons."""

    def __init__(self, run_dir, members):
        self._run_dir = run_dir
        self._members = list(members)
        self._nodes = {}
        self._end = contextlib.ExitStack()

    @property
    def hosts(self):
        """The address of each member."""
        return {name: node.address for name, node in self._nodes.items()}

    def __enter__(self):
        planned = plan_crowded_nodes(len(self._members), 1, usable_siblings())
        self._lab = self._end.enter_context(new_lab(self._run_dir, planned, daemons=False))
        self._nodes = dict(zip(self._members, self._lab.nodes, strict=True))
        return self

    def __exit__(self, *_):
        self._end.close()

    def within(self, name):
        """Returns the words that run a command in the node of a member."""
        return self._lab.enter_argv(self._nodes[name].name, "/")
