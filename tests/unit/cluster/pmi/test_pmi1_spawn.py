"""Tests how a PMI-1 request for new tasks is read."""

import pytest

from cosched.cluster.pmi.pmi1_spawn import BEGIN, SpawnReader
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.decoding import Malformed

FIRST = """mcmd=spawn
nprocs=2
execname=./child
totspawns=2
spawnssofar=1
argcnt=2
arg1=a b=c
arg2=
preput_num=1
preput_key_0=PARENT_ROOT_PORT_NAME
preput_val_0=tag#0$x=1$
info_num=2
info_key_0=wdir
info_val_0=/tmp
info_key_1=host
info_val_1=n1, n2
endcmd"""
SECOND = """mcmd=spawn
nprocs=1
execname=other
totspawns=2
spawnssofar=2
argcnt=0
info_num=1
info_key_0=path
info_val_0=/opt/bin
endcmd"""


def read(text):
    reader = SpawnReader()
    return [reader.take(line) for line in text.splitlines()]


def test_the_request_is_complete_after_the_last_program():
    *before, found = read(f"{FIRST}\n{SECOND}")
    assert not any(before)
    assert found == Spawn(
        (
            Command(("./child", "a b=c", ""), 2, "/tmp", "", ("n1", "n2")),
            Command(("other",), 1, "", "/opt/bin"),
        ),
        {"PARENT_ROOT_PORT_NAME": "tag#0$x=1$"},
        connects=True,
    )


def test_a_number_that_is_none_is_an_error():
    with pytest.raises(Malformed, match="many"):
        read(f"{BEGIN}\nnprocs=many\nendcmd")


@pytest.mark.parametrize(
    "line", [f"nprocs={2**63}", f"argcnt={2**62}", f"info_num={2**62}", "preput_num=100001"]
)
def test_a_number_that_is_too_large_makes_no_sense(line):
    with pytest.raises(Malformed, match=r"is more than|is not from"):
        read(f"mcmd=spawn\n{line}\nendcmd")
