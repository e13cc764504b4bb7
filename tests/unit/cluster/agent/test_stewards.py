"""Stewards that do not end, and a nursery that cannot fork: with real processes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from cosched.cluster.agent.frames import (
    CannotStart,
    FrameReader,
    Go,
    Prepare,
    TaskEndedBadly,
    TasksEnded,
    TasksWait,
    TasksWrote,
    encode_frame,
    receive_frame,
)
from cosched.cluster.agent.stewards import Nursery
from cosched.cluster.messages import Failure
from cosched.core.cluster.startup.questions import Command
from cosched.core.errors import CoschedError
from cosched.linux.processes.signals import signal_name
from tests.tools.deep import make_deep
from tests.tools.holding import hold

__all__ = ["make_deep"]

WITHIN_S = 20.0
LONG_S = 1000.0
#: A nursery that cannot fork at first: its last word is how often that fails.
CANNOT_FORK = """
import errno, os, sys
from cosched.cluster.agent import nursery
fork = os.fork
reason = "Resource temporarily unavailable"
failures = [OSError(errno.EAGAIN, reason) for _ in range(int(sys.argv[-1]))]
os.fork = lambda: fork() if not failures else (_ for _ in ()).throw(failures.pop())
nursery.main()
"""

FEW_FILES = """
import resource
from cosched.cluster.agent import nursery
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
nursery.main()
"""
#: A nursery as an ordinary user has it: without control groups, and it may not kill the
#: processes of other users.
WEAK = """
import os, sys
weak = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill"]
program = (
    "from cosched.cluster.agent import nursery\\n"
    "nursery.find_place = lambda: None\\n"
    "nursery.main()"
)
os.execvp(weak[0], [*weak, sys.executable, "-c", program])
"""


class Home:
    """A nursery and what a test makes there."""

    def __init__(self, folder):
        self.folder = folder
        self.open = []

    def nursery(self, *program):
        nursery = Nursery((sys.executable, *program)) if program else Nursery()
        self.open.append(nursery)
        return nursery

    def prepare(self, script="exit 0", output="out", ranks=1, pmi="none"):
        """Returns the frame for tasks that run a script of the shell."""
        return Prepare(
            *("job", os.getuid(), os.getgid(), 0),
            (Command(("/bin/sh", "-c", script), ranks),),
            *({}, {"PATH": os.environ["PATH"]}, str(self.folder), 0o22, 0),
            *(("n1",), (ranks,), (), pmi, "", str(self.folder), "none"),
            *("/dev/null", output, "", False, 0.1),
        )

    def close(self):
        for nursery in self.open:
            nursery.close()


class Steward:
    """The agent's end of a steward."""

    def __init__(self, nursery, limit_s=1.0):
        self.number, self.socket = nursery.make(limit_s)
        self.socket.settimeout(WITHIN_S)
        self.reader = FrameReader()

    def send(self, frame):
        self.socket.sendall(encode_frame(frame))

    def frames(self):
        """Returns the next frames; None at the steward's end."""
        return receive_frame(self.socket, self.reader)

    def until_gone(self):
        while self.frames() is not None:
            pass


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    yield home
    home.close()


def until(check):
    deadline = time.monotonic() + WITHIN_S
    while not (found := check()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # also while it is read
        return True


def read(path):
    return path.read_text() if path.exists() else ""


#: Shells below each other, so that their descendants become orphans one by one.
DEEP = "sh -c 'sh -c \"echo \\$\\$ > new; mv new pid; sleep 1000; :\"; :'; :"


def held_steward(home, nursery, limit_s=1.0, script="echo $$ > new; mv new pid"):
    """Returns a steward that does not run, and the pid that the script writes."""
    steward = Steward(nursery, limit_s)
    steward.send(home.prepare(f"echo $PPID > made; {script}; sleep 1000"))
    assert steward.frames() == [TasksWait()]
    steward.send(Go())
    pid = home.folder / "pid"
    until(pid.exists)
    hold(int(read(home.folder / "made")))
    return steward, int(pid.read_text())


def test_a_steward_that_does_not_run_is_killed_and_its_tasks_with_it(home):
    nursery = home.nursery()
    steward, task = held_steward(home, nursery)
    nursery.kill(steward.number)
    steward.until_gone()
    until(lambda: is_gone(task))


def test_a_steward_does_not_wait_for_a_reader_of_its_output(home):
    os.mkfifo(home.folder / "fifo")
    nursery = home.nursery()
    steward = Steward(nursery)
    steward.send(home.prepare(output="fifo"))
    problem = f"output {home.folder}/fifo: is a pipe without a reader"
    assert steward.frames() == [CannotStart(f"{problem}; start its reader before the job")]
    nursery.kill(steward.number)
    assert steward.frames() is None


def test_the_kill_of_a_steward_leaves_the_others(home):
    nursery = home.nursery()
    first, second = Steward(nursery), Steward(nursery)
    nursery.kill(first.number)
    first.until_gone()
    nursery.kill(first.number)
    second.send(home.prepare())
    assert second.frames() == [TasksWait()]


def test_a_steward_that_does_not_run_does_not_hold_up_the_end_of_the_agent(home):
    nursery = home.nursery()
    steward, task = held_steward(home, nursery, limit_s=0.5)
    steward.socket.close()
    began = time.monotonic()
    nursery.close()
    assert time.monotonic() - began >= 0.4
    until(lambda: is_gone(task))


def test_all_descendants_are_gone_when_the_nursery_has_ended(home):
    nursery = home.nursery()
    steward, deepest = held_steward(home, nursery, 0.2, DEEP)
    steward.socket.close()
    nursery.close()
    assert is_gone(deepest)


def test_a_steward_that_ends_well_is_not_awaited_longer(home):
    nursery = home.nursery()
    steward = Steward(nursery, LONG_S)
    steward.send(home.prepare("sleep 1000"))
    assert steward.frames() == [TasksWait()]
    steward.socket.close()
    began = time.monotonic()
    nursery.close()
    assert time.monotonic() - began < WITHIN_S


def test_a_steward_that_its_job_stops_again_and_again_goes_on(home, capfd):
    nursery = home.nursery()
    steward = Steward(nursery)
    stop = "kill -STOP $PPID; sleep 0.01; " * 20
    steward.send(home.prepare(f"{stop} echo $$ > new; mv new pid; kill -STOP $PPID"))
    frames = steward.frames()
    steward.send(Go())
    while TasksEnded() not in frames:
        frames = steward.frames()
    assert read(home.folder / "pid")
    assert capfd.readouterr().err.count("was stopped by a signal: continues it") == 1


@pytest.fixture
def foreign_process(home):
    """Returns the script of a task that leaves a process of another user, which holds the
    task's output. It ends with the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make another user's process")
    pipe = home.folder / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    other = "setpriv --reuid 65534 --clear-groups"
    yield f"echo left; {other} sh -c 'echo $$; exec cat' <{pipe} >>pid & sleep 0.3"
    os.close(writer)


def test_a_process_of_another_user_is_left_and_named(home, foreign_process, capfd):
    nursery = home.nursery("-c", WEAK)
    steward = Steward(nursery)
    (home.folder / "pid").touch(mode=0o666)
    steward.send(home.prepare(f"{foreign_process} 2>&1"))
    frames = steward.frames()
    steward.send(Go())
    while TasksEnded() not in frames:
        frames += steward.frames()
    pid = int(read(home.folder / "pid"))
    line = f"process {pid} ('cat') of user nobody is left"
    wrote = b"".join(each.data for each in frames if isinstance(each, TasksWrote))
    assert f"cosched: {line}: the job's user cannot kill it\n" in wrote.decode()
    assert not any(isinstance(each, TaskEndedBadly) for each in frames)
    steward.socket.close()
    assert prepared(home, nursery).number == 2  # the nursery lives
    nursery.close()
    errors = capfd.readouterr().err
    assert errors.count(f"nursery: {line} of a job") == 1


def test_a_process_of_another_user_does_not_keep_the_output_open(home, foreign_process):
    steward = Steward(home.nursery("-c", WEAK))
    (home.folder / "pid").touch(mode=0o666)
    steward.send(home.prepare(foreign_process.replace(">>pid", "| tee -a pid")))
    frames = steward.frames()
    steward.send(Go())
    while TasksEnded() not in frames:
        frames += steward.frames()
    wrote = b"".join(each.data for each in frames if isinstance(each, TasksWrote))
    assert wrote.startswith(b"left\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, 34, 40, 63, 64])
def test_a_task_that_any_signal_ends_has_its_output_and_its_reason(home, number):
    steward = Steward(home.nursery())
    steward.send(home.prepare(f"echo hello; kill -{int(number)} $$"))
    frames = steward.frames()
    steward.send(Go())
    while TasksEnded() not in frames:
        frames += steward.frames()
    reason = f"rank 0 was ended by {signal_name(number)} on n1"
    assert TaskEndedBadly(Failure(128 + number, reason)) in frames
    assert any(isinstance(each, TasksWrote) and each.data == b"hello\n" for each in frames)


def test_an_orphan_that_ends_is_reaped_while_its_task_runs(home):
    steward = Steward(home.nursery())
    orphan = "sh -c 'sleep 0.1 & echo $! > new; mv new pid'"
    steward.send(home.prepare(f"{orphan}; sleep 1000"))
    assert steward.frames() == [TasksWait()]
    steward.send(Go())
    pid = until(lambda: read(home.folder / "pid")).strip()
    until(lambda: not Path(f"/proc/{pid}").exists())


#: Each rank acts when its file is there. Rank 0, the first child of the steward, is last.
LAST_IS_FIRST = f"""
echo $$ > new$PMI_RANK; mv new$PMI_RANK pid$PMI_RANK
[ $PMI_RANK = 0 ] && echo $PPID > new && mv new steward
until [ -e act$PMI_RANK ]; do sleep 0.01; done
[ "$PMI_RANK $1" = "0 abort" ] && exec {sys.executable} -c '
import os, time
os.write(int(os.environ["PMI_FD"]), b"cmd=abort exitcode=7\\n")
open("aborted", "w").close()
time.sleep(1000)'
exit 1$PMI_RANK
"""


@pytest.mark.parametrize("consequence", ["exit", "abort"])
def test_the_failure_that_came_first_is_the_reason(home, consequence):
    """The steward sees both failures at once, as on a node with much load."""
    nursery = home.nursery()
    steward = Steward(nursery)
    script = LAST_IS_FIRST.replace("$1", consequence)
    steward.send(home.prepare(script, ranks=2, pmi="pmi1"))
    assert steward.frames() == [TasksWait()]
    steward.send(Go())
    files = [home.folder / name for name in ("steward", "pid1", "pid0")]
    until(lambda: all(map(read, files)))
    process, first, second = (int(read(each)) for each in files)
    os.kill(nursery._process.pid, signal.SIGSTOP)  # it would continue the steward
    os.kill(process, signal.SIGSTOP)
    (home.folder / "act1").touch()
    until(lambda: is_gone(first))
    (home.folder / "act0").touch()
    until(lambda: is_gone(second) or (home.folder / "aborted").exists())
    os.kill(process, signal.SIGCONT)
    os.kill(nursery._process.pid, signal.SIGCONT)
    failures = []
    while not failures:
        failures = [each for each in steward.frames() if isinstance(each, TaskEndedBadly)]
    assert failures[0].failure == Failure(11, "rank 1 ended with status 11 on n1")


def prepared(home, nursery, script="exit 0"):
    """Returns a steward whose task waits at its gate."""
    steward = Steward(nursery)
    steward.send(home.prepare(script))
    assert steward.frames() == [TasksWait()]
    return steward


def children_of(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(word) for word in text.split()}


def spare_of(nursery, former=None):
    """Returns the pid of the only child of a nursery without stewards. former: a steward
    whose end the nursery may not have noticed."""
    return until(lambda: children_of(nursery._process.pid) - {former}).pop()


def test_the_spare_becomes_the_next_steward_and_another_one_follows_at_its_end(home):
    nursery = home.nursery()
    spare = spare_of(nursery)
    steward = prepared(home, nursery, "echo $PPID > new; mv new pid")
    steward.send(Go())
    assert int(until(lambda: read(home.folder / "pid"))) == spare
    steward.socket.close()
    until(lambda: is_gone(spare))
    spare_of(nursery, former=spare)


def test_another_spare_follows_while_the_job_runs(home):
    nursery = home.nursery()
    spare = spare_of(nursery)
    steward = prepared(home, nursery, "sleep 1000")
    spare_of(nursery, former=spare)
    assert not is_gone(spare)
    steward.socket.close()


def test_a_task_that_was_killed_at_its_gate_does_not_end_its_steward(home):
    nursery = home.nursery()
    process = spare_of(nursery)
    steward = prepared(home, nursery)
    (task,) = children_of(process)
    os.kill(task, signal.SIGKILL)
    frames = steward.frames()
    assert frames[0].failure == Failure(137, "rank 0 was ended by SIGKILL on n1")
    steward.send(Go())
    while TasksEnded() not in frames:
        frames = steward.frames()


def test_tasks_have_no_descriptor_of_their_steward(home):
    nursery = home.nursery()
    spare_of(nursery)
    stewards = [Steward(nursery), Steward(nursery)]  # the spare, and a fork
    for number, steward in enumerate(stewards):
        place = home.folder / f"list{number}"
        steward.send(home.prepare(f"echo $(ls /proc/self/fd) > new; mv new {place}"))
        assert steward.frames() == [TasksWait()]
        steward.send(Go())
        # The last one is that of the directory.
        assert until(lambda place=place: read(place)) == "0 1 2 3\n"


def test_a_steward_starts_after_the_spare_was_killed(home):
    nursery = home.nursery()
    spare = spare_of(nursery)
    os.kill(nursery._process.pid, signal.SIGSTOP)  # it notices the end late
    os.kill(spare, signal.SIGKILL)
    until(lambda: is_gone(spare))
    steward = Steward(nursery)
    os.kill(nursery._process.pid, signal.SIGCONT)
    steward.send(home.prepare())
    assert steward.frames() == [TasksWait()]


def test_several_stewards_start_at_once(home):
    nursery = home.nursery()
    stewards = [Steward(nursery) for _ in range(5)]
    for steward in stewards:
        steward.send(home.prepare())
    assert [steward.frames() for steward in stewards] == [[TasksWait()]] * 5


def test_a_nursery_that_cannot_fork_fails_one_steward(home):
    nursery = home.nursery("-c", CANNOT_FORK, "2")  # the spare and the steward
    first = Steward(nursery)
    (refused,) = first.frames()
    reason = "cannot make a process: Resource temporarily unavailable"
    assert refused == CannotStart(reason, again=True)
    first.until_gone()
    second = Steward(nursery)
    second.send(home.prepare())
    assert second.frames() == [TasksWait()]


def test_a_node_without_descriptors_starts_no_task_and_reports_why(home):
    nursery = home.nursery("-c", FEW_FILES)
    steward = Steward(nursery)
    steward.send(home.prepare("sleep 1000", ranks=40))
    reason = "cannot make the tasks: Too many open files"
    assert steward.frames() == [CannotStart(reason, again=True)]
    steward.socket.close()


def test_the_end_of_a_nursery_is_reported(home):
    async def run():
        ended = asyncio.get_running_loop().create_future()
        nursery = home.nursery("-c", "import time; time.sleep(0.2)")
        nursery.watch(ended.set_result)
        return await asyncio.wait_for(ended, WITHIN_S)

    assert "nursery has ended; restart the agent" in str(asyncio.run(run()))


def test_a_nursery_that_the_agent_ends_is_not_reported(home):
    async def run():
        ended = []
        nursery = home.nursery()
        nursery.watch(ended.append)
        nursery.close()
        await asyncio.sleep(0.05)
        return ended

    assert asyncio.run(run()) == []


def test_a_nursery_removes_a_tree_of_any_depth_and_follows_no_link(make_deep, home):
    nursery = home.nursery()
    tree, kept = home.folder / "tree", home.folder / "kept"
    kept.touch()
    make_deep(tree)
    (tree / "link").symlink_to(home.folder)
    nursery.remove_tree(tree)
    until(lambda: not tree.exists())
    assert kept.exists()


def test_a_nursery_that_cannot_fork_removes_trees_later(home, capfd):
    nursery = home.nursery("-c", CANNOT_FORK, "4")  # the spare, both, and the first again
    trees = [home.folder / "one", home.folder / "other"]
    for tree in trees:
        tree.mkdir()
        nursery.remove_tree(tree)
    until(lambda: not any(tree.exists() for tree in trees))
    assert capfd.readouterr().err.count("cannot make a process") == 1


def test_a_nursery_that_ends_removes_trees_first(home):
    nursery = home.nursery()
    tree = home.folder / "tree"
    for number in range(100):
        folder = tree / str(number)
        folder.mkdir(parents=True)
        for file in range(50):
            (folder / str(file)).touch()
    nursery.remove_tree(tree)
    nursery.close()
    assert not tree.exists()


def test_an_agent_without_descriptors_makes_no_steward(home, monkeypatch):
    nursery = home.nursery()
    few = Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
    with monkeypatch.context() as patch:
        patch.setattr("socket.socketpair", few)
        with pytest.raises(CoschedError, match="cannot make a socket: Too many open"):
            nursery.make(1.0)
    assert prepared(home, nursery).number == 2


def test_a_nursery_has_no_event_loop_and_no_parser_of_c():
    """Each agent starts one, and each steward is a fork of it."""
    script = "import sys, cosched.cluster.agent.nursery; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert not {"asyncio", "cffi", "ssl", "zmq"} & set(done.stdout.decode().split())
