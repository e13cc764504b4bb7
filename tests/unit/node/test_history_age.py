"""Records of ended jobs that are older than the operator keeps them."""

from __future__ import annotations

import os
import time

from cosched.core.trace.job_record import encode_record
from cosched.core.units import NS_PER_S
from cosched.node.records.bounded_file import FilePair
from cosched.node.records.history_writer import HISTORY_BYTES, HistoryWriter
from tests.unit.core.test_history import record


def old_and_young(place):
    """Writes a record that is two hours old, and one of now."""
    now_ns = time.time_ns()
    lines = [
        encode_record(record(name="old", ended_wall_ns=now_ns - 7200 * NS_PER_S)),
        encode_record(record(name="young", ended_wall_ns=now_ns)),
    ]
    place.directory.mkdir()
    place.current.write_bytes(b"".join(lines))
    return lines


def names(history):
    answer = history.answer({}, os.geteuid())
    return [each["name"] for each in answer["records"]]


def opened(place, age_ns):
    history = HistoryWriter("n1", None, None, lambda _key: None)
    history.open(place, age_ns)
    return history


def test_records_are_kept_for_their_age(tmp_path):
    place = FilePair(tmp_path / "state", "history", HISTORY_BYTES)
    _, young = old_and_young(place)
    history = opened(place, 3600 * NS_PER_S)
    assert names(history) == ["young"]
    assert list(place.lines()) == [young]
    assert len(history.ended()) == 1  # the node learns from no other
    history._age_ns = 1  # as when an hour has passed
    history.forget_old()
    assert names(history) == []
    assert list(place.lines()) == []
    history.close()


def test_without_an_age_all_records_stay(tmp_path):
    place = FilePair(tmp_path / "state", "history", HISTORY_BYTES)
    lines = old_and_young(place)
    history = opened(place, None)
    history.forget_old()
    assert names(history) == ["old", "young"]
    assert list(place.lines()) == lines
    history.close()
