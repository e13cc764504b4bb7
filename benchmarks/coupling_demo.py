"""Runs a simulation and its analysis in two coupled domains of this machine.

They are jobs of one group. A third job has the nodes of the analysis at first, so the
simulation gets its nodes earlier, and holds them. Both begin together, connect by the
addresses in their environment, and the analysis prints what it gets.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.coupling_domains import Native, Wanted, coupled_domains
from benchmarks.experiment import in_one_line
from cosched.bench.run.interrupts import temporary_folder
from cosched.cluster.answers import JobInfo
from cosched.cluster.client import Client
from cosched.core.errors import CoschedError
from cosched.jobs.client import Client as JobClient
from cosched.jobs.job import Job
from cosched.linux.ports import free_ports

PROGRAMS = Path(__file__).parent / "programs" / "coupling"
ENGINES = {"intrepid": "native", "eureka": "native"}
SETTINGS = {"release": "1min"}
BUSY_S = 2.0
HOLDS_WITHIN_S = 30.0


def main() -> int:
    """Runs both; returns 0 if both have ended well."""
    port = str(free_ports(1))
    schemes = ("hold", "hold")
    with (
        in_one_line("coupled demo"),
        temporary_folder("cosched-coupled-") as folder,
        coupled_domains(folder, ENGINES, 2, schemes, SETTINGS) as domains,
    ):
        first, second = (each for each in domains if isinstance(each, Native))
        _say("two domains are up, intrepid and eureka, of two nodes each")
        busy = Wanted(("/bin/sleep", str(BUSY_S)), 2, 60, folder / "busy")
        second.submit(busy)
        ends = _run_both(first, second, port, folder)
    return int(any(end["status"] != 0 for end in ends))


def _run_both(first: Native, second: Native, port: str, folder: Path) -> list[JobInfo]:
    simulation = _job(folder, ["simulation.py", port], "eureka", ranks=4)
    analysis = _job(folder, ["analysis.py", "127.0.0.1", port], "intrepid", ranks=1)
    with _client(first) as one, _client(second) as other:
        numbers = [one.submit(simulation), other.submit(analysis)]
        _say(f"cosched submit --mate rod@eureka ... : intrepid:{numbers[0]}")
        _say(f"cosched submit --mate rod@intrepid ... : eureka:{numbers[1]}")
        _say(f"cosched why {numbers[0]}: {_until_it_holds(one, numbers[0])}")
        ends = [one.wait(numbers[0]), other.wait(numbers[1])]
    for where, end in zip(("intrepid", "eureka"), ends, strict=True):
        lines = Path(end["output"]).read_text().splitlines()
        for line in lines:
            print(f"[{where}:{end['job']}] {line}", flush=True)
        if end["status"] != 0:
            _say(f"{where}:{end['job']} has failed: {end['reason']}")
    apart_ns = abs((ends[0]["started_ns"] or 0) - (ends[1]["started_ns"] or 0))
    _say(f"their tasks began {apart_ns / 1e6:.1f} ms apart")
    return ends


def _job(folder: Path, words: list[str], mate: str, ranks: int) -> Job:
    return Job(
        (sys.executable, "-u", str(PROGRAMS / words[0]), *words[1:]),
        ranks=ranks,
        ppn=2 if ranks > 1 else 0,
        mates=(f"rod@{mate}",),
        output=str(folder / f"{words[0]}.out"),
        shim=False,
    )


def _client(domain: Native) -> JobClient:
    return JobClient.connect(domain.paths.run_dir, domain.places[0].name)


def _until_it_holds(client: Client, number: int) -> str:
    end = time.monotonic() + HOLDS_WITHIN_S
    while not (why := client.job(number).get("why", "")).startswith("ready, holds"):
        if time.monotonic() > end:
            raise CoschedError(f"the simulation does not hold: {why}")
        time.sleep(0.05)
    return why


def _say(line: str) -> None:
    print(f"* {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
