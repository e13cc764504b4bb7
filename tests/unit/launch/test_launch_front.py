"""Programs in front of a launcher, and the words that belong to them."""

import pytest

from cosched.launch.command import wrapped_command
from cosched.launch.family import LauncherKind
from cosched.launch.given.line import read_line
from cosched.launch.given.wrapping_programs import split_front


@pytest.mark.parametrize(
    ("front", "rest"),
    [
        ("", "mpiexec -n 2 app"),
        ("time", "mpiexec -n 2 app"),
        ("/usr/bin/time -f %e -o log", "mpiexec -n 2 app"),
        ("taskset -c 0", "mpiexec -n 2 app"),
        ("taskset 0x1", "srun app"),
        ("env -i A=b C=d", "srun app"),
        ("env -u A --", "srun app"),
        ("numactl --membind 0 -C 1 --localalloc", "mpiexec app"),
        ("numactl --membind=0", "mpiexec app"),
        ("nice -n 5", "mpiexec app"),
        ("nice -5 time -v taskset -c 0,1", "mpiexec app"),
        ("timeout -k 5 1m stdbuf -oL setsid -w", "mpiexec app"),
        ("chrt -b 0 ionice -c 3 nohup", "mpiexec app"),
    ],
)
def test_words_in_front_are_split_off(front, rest):
    assert split_front(f"{front} {rest}".split()) == (
        tuple(front.split()),
        tuple(rest.split()),
    )


@pytest.mark.parametrize("words", ["time", "env A=b", "taskset -c", "nice -n 5"])
def test_such_a_program_alone_is_the_program(words):
    assert split_front(words.split()) == ((), tuple(words.split()))


def test_variables_reach_the_ranks_behind_env():
    tasks = {"COSCHED_JOB": "j"}
    for front, words, environ in (
        (("time",), "time srun app", tasks),
        (("env", "-i"), "env -i env COSCHED_JOB=j srun app", {}),
    ):
        command = wrapped_command(
            read_line(("srun", "app"), LauncherKind.INHERIT, {}), tasks, {}, front
        )
        assert " ".join(command.argv) == words
        assert command.environ == environ
    command = wrapped_command(
        read_line(("mpiexec", "app"), LauncherKind.HYDRA, {}), tasks, {}, ("nice",)
    )
    assert " ".join(command.argv) == "nice mpiexec -genv COSCHED_JOB j app"
