"""The agent script, with stand-ins for nsenter and taskset that tell what they got."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.lab.agent import (
    Tools,
    agent_places,
    agent_script,
    choose_agent_place,
    enter_argv,
    write_agent,
)
from cosched.lab.state import NodeRecord
from cosched.linux.namespaces import ProcessId

# Leaves out the namespaces: everything up to "--" is printed, the rest is run.
NSENTER = """#!/bin/sh
line=entered
while [ "$1" != -- ]; do line="$line $1"; shift; done
echo "$line"; shift; exec "$@"
"""
TASKSET = """#!/bin/sh
echo "on cpus $2"; shift 2; exec "$@"
"""


@pytest.fixture
def tools(tmp_path):
    for name, text in (("nsenter", NSENTER), ("taskset", TASKSET)):
        write_agent(tmp_path / name, text)
    return Tools(str(tmp_path / "nsenter"), str(tmp_path / "taskset"))


@pytest.fixture
def agent(tmp_path, tools):
    here = ProcessId.of(os.getpid())
    assert here is not None
    gone = ProcessId(here.pid, here.start_ticks - 1)
    place = tmp_path / "agent"
    hosts = [
        NodeRecord("lab1", "10.77.0.1", (0, 1), here),
        NodeRecord("lab2", "10.77.0.2", (2,), gone),
    ]
    write_agent(place, agent_script(tools, hosts))

    def run(*words, cwd=None, stdin=""):
        return subprocess.run(
            [place, *words],
            capture_output=True,
            text=True,
            cwd=cwd,
            input=stdin,
            check=False,
        )

    return run


ENTERED = f"entered --target {os.getpid()} --net --uts --mount\non cpus 0-1\n"


@pytest.mark.parametrize(
    "before",
    [
        ["lab1"],
        ["10.77.0.1"],
        ["me@lab1"],
        ["-x", "lab1"],
        ["-x", "-n", "-l", "me", "-p", "22", "-o", "StrictHostKeyChecking=no", "lab1"],
        ["-oBatchMode=yes", "--", "lab1"],
    ],
    ids=" ".join,
)
def test_flags_are_dropped_and_the_host_is_found(agent, before):
    done = agent(*before, "echo", "hello")
    assert (done.stdout, done.stderr, done.returncode) == (ENTERED + "hello\n", "", 0)


def test_words_are_joined_and_read_by_a_shell_as_ssh_does(agent):
    done = agent("lab1", "echo", "'a  b'", "$((1", "+", "1));", "exit 7")
    assert done.stdout == ENTERED + "a  b 2\n"
    assert done.returncode == 7


def test_options_behind_the_host_belong_to_the_command(agent):
    assert agent("lab1", "echo", "-x", "--", "y").stdout == ENTERED + "-x -- y\n"


def test_directory_and_stdin_are_passed_on(agent, tmp_path):
    place = tmp_path / "a  b"
    place.mkdir()
    done = agent("lab1", "pwd;", "cat", cwd=place, stdin="typed\n")
    assert done.stdout == f"{ENTERED}{place}\ntyped\n"


def test_an_error_of_the_shell_does_not_begin_with_the_directory(tools, tmp_path):
    words = enter_argv(tools, os.getpid(), (0,), str(tmp_path))
    done = subprocess.run([*words, "missing"], capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert re.match("cosched: .*missing: not found$", done.stderr)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "usage: AGENT"),
        (["lab1"], "usage: AGENT"),
        (["-l"], "usage: AGENT"),
        (["lab3", "true"], "host 'lab3' is not in the lab; its nodes are lab1, lab2"),
        (["lab", "true"], "host 'lab' is not in the lab"),
        (["lab2", "true"], "lab2 has lost its keeper"),
    ],
    ids=str,
)
def test_errors_are_one_line_and_status_255(agent, words, says):
    done = agent(*words)
    assert says in done.stderr
    assert (done.stderr.count("\n"), done.stdout, done.returncode) == (1, "", 255)


def test_command_words_are_kept(tools, tmp_path):
    argv = enter_argv(tools, 42, (0, 3), str(tmp_path))
    done = subprocess.run(
        [*argv, "printf", "%s|", "a  b", "$x", "*"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        "entered --target 42 --net --uts --mount\non cpus 0,3\na  b|$x|*|"
    )


def test_missing_directory_becomes_the_root(tools, tmp_path):
    argv = enter_argv(tools, 42, (0,), str(tmp_path / "gone"))
    done = subprocess.run([*argv, "pwd"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "/"


def test_missing_tools_are_named():
    with pytest.raises(CoschedError, match="taskset not found: apt install util-linux"):
        Tools.find(lambda name: "/bin/nsenter" if name == "nsenter" else None)


def test_agent_is_put_where_programs_execute():
    places = agent_places(Path("/run/cosched"), "cosched-lab-1-")
    noexec = {Path("/run/cosched/lab"), Path("/dev/shm")}

    def flags(directory):
        return os.ST_NOEXEC if directory in noexec else 0

    assert choose_agent_place(places, lambda _: 0) == Path("/run/cosched/lab/agent")
    assert choose_agent_place(places, flags) == Path("/tmp/cosched-lab-1-agent")
    noexec.add(Path("/tmp"))
    with pytest.raises(CoschedError, match=r"no program may execute in .*--run-dir"):
        choose_agent_place(places, flags)


def test_agent_path_has_no_blank_or_colon():
    places = agent_places(Path("/my runs"), "m-")
    assert choose_agent_place(places, lambda _: 0) == Path("/dev/shm/m-agent")


def test_agent_does_not_follow_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "agent").symlink_to(victim)
    write_agent(tmp_path / "agent", "#!/bin/sh\n")
    assert victim.read_text() == "precious"
    assert os.access(tmp_path / "agent", os.X_OK)
