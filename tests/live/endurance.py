"""Runs many short jobs through the daemons of a node and through a domain.

usage: python -m tests.live.endurance [--jobs N] [--only node|domain]   (as root)

It prints the memory and the open descriptors of each daemon after a tenth, a half and all
of the jobs. In the first tenth the daemons fill what they keep of the past: a thousand
records of ended jobs. The run fails if a daemon has more later, at the half or the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from cosched.cluster.client import Client
from cosched.cluster.submission import make_submission
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.domain.rig import Rig
from tests.fuzz.probe import register

AT_ONCE = 4
#: More than this after the first tenth counts as growth: 350 bytes for each of 10,000 jobs.
#: Python takes memory in pieces of 1 MiB, and has one or two more of them now and then.
MOST_BYTES = 3 << 20
MOST_DESCRIPTORS = 8
UIDS = (61_005, 61_006)


@contextmanager
def node(folder: Path) -> Iterator[tuple[Mapping[str, int], Callable[[int], None]]]:
    """Starts a node's daemons; yields their pids and a function that runs one job."""
    paths = NodePaths(folder / "run", "long")
    start_node(paths, NodeOptions(Settings()))
    try:
        for path in (folder, paths.run_dir, paths.directory):
            path.chmod(0o755)
        pids = {
            "scheduler": lock_holder(paths.scheduler_lock) or 0,
            "timer": lock_holder(paths.timer_lock) or 0,
        }

        def job(number: int) -> None:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    uid = UIDS[number % len(UIDS)]
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                    register(str(paths.register_socket))
                    status = 0
                except OSError as error:
                    print(f"job {number}: {error}", file=sys.stderr, flush=True)
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0, f"job {number} could not register"

        yield pids, job
    finally:
        stop_node(paths)


@contextmanager
def domain(folder: Path) -> Iterator[tuple[Mapping[str, int], Callable[[int], None]]]:
    """Starts a domain; yields its members' pids and a function that runs one job."""
    rig = Rig(folder, 2, slots=8)
    try:
        rig.start()
        rig.until_up()
        pids = {name: process.pid for name, process in rig.members.items()}

        def job(number: int) -> None:
            node = f"n{1 + number % 2}"
            submission = make_submission(
                ["/bin/true"],
                ranks=1 + number % 3,
                pmi="none",
                output="/dev/null",
                environ=rig.environ,
                cwd=str(rig.work),
            )
            with Client.connect(rig.paths.run_dir, node) as client:
                ended = client.wait(client.submit(submission))
            assert ended["state"] == "done", ended

        yield pids, job
    finally:
        rig.close()


TARGETS = {"node": node, "domain": domain}


def look(pids: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Returns the resident bytes and the open descriptors of each process."""
    found = {}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        found[name] = process.memory_info().rss, process.num_fds()
    return found


def endure(target: str, jobs: int, folder: Path) -> list[str]:
    """Runs jobs; prints the figures, and returns what grows."""
    began = time.monotonic()
    until = [jobs // 10, jobs // 2, jobs]
    seen = []
    with TARGETS[target](folder) as (pids, job), ThreadPoolExecutor(AT_ONCE) as users:
        for first, last in zip([0, *until], until, strict=False):
            list(users.map(job, range(first, last)))
            seen.append(look(pids))
    grows = []
    print(
        f"{target}: {', '.join(map(str, until))} jobs in {time.monotonic() - began:.0f} s"
    )
    for name in pids:
        sizes = [each[name][0] for each in seen]
        descriptors = [each[name][1] for each in seen]
        print(
            f"  {name:<12} {', '.join(f'{size / 1e6:.1f}' for size in sizes)} MB; "
            f"descriptors {', '.join(map(str, descriptors))}",
            flush=True,
        )
        if (
            max(sizes) > sizes[0] + MOST_BYTES
            or max(descriptors) > descriptors[0] + MOST_DESCRIPTORS
        ):
            grows.append(f"{target}: {name} grows")
    return grows


def main() -> int:
    """Runs the jobs; returns 1 if a daemon grows."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--jobs", type=int, default=10_000)
    options.add_argument("--only", choices=sorted(TARGETS))
    given = options.parse_args()
    grows = []
    for target in [given.only] if given.only else sorted(TARGETS):
        with tempfile.TemporaryDirectory(prefix="cosched-l-") as folder:
            grows += endure(target, given.jobs, Path(folder))
    print("\n".join(grows) or "nothing grows")
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
