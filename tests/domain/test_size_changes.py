"""Malleable jobs change their nodes: real agents, tasks and MPIs, and a controller that the
test plays."""

import asyncio
import contextlib
import os
import pwd
import re
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.mpi import PROGRAMS
from cosched.cluster.messages import End
from cosched.cluster.size_messages import ChangeEnded, Dismiss
from cosched.core.cluster.resizing.page_records import Phase
from cosched.shm.page import Page
from tests.places import ROOT
from tests.tools.malleable_agents import compiled, run_without_agents
from tests.tools.played_controller import PlayedController, Refused

pytestmark = pytest.mark.mpi_job

STEN = {"python": PROGRAMS / "sten.py", "c": PROGRAMS / "sten.c"}
#: In each iteration all ranks sleep so long. While they wait in MPI they use a CPU.
PAUSE_S = 0.02
WAITING = ROOT / "tests" / "domain" / "waiting_program.c"
NOBODY = pwd.getpwnam("nobody")
DYING = ROOT / "tests" / "domain" / "dying_program.py"


@pytest.fixture
def play(make_rig):
    """Returns a function that runs a test's part with a played controller."""

    def run(nodes, hosts, part, folder=None):
        rig = make_rig(nodes, folder)

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
    program = compiled(STEN["c"], bin_folder)  # its answers are the same
    words = [program, "--size", "24", "--iterations", iterations]
    done = run_without_agents(bin_folder, 2, *words)
    done.check_returncode()
    return done.stdout


class Sten:
    """STEN as a job of a played controller, until the test stops it."""

    def __init__(self, controller, bin_folder, language="c"):
        self.controller = controller
        self.bin_folder = bin_folder
        self.command = {
            "python": [bin_folder / "python", STEN["python"]],
            "c": [compiled(STEN["c"], bin_folder)],
        }[language]
        self.stop = controller.rig.folder / "stop"

    async def begin(self, **more):
        options = ("--size", 24, "--until", self.stop, "--pause", PAUSE_S)
        await self.controller.begin(*self.command, *options, **more)

    async def check_answer(self):
        """Ends the program, and compares its answer with that of a rigid run."""
        self.stop.touch()
        assert await self.controller.finish() is None
        output = (self.controller.rig.work / "out").read_text()
        iterations = re.search(r"iterations (\d+)", output)[1]
        assert output == await asyncio.to_thread(rigid, self.bin_folder, iterations)


@pytest.mark.parametrize("language", ["python", "c"])
def test_job_grows_shrinks_and_migrates(play, bin_folder, language):
    async def part(controller):
        sten = Sten(controller, bin_folder, language)
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


# --- an order that the job cannot carry out, or not yet -----------------------------------


@pytest.fixture
def waiting(bin_folder):
    """The program that waits."""
    return compiled(WAITING, bin_folder)


def begin_waiting(controller, waiting):
    return controller.begin(waiting, controller.rig.folder)


def let(controller, *names):
    for name in names:
        (controller.rig.folder / name).touch()


async def until_there(controller, name):
    path = controller.rig.folder / name
    await controller.until(path.exists, f"{path} is not there")


async def finish_waiting(controller, answer):
    let(controller, "make", "go", "stop")
    assert await controller.finish() is None
    assert (controller.rig.work / "out").read_text().endswith(answer)


@pytest.mark.one_mpi
def test_change_is_withdrawn_before_the_program_has_made_its_job(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        await until_there(controller, "began")
        fresh = await controller.admit("n2")
        controller.order([], fresh)
        controller.withdraw()
        with pytest.raises(Refused, match="the queue wants it so"):
            await controller.settle(fresh)
        let(controller, "make", "go")
        await controller.resize(arriving=["n2"])
        await finish_waiting(controller, "2 ranks, sum 66\n")

    play(2, ["n1"], part)


def test_spawn_that_fails_leaves_the_job_as_it_was(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        let(controller, "make", "go")
        fresh = await controller.admit("n2")
        controller.send("n2", Dismiss(controller.job, controller.start))
        await controller.until(lambda: not pages(controller, "n2"), "n2 keeps the page")
        controller.order([], fresh)
        with pytest.raises(Refused, match=r"^n2: the job has no part on this node$"):
            await controller.settle(fresh)
        await controller.resize(arriving=["n2"])
        await finish_waiting(controller, "2 ranks, sum 66\n")
        line = "cosched: rank 0: MPI_Comm_spawn: n2: the job has no part on this node"
        assert line in (controller.rig.work / "out").read_text()

    play(2, ["n1"], part)


def pages(controller, node):
    return list(controller.rig.paths.spool(node).glob("*.page*"))


@pytest.mark.one_mpi
def test_node_that_is_not_admitted_is_refused_at_once(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        controller.generation += 1
        controller.order([], [3])
        with pytest.raises(Refused, match="an arriving node was not admitted"):
            await controller.settle()
        await finish_waiting(controller, "1 ranks, sum 66\n")

    play(1, ["n1"], part)


@pytest.mark.one_mpi
def test_committed_change_is_withdrawn_from_ranks_that_come_to_no_boundary(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        let(controller, "make")
        await until_there(controller, "in-loop")
        fresh = await controller.admit("n3")
        controller.order(["n2"], fresh)
        for node in ("n1", "n2", "n3"):
            await until_committed(controller, node)
        controller.withdraw()
        with pytest.raises(Refused, match="the queue wants it so"):
            await controller.settle(fresh)
        let(controller, "go")
        await controller.resize(["n2"], ["n3"])
        await finish_waiting(controller, "2 ranks, sum 66\n")

    play(3, ["n1", "n2"], part)


async def until_committed(controller, node):
    """Waits until the node's page has a committed boundary."""
    (folder,) = pages(controller, node)
    page = Page.open(folder / "page")

    def is_committed():
        return page.data.word.word & 3 == Phase.COMMITTED

    await controller.until(is_committed, f"{node} is not committed")


@pytest.mark.one_mpi
def test_job_that_comes_to_no_boundary_can_be_cancelled(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        let(controller, "make")
        await until_there(controller, "in-loop")
        fresh = await controller.admit("n3")
        controller.order(["n2"], fresh)
        end = End(controller.job, controller.start, "cancelled", direct=False)
        controller.send("n1", end)
        assert (await controller.finish()).reason == "cancelled"

    play(3, ["n1", "n2"], part)


# --- members and processes that die -------------------------------------------------------


def keepers(controller, *nodes):
    """Returns the processes that keep pages, of all nodes or of these."""
    nodes = nodes or controller.rig.config.nodes
    spools = [str(controller.rig.paths.spool(node)) for node in nodes]
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if "agent.nursery" in (place / "cmdline").read_text(errors="replace"):
                maps = (place / "maps").read_text(errors="replace")
                if any(spool in maps for spool in spools):
                    found.append(int(place.name))
    return found


@pytest.mark.one_mpi
def test_page_keepers_that_are_killed_cost_nothing(play, bin_folder):
    async def part(controller):
        sten = Sten(controller, bin_folder)
        await sten.begin()
        for leaving, arriving in (([], ["n3"]), (["n2"], []), (["n3"], ["n2"])):
            before = keepers(controller)
            assert len(before) >= 2
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            await controller.resize(leaving, arriving)
        await sten.check_answer()

    play(3, ["n1", "n2"], part)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to have another user's job")
def test_page_and_its_keeper_belong_to_the_user_of_the_job(play, open_folder):
    async def part(controller):
        user = {"uid": NOBODY.pw_uid, "gid": NOBODY.pw_gid}
        plain = {"argv": ("/bin/sleep", "100"), "pmi": "none", "pmix_library": ""}
        await controller.begin(Path(sys.executable), "-V", **user, **plain, cwd="/tmp")
        await controller.admit("n2")
        for node in ("n1", "n2"):
            (folder,) = pages(controller, node)
            (keeper,) = keepers(controller, node)
            found = (folder / "page").stat()
            assert (found.st_uid, found.st_mode & 0o777) == (NOBODY.pw_uid, 0o600)
            assert Path(f"/proc/{keeper}").stat().st_uid == NOBODY.pw_uid
        end = End(controller.job, controller.start, "cancelled", direct=False)
        controller.send("n1", end)
        await controller.finish()

    play(2, ["n1"], part, open_folder)


@pytest.mark.one_mpi
def test_page_keepers_are_killed_while_ranks_have_a_proposal(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        let(controller, "make")
        await until_there(controller, "in-loop")
        fresh = await controller.admit("n3")
        controller.order(["n2"], fresh)
        for pid in keepers(controller):
            os.kill(pid, signal.SIGKILL)
        let(controller, "go")
        await controller.settle(fresh)
        await finish_waiting(controller, "2 ranks, sum 66\n")

    play(3, ["n1", "n2"], part)


@pytest.mark.one_mpi
def test_job_without_its_page_goes_on_and_refuses_changes(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        let(controller, "make", "go")
        await until_there(controller, "in-loop")
        (folder,) = pages(controller, "n1")
        (folder / "page").unlink()
        (keeper,) = keepers(controller, "n1")
        os.kill(keeper, signal.SIGKILL)
        await controller.until(lambda: not keepers(controller, "n1"), "it lives")
        with pytest.raises(Refused, match=r"n1: page /.*: No such file"):
            await controller.resize(arriving=["n2"])
        controller.send("n2", Dismiss(controller.job, controller.start))
        await finish_waiting(controller, "1 ranks, sum 66\n")

    play(2, ["n1"], part)


PHASES = ["joins", "exits", "unites", "moves", "settles", "resumes"]


@pytest.mark.parametrize("phase", PHASES)
def test_rank_that_dies_in_a_change_ends_the_job(play, bin_folder, phase):
    async def part(controller):
        stop = controller.rig.folder / "stop"
        await controller.begin(bin_folder / "python", DYING, phase, stop)
        fresh = await controller.admit("n3")
        controller.order(["n2"], fresh)
        failure = await controller.finish()
        assert failure.reason.startswith("rank ")
        assert failure.status > 0

    play(3, ["n1", "n2"], part)


def test_new_ranks_that_end_well_before_they_join_end_the_job(play, bin_folder):
    """The others wait for them, and MPI shows them no error."""

    async def part(controller):
        stop = controller.rig.folder / "stop"
        await controller.begin(bin_folder / "python", DYING, "quits", stop)
        fresh = await controller.admit("n3")
        controller.order([], fresh)
        failure = await controller.finish()
        assert failure.reason == (
            "n1: the tasks that a change started ended before they joined"
        )

    play(3, ["n1", "n2"], part)


def test_rank_that_dies_before_mpi_begins_leaves_the_job_as_it_was(play, bin_folder):
    async def part(controller):
        stop = controller.rig.folder / "stop"
        await controller.begin(bin_folder / "python", DYING, "starts", stop)
        with pytest.raises(Refused, match=r"^rank 0 was ended by SIGKILL"):
            await controller.resize(arriving=["n3"])
        with pytest.raises(Refused, match=r"^rank \d was ended by SIGKILL"):
            await controller.resize(leaving=["n2"], arriving=["n3", "n4"])
        stop.with_name(f"{stop.name}.healed").touch()
        await controller.resize(leaving=["n2"], arriving=["n3", "n4"])
        stop.touch()
        assert await controller.finish() is None
        output = (controller.rig.work / "out").read_text()
        assert output.endswith("3 ranks, sum 66\n"), output

    play(4, ["n1", "n2"], part)


@pytest.mark.parametrize("how", ["stays", "resists"])
def test_job_goes_on_without_ranks_that_leave_and_must_be_killed(play, bin_folder, how):
    async def part(controller):
        stop = controller.rig.folder / "stop"
        await controller.begin(bin_folder / "python", DYING, how, stop)
        fresh = await controller.admit("n3")
        controller.order(["n2"], fresh)
        await controller.settle(fresh)
        await controller.resize(arriving=["n2"])
        stop.touch()
        assert await controller.finish() is None
        output = (controller.rig.work / "out").read_text()
        assert output.endswith("3 ranks, sum 66\n"), output

    play(3, ["n1", "n2"], part)


@pytest.mark.parametrize("victim", ["n1", "n2", "n3"])
def test_agent_that_is_killed_during_a_change_leaves_nothing(play, waiting, victim):
    async def part(controller):
        rig = controller.rig
        await begin_waiting(controller, waiting)
        let(controller, "make")
        await until_there(controller, "in-loop")
        fresh = await controller.admit("n3")
        controller.order(["n2"], fresh)
        await asyncio.to_thread(rig.kill, victim)
        await controller.end_directly(*rig.members)
        await asyncio.to_thread(rig.start, victim)

    play(3, ["n1", "n2"], part)


@pytest.mark.one_mpi
def test_controller_that_restarts_learns_the_last_change(play, bin_folder):
    async def part(controller):
        sten = Sten(controller, bin_folder)
        await sten.begin()
        await controller.resize(["n2"], ["n3"])
        order = controller.order([], [])
        hellos = await controller.hello_again(*controller.rig.members)
        active = {node: bool(hello.starts) for node, hello in hellos.items()}
        assert active == {"n1": True, "n2": False, "n3": True}
        again = await controller.receive(ChangeEnded, "n1", generation=1)
        assert again["n1"] == controller.ended[-1]
        await controller.resize(arriving=["n2"])
        assert order.generation == 1
        await sten.check_answer()

    play(3, ["n1", "n2"], part)


@pytest.mark.one_mpi
def test_controller_gets_the_pace_and_the_wishes_of_a_job(play, waiting):
    async def part(controller):
        await begin_waiting(controller, waiting)
        let(controller, "make", "go")
        await controller.until(lambda: controller.sensed, "nothing is sensed")
        sensed = controller.sensed[-1]
        facts = (sensed.size, sensed.minimum, sensed.ideal, sensed.wanted, sensed.asked)
        assert facts == (1, 2, 5, 4, 1)
        await controller.resize(["n1"], ["n2"])  # rank 0 is elsewhere then
        before = len(controller.sensed)
        await controller.until(lambda: len(controller.sensed) > before, "nothing new")
        assert controller.sensed[-1].asked == 2  # a new rank 0 has asked, too
        assert controller.sensed[-1].exec_ns > 0
        await finish_waiting(controller, "1 ranks, sum 66\n")

    play(2, ["n1"], part)
