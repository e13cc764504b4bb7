"""Tests that docs/dev/domain-protocol.md describes messages and requests as they are."""

import json
import re
import socket
import typing

import msgspec

from cosched.cluster import messages
from tests.places import ROOT

PAGE = (ROOT / "docs" / "dev" / "domain-protocol.md").read_text()


def test_the_table_has_each_message_with_its_fields():
    rows = re.findall(r"^\| ([A-Z]\w+) \| [^|]* \| ([\w ]*?) ?\|$", PAGE, re.MULTILINE)
    found = {
        kind.__name__: " ".join(field.name for field in msgspec.structs.fields(kind))
        for kind in typing.get_args(messages.AnyMessage)
    }
    assert dict(rows) == found


def test_the_page_describes_what_makes_each_message_arrive():
    section = PAGE.split("### What makes each message arrive")[1].split("### ")[0]
    firsts = " ".join(re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE))
    kinds = {kind.__name__ for kind in typing.get_args(messages.AnyMessage)}
    assert kinds <= set(re.findall(r"[A-Z]\w+", firsts))


def test_the_requests_are_answered_as_shown(make_rig):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    blocks = re.findall(r"```request\n(.*)\n(.*)\n```", PAGE)
    assert len(blocks) >= 9
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(rig.paths.agent_socket("n1")))
        stream = connection.makefile("rw")
        for request, shown in blocks:
            stream.write(request + "\n")
            stream.flush()
            assert_shows(json.loads(stream.readline()), json.loads(shown), request)


def assert_shows(answer, shown, request):
    """The answer may have more members than the page shows."""
    if isinstance(shown, dict):
        for key, value in shown.items():
            assert key in answer, request
            assert_shows(answer[key], value, request)
    elif isinstance(shown, list):
        assert len(answer) == len(shown), request
        for one, other in zip(answer, shown, strict=True):
            assert_shows(one, other, request)
    else:
        assert answer == shown, request
