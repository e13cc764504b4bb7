"""Plays the tree of a domain: starts one process a node and passes the tables on."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.places import ROOT

PATIENCE_S = 120


@dataclass
class Outcome:
    """Holds all facts about a run. events: the lists that the nodes reported."""

    events: list[list] = field(default_factory=list)
    exchanges: int = 0
    output: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    trouble: str = ""  #: stderr of the nodes' own processes

    def of(self, kind):
        """Returns the events of one kind, without its name."""
        return [event[1:] for event in self.events if event[0] == kind]

    @property
    def statuses(self):
        """How each rank ended."""
        return dict(self.of("ended"))


class Domain:
    """Runs jobs. ``directory`` takes their files; each task gets ``variables``."""

    def __init__(self, library, directory, variables):
        self.library = library
        self.directory = directory
        self.variables = variables

    def run(self, counts, *argv, **environ):
        """Runs ``argv`` with as many tasks on each node as ``counts`` says. The first abort
        ends the job."""
        nodes, first = [], 0
        for place, count in enumerate(counts):
            nodes.append((f"host{place}", first, count))
            first += count
        words = [f"{key}={value}" for key, value in {**self.variables, **environ}.items()]
        processes = [
            self._start(nodes, place, ["env", *words, *argv]) for place in range(len(nodes))
        ]
        outcome = Outcome()
        try:
            pass_tables(processes, outcome)
        finally:
            for process in processes:
                process.stdin.close()
                process.stdout.close()
                process.wait()
        for place, (_, first, count) in enumerate(nodes):
            own = Path(self.directory, f"node{place}")
            outcome.trouble += Path(own, "trouble").read_text()
            for rank in range(first, first + count):
                outcome.output[rank] = Path(own, f"{rank}.out").read_text()
                outcome.errors[rank] = Path(own, f"{rank}.err").read_text()
        return outcome

    def _start(self, nodes, place, argv):
        own = Path(self.directory, f"node{place}")
        own.mkdir(mode=0o700)
        name = f"job-1.{os.getpid()}"
        words = [self.library, name, json.dumps(nodes), str(place), own, *argv]
        with Path(own, "trouble").open("wb") as trouble:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.pmi.node", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=trouble,
                cwd=ROOT,
                bufsize=0,  # or a line could wait in a buffer, unseen by the selector
            )


def pass_tables(processes, outcome):
    """Reads all reports of the nodes; sends the tables of all nodes to all nodes."""
    tables = [[] for _ in processes]
    with selectors.DefaultSelector() as selector:
        for place, process in enumerate(processes):
            selector.register(process.stdout, selectors.EVENT_READ, place)
        while selector.get_map():
            ready = selector.select(PATIENCE_S)
            assert ready, f"no report within {PATIENCE_S} s after {outcome.events}"
            for key, _ in ready:
                line = key.fileobj.readline()
                if not line:
                    selector.unregister(key.fileobj)
                    continue
                event = json.loads(line)
                if event[0] == "table":
                    tables[key.data].append(event[1])
                    if all(tables):
                        outcome.exchanges += 1
                        message = json.dumps([each.pop(0) for each in tables]) + "\n"
                        for process in processes:
                            process.stdin.write(message.encode())
                    continue
                outcome.events.append(event)
                if event[0] == "aborted":
                    for process in processes:
                        process.stdin.close()
