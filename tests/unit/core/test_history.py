"""Accounts, records and what the records of several nodes say together."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cosched.cli.jobs import elsewhere
from cosched.cli.jobs.history import History
from cosched.core.errors import CoschedError
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    Cause,
    MessageTrapped,
    Mode,
    PublishStatus,
    Refusal,
    RefuseRequest,
    TaskRegistered,
)
from cosched.core.trace.account import (
    INTERVALS_MAX,
    Account,
    Accounts,
    Moment,
    Standing,
)
from cosched.core.trace.filling import Filling, Part
from cosched.core.trace.job_record import (
    JobRecord,
    decode_record,
    encode_record,
    intervals_of,
    line_of,
)
from cosched.core.units import NS_PER_S, NS_PER_US
from cosched.linux.homes import state_directory
from cosched.node.records.bounded_file import FilePair
from cosched.node.records.history_writer import _read as earlier_records
from cosched.node.records.history_writer import history_files
from cosched.observe import job_summary
from cosched.observe.history_columns import HISTORY
from cosched.observe.job_summary import (
    gather,
    in_words,
    read_files,
    resized_summary,
    runs,
    summary,
)
from cosched.rundir.directories import SITE_STATE
from cosched.rundir.paths import NodePaths
from tests.tools.desk import FakeDesk
from tests.unit.core.trace_histories import CHOICES, JOBS, SETTINGS, run_choices

BEGAN = 1_700_000_000 * NS_PER_S


@given(SETTINGS, CHOICES, st.sampled_from(JOBS))
def test_account_agrees_with_the_machine(settings, choices, job):
    machine = NodeScheduler(settings)
    accounts = Accounts()
    began_ns = None
    granted, refused = 0, Counter()
    for event, commands in run_choices(machine, choices):
        ended = [account.job for account in accounts.take(event, commands)]
        state = machine.jobs.get(job)
        assert (job in ended) == (began_ns is not None and state is None)
        if state is None:
            began_ns, granted, refused = None, 0, Counter()
            continue
        began_ns = event.now_ns if began_ns is None else began_ns
        if isinstance(event, MessageTrapped) and event.job == job:
            reasons = [c.reason for c in commands if isinstance(c, RefuseRequest)]
            granted += not reasons
            refused.update(reason for reason in reasons if reason is not Refusal.UNKNOWN)
    state = machine.jobs.get(job)
    if state is None:
        return
    now_ns = event.now_ns + 12345
    (account,) = (a for a in accounts.close(Moment(now_ns, 0)) if a.job == job)
    assert account.began.now_ns == began_ns
    assert (account.granted, account.refused) == (granted, refused)
    assert account.spent_ns.total() == now_ns - began_ns
    assert account.spent_ns[Standing.SCHEDULED] == state.received_ns + state.ran_ns(now_ns)
    assert account.switches == state.switches
    if state.mode is Mode.COSCHEDULED and not account.complete_from_ns:
        lengths = [end.now_ns - begin.now_ns for begin, end, _ in account.intervals]
        assert sum(lengths) == account.spent_ns[Standing.SCHEDULED]


def test_account_keeps_the_last_intervals():
    account = Account("0.a", Moment(1000, BEGAN))
    for number in range(INTERVALS_MAX + 3):
        account.stand(Standing.SCHEDULED, Moment(1000 + 20 * number, BEGAN), Cause.SLICE)
        account.stand(Standing.UNSCHEDULED, Moment(1010 + 20 * number, BEGAN), Cause.SLICE)
    assert len(account.intervals) == INTERVALS_MAX
    begin, end, _ = account.intervals[0]
    assert (begin.now_ns, end.now_ns) == (1060, 1070)
    assert account.complete_from_ns == 50  # the end of the last one that was forgotten
    assert account.switches == INTERVALS_MAX + 3


def record(**changes):
    values = {
        "node": "n1",
        "job": "0.a",
        "name": "a",
        "uid": 0,
        "ranks": (0,),
        "world": 2,
        "carrier": "prefix",
        "began_wall_ns": BEGAN,
        "ended_wall_ns": BEGAN + 10 * NS_PER_S,
        "partial": False,
        "response_s": 10.0,
        "scheduled_s": 6.0,
        "unscheduled_s": 4.0,
        "suspended_s": 0.0,
        "released_s": 0.0,
        "cpu_s": 5.5,
        "switches": 2,
        "granted": 1,
        "refused": {Refusal.GMET: 3},
        "trapped": 4,
        "sent": 50,
        "received": 51,
        "waited_s": 1.5,
        "intervals_us": ((0, 3_000_000), (5_000_000, 8_000_000)),
        "complete_from_us": 0,
    }
    return JobRecord(**{**values, **changes})


def test_record_is_read_as_it_was_written():
    line = encode_record(record())
    assert line.count(b"\n") == 1
    assert decode_record(line) == record()
    assert "\n" not in line_of(record())
    assert "seen in part" in line_of(record(partial=True))


def test_record_of_an_earlier_version_is_read():
    line = json.loads(encode_record(record()))
    for name in ("began_after_s", "filling"):
        del line[name]
    found = decode_record(json.dumps(line).encode())
    assert (found.began_after_s, found.filling) == (None, None)
    told = summary([found])
    assert (told.began_after_s, told.filling) == (None, None)
    assert "command" not in "".join(in_words(told))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "truncated"),
        (b"[]", "object"),
        (encode_record(record(cosched_history=9)), "version 9"),
        (encode_record(record()).replace(b'"uid":0', b'"uid":"x"'), "int"),
    ],
)
def test_text_that_is_no_record_is_rejected(line, complaint):
    with pytest.raises(CoschedError, match=complaint):
        decode_record(line)


def test_together_counts_partial_overlap_of_nodes():
    other = record(
        node="n2",
        ranks=(1,),
        cpu_s=4.5,
        scheduled_s=5.0,
        intervals_us=((1_000_000, 3_000_000), (6_000_000, 9_000_000)),
    )
    found = summary([record(), other])
    # On both 1-3 and 6-8, on any 0-3 and 5-9.
    assert found.together == pytest.approx(4 / 7)
    assert found.alone_s == pytest.approx(4)
    assert found.nodes == ("n1", "n2")
    assert (found.tasks, found.cpu_s, found.switches) == (2, 10.0, 4)
    assert found.scheduled_s == 5.5
    assert found.refused == {"gmet": 6}
    lines = in_words(found)
    assert "57% of it on all nodes" in lines[1]
    assert max(map(len, lines)) <= 80 - len("cosched-run: ")


def test_nodes_begin_by_the_wall_clock():
    later = record(node="n2", began_wall_ns=BEGAN + NS_PER_S)
    # n2's intervals are 1-4 and 6-9 in the time of n1, which has 0-3 and 5-8; in common
    # is the time from 1 on.
    found = summary([record(), later])
    assert found.together == pytest.approx((2 + 2) / (3 + 4))


def test_one_node_is_always_together():
    found = summary([record(cpu_s=None, released_s=2.0)])
    assert found.together == 1
    assert found.alone_s == 8
    assert found.cpu_s is None


def test_forgotten_intervals_count_like_kept_ones():
    half = ((5_000_000, 8_000_000),)
    run = [
        record(node=n, intervals_us=half, complete_from_us=5_000_000) for n in ("n1", "n2")
    ]
    found = summary(run)
    assert found.together == 1
    assert found.alone_s == pytest.approx(6)


SPANS = st.lists(st.integers(0, 10_000_000), max_size=10, unique=True).map(
    lambda edges: tuple(zip(*[iter(sorted(edges))] * 2, strict=False))
)


@given(st.lists(SPANS, min_size=2, max_size=4))
def test_together_agrees_with_a_count_by_instants(sets):
    run = [record(node=f"n{i}", intervals_us=spans) for i, spans in enumerate(sets)]
    found = summary(run)
    edges = sorted({edge for spans in sets for span in spans for edge in span})
    on_all = on_any = 0
    for start, end in pairwise(edges):
        held = [any(low <= start < high for low, high in spans) for spans in sets]
        on_all += (end - start) * all(held)
        on_any += (end - start) * any(held)
    assert found.alone_s == pytest.approx(on_all / 1e6)
    if on_any:
        assert found.together == pytest.approx(on_all / on_any)
    else:
        assert found.together is None
    assert found.alone_s <= found.response_s


def test_runs_of_one_job_name_are_separate():
    again = BEGAN + 20 * NS_PER_S
    records = [
        record(),
        record(node="n2"),
        record(began_wall_ns=again, ended_wall_ns=again + 1),
        record(node="n2", began_wall_ns=again, ended_wall_ns=again + 2),
        record(node="n2", job="1000.a", uid=1000),
        record(node="n3", world=5),
    ]
    found = [sorted(r.node for r in run) for run in runs(reversed(records))]
    assert Counter(map(tuple, found)) == {("n1", "n2"): 2, ("n2",): 1, ("n3",): 1}


def test_a_record_is_compared_with_those_of_its_job_only(monkeypatch):
    """A node keeps thousands of records; to compare each with all takes minutes."""
    compared = []
    monkeypatch.setattr(job_summary, "_belongs", lambda *pair: compared.append(pair))
    assert len(runs(record(job=f"7.{name}") for name in "abcdef")) == 6
    assert compared == []


def _ranks(ranks, begin_s, command_s=-1, **changes):
    """The record of ranks that are on a node for 1 s. command_s: when the command was
    given."""
    began = BEGAN + round(begin_s * NS_PER_S)
    return record(
        ranks=ranks, began_wall_ns=began, ended_wall_ns=began + NS_PER_S, response_s=1.0,
        scheduled_s=1.0, unscheduled_s=0.0, began_after_s=begin_s - command_s, **changes,
    )  # fmt: skip


def test_ranks_that_begin_when_others_have_ended_are_one_run():
    (run,) = runs([_ranks((1,), 2), _ranks((0,), 0, -1.0001)])
    found = summary(run)
    assert (found.nodes, found.tasks, found.began_after_s) == (("n1",), 2, 1.0001)
    assert (found.response_s, found.scheduled_s, found.alone_s) == (3.0, 2.0, 2.0)
    assert found.together == 1.0


def test_one_node_can_have_several_records_of_a_run():
    """n1 has the job at 0 to 1 s and at 2 to 3 s, n2 at 0 to 3 s."""
    second = 1_000_000
    one = [
        _ranks((rank,), 2 * rank, intervals_us=((0, second),), released_s=1.0)
        for rank in (0, 1)
    ]
    beside = _ranks((2,), 0, node="n2", intervals_us=((0, 3 * second),))
    ended = BEGAN + 3 * NS_PER_S
    beside = replace(beside, ended_wall_ns=ended, released_s=3.0)
    (run,) = runs([*one, beside])
    found = summary(run)
    assert found.together == pytest.approx(2 / 3)
    assert found.alone_s == pytest.approx(2.0 + 2.0)
    (run,) = runs([one[0], _ranks((1,), 2, node="n2")])
    assert summary(run).together is None


def test_ranks_of_another_command_are_another_run():
    for other in (
        _ranks((1,), 2, 1.9),  # the user gave the command again
        _ranks((0,), 2),  # the domain started the job again
        _ranks((1,), 2, job="0.b"),
        record(ranks=(1,), began_wall_ns=BEGAN + 2 * NS_PER_S),
    ):
        assert len(runs([_ranks((0,), 0), other])) == 2
    again = [_ranks((0,), 0), _ranks((0,), 2), _ranks((1,), 4)]
    assert [len(run) for run in runs(again)] == [1, 2]


def test_nodes_of_a_malleable_job_come_and_go_in_one_run():
    """Its ranks are in several worlds, node n2 comes twice, and n3 when n1 has gone."""

    def stay(node, begin_s, end_s, world=1, name="a-7"):
        began, ended = (BEGAN + at_s * NS_PER_S for at_s in (begin_s, end_s))
        return record(
            node=node, began_wall_ns=began, ended_wall_ns=ended, world=world,
            name=name, job=f"0.{name}",
        )  # fmt: skip

    first = [
        stay("n1", 0, 10, 2),
        stay("n2", 0, 4, 2),
        stay("n2", 6, 20),
        stay("n3", 15, 30),
    ]
    again = [stay("n1", 40, 50)]
    rigid = [stay("n1", 0, 10, 2, "b"), stay("n2", 6, 20, 1, "b")]
    found = runs([*rigid, *reversed(first), *again], {"a-7"})
    assert sorted(map(len, found)) == [1, 1, 1, 4]
    whole = summary(next(run for run in found if len(run) == 4))
    assert whole.nodes == ("n1", "n2", "n3")
    assert whole.response_s == 30
    assert whole.node_s == 10 + 4 + 14 + 15
    (row,) = HISTORY.as_csv(("nodes", "nodehours", "changes"), [whole]).splitlines()[1:]
    assert row == f"3,{43 / 3600:.6f},"


def test_nodes_that_a_malleable_job_has_left_do_not_disagree_with_the_others():
    """n1 has the job at 0 to 10 s, n2 at 0 to 4 s and at 6 to 10 s; n2 gives it no CPU from
    8 s on."""
    second = 1_000_000
    run = [
        record(intervals_us=((0, 10 * second),)),
        record(
            node="n2",
            ended_wall_ns=BEGAN + 4 * NS_PER_S,
            intervals_us=((0, 4 * second),),
        ),
        record(
            node="n2",
            began_wall_ns=BEGAN + 6 * NS_PER_S,
            intervals_us=((0, 2 * second),),
            ended_wall_ns=BEGAN + 10 * NS_PER_S,
        ),
    ]
    found = resized_summary(run, 2)
    assert found.together == pytest.approx(8 / 10)
    assert found.alone_s == pytest.approx(8)
    assert found.changes == 2
    kept = [replace(each, complete_from_us=5 * second) for each in run[:1]]
    assert resized_summary([*kept, *run[1:]], 2).together == pytest.approx(3 / 5)
    alone = [replace(each, node="n1") for each in run[1:]]
    assert resized_summary(alone, 1).together == 1.0
    none_known = [replace(each, complete_from_us=10 * second) for each in run[:1]]
    assert resized_summary([*none_known, *run[1:]], 2).together is None


@pytest.fixture
def run_dir(tmp_path):
    for node in ("n1", "n2"):
        (tmp_path / node).mkdir()
        lines = [record(node=node), record(node=node, name="b", job="0.b")]
        path = tmp_path / node / "history.jsonl"
        path.write_bytes(b"".join(map(encode_record, lines)))
    return tmp_path


def run_history(run_dir, *arguments):
    words = ["--run-dir", str(run_dir), "--since", "36500d", *arguments]
    return CliRunner().invoke(History.click_command, words)


def test_history_merges_nodes_in_80_columns(run_dir):
    output = run_history(run_dir).output
    assert len(output.splitlines()) == 3
    assert max(map(len, output.splitlines())) <= 80
    document = json.loads(run_history(run_dir, "--job", "b", "--json").output)
    assert [job["nodes"] for job in document["jobs"]] == [["n1", "n2"]]
    only = json.loads(run_history(run_dir, "--node", "n2", "--json").output)
    assert [job["nodes"] for job in only["jobs"]] == [["n2"], ["n2"]]
    assert run_history(run_dir, "--last", "1").output.splitlines()[1].startswith("(1 ear")


def test_history_cuts_seconds_and_then_a_long_name(run_dir):
    name = "x" * 58 + "-4711"
    long = record(
        node="n1", name=name, job=f"0.{name}", ended_wall_ns=BEGAN + 11 * NS_PER_S
    )
    with (run_dir / "n1/history.jsonl").open("ab") as stream:
        stream.write(encode_record(long))
    head, *_, row = run_history(run_dir).output.splitlines()
    assert max(len(head), len(row)) <= 80
    assert re.match(r"\d\d-\d\d \d\d:\d\d x*…-4711 ", row)


def test_history_of_named_nodes_asks_no_other_node(run_dir, monkeypatch):
    monkeypatch.setattr(elsewhere, "read_job_nodes", lambda *_: pytest.fail("not asked"))
    assert run_history(run_dir, "--job", "b", "--node", "n2").exit_code == 0
    labels = run_history(run_dir, "--job", "b", "--node", "n2", "--labels")
    assert "no label of an ended job was checked" in str(labels.exception)


def test_history_has_the_changes_of_malleable_jobs_from_their_domain(run_dir):
    with (run_dir / "n1/history.jsonl").open("ab") as stream:
        for world in (2, 1):  # two worlds, one after the other
            stays = {"began_wall_ns": BEGAN + (2 - world) * 5 * NS_PER_S}
            job = record(node="n1", name="heat-7", job="0.heat-7", world=world, **stays)
            stream.write(encode_record(job))
    assert len(run_history(run_dir).output.splitlines()) == 5
    desk = FakeDesk(run_dir)
    desk.job(7, name="heat", minimum=1, ideal=8, resized=3)
    desk.job(8, name="b")
    found = json.loads(run_history(run_dir, "--json").output)["jobs"]
    desk.close()
    assert {job["name"]: job["changes"] for job in found} == {
        "heat-7": 3, "a": None, "b": None,
    }  # fmt: skip
    (heat,) = [job for job in found if job["name"] == "heat-7"]
    assert heat["nodes"] == ["n1"]


def test_a_malleable_job_that_runs_has_not_ended_on_the_nodes_that_it_left(run_dir):
    left = record(node="n1", name="heat-7", job="0.heat-7")
    with (run_dir / "n1/history.jsonl").open("ab") as stream:
        stream.write(encode_record(left))
    desk = FakeDesk(run_dir)
    began = {"state": "running", "ended_ns": None}
    desk.job(7, name="heat", minimum=1, resized=1, started_ns=BEGAN, **began)
    names = [job["name"] for job in _jobs_of(run_dir)]
    assert names == ["a", "b"]
    # An earlier domain had a job of the same name and number.
    desk.job(7, name="heat", minimum=1, resized=1, started_ns=BEGAN + 10**11, **began)
    assert len(_jobs_of(run_dir)) == 3
    desk.close()


def _jobs_of(run_dir):
    return json.loads(run_history(run_dir, "--json").output)["jobs"]


def test_history_shows_expected_lengths(tmp_path):
    (tmp_path / "n1").mkdir()
    known = record(name="solver-8", expected_s=5432.1, scheduled_s=4000.0, cpu_s=9000.0)
    lines = [known, record(name="b", job="0.b")]
    (tmp_path / "n1/history.jsonl").write_bytes(b"".join(map(encode_record, lines)))
    head, first, second = run_history(tmp_path).output.splitlines()
    assert head.split()[4:6] == ["expected", "ran"]
    assert first.split()[2:7] == ["solver-8", "1", "10.00s", "1h30m", "1h06m"]
    assert second.split()[2:7] == ["b", "1", "10.00s", "-", "6.00s"]
    shown = json.loads(run_history(tmp_path, "--json").output)["jobs"]
    assert [job["expected_s"] for job in shown] == [5432.1, None]


def test_columns_are_those_that_are_asked_for(run_dir):
    words = ("--format", "job,user,ranks,start,elapsed,scheduled,waited,exit")
    head, row, _ = run_history(run_dir, *words).output.splitlines()
    assert head.split() == [
        "job",
        "user",
        "ranks",
        "began",
        "response",
        "ran",
        "unscheduled",
        "exit",
    ]
    assert row.split()[-5:] == ["22:13:20", "10.00s", "6.00s", "4.00s", "-"]


def test_times_of_columns_are_those_of_the_json(run_dir):
    """waited_s, the time in MPI calls, is another time than that without the CPUs."""
    shown = json.loads(run_history(run_dir, "--json").output)["jobs"]
    fields = {
        "ran": "scheduled_s",
        "unscheduled": "unscheduled_s",
        "detached": "released_s",
    }
    table = list(csv.DictReader(run_history(run_dir, "--csv").output.splitlines()))
    assert len(table) == len(shown) > 0
    for row, job in zip(table, shown, strict=True):
        assert "waited" not in row
        for column, field in fields.items():
            assert float(row[column]) == pytest.approx(job[field])
    assert shown[0]["waited_s"] != shown[0]["unscheduled_s"]


def filled(waits_s, by, fills=()):
    """A job's figures; ``by``: (job, filled_s)."""
    parts = tuple(Part(job, filled_s, waits_s) for job, filled_s in by)
    return Filling(
        waits_s,
        sum(part.filled_s for part in parts),
        parts,
        sum(part.filled_s for part in fills),
        tuple(fills),
    )


def test_nodes_sum_up_how_waits_were_filled(tmp_path):
    (tmp_path / "n1").mkdir()
    first = record(
        began_after_s=0.5,
        filling=filled(2.0, [("0.c", 1.0), ("7.b", 0.5)], [Part("0.d", 1.0, 4.0)]),
    )
    second = record(
        node="n2",
        began_after_s=0.75,
        filling=filled(6.0, [("7.b", 1.5)], [Part("0.d", 2.0, 8.0)]),
    )
    lines = [*map(encode_record, (first, second)), encode_record(record(node="n3"))]
    (tmp_path / "n1/history.jsonl").write_bytes(b"".join(lines[:2]))
    whole = summary([first, second])
    assert whole.began_after_s == 0.5
    assert whole.filling == filled(
        8.0, [("7.b", 2.0), ("0.c", 1.0)], [Part("0.d", 3.0, 12.0)]
    )
    assert in_words(whole)[-3:] == [
        "  began 0.50 s after its command",
        "  its waits: 8.0 s, 38% filled by 7.b, c",
        "  filled 25% of d's waits",
    ]
    words = ("--format", "startup,waits,filled,filledby,fills")
    _, row = run_history(tmp_path, *words).output.splitlines()
    assert row.split() == ["0.50s", "8.00s", "38%", "7.b", "c", "25%", "of", "d"]
    (tmp_path / "n1/history.jsonl").write_bytes(b"".join(lines))  # a node of before
    _, row = run_history(tmp_path, *words).output.splitlines()
    assert row.split() == ["0.50s", "-", "-", "-", "-"]


def test_csv_has_plain_values_of_all_columns(run_dir):
    lines = [
        record(name="c,d", job="0.c,d", uid=54321, unfinished=2, expected_s=9.5),
        record(name="e", job="0.e", unfinished=0),
    ]
    (run_dir / "n2/history.jsonl").unlink()
    (run_dir / "n1/history.jsonl").write_bytes(b"".join(map(encode_record, lines)))
    first, second = csv.DictReader(io.StringIO(run_history(run_dir, "--csv").output))
    assert list(first) == list(HISTORY.columns)
    ended = datetime.fromisoformat(first["ended"])
    assert ended.timestamp() == BEGAN / NS_PER_S + 10
    assert (first["job"], first["user"], first["uid"]) == ("c,d", "54321", "54321")
    assert (first["ran"], first["expected"], first["exit"]) == ("6.000", "9.500", "2 died")
    assert (second["expected"], second["exit"], second["nodelist"]) == ("", "ok", "n1")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("-u", "54321"), ["mine"]),
        (("--user", "root,54321"), ["a", "late", "mine"]),
        (("--me",), ["a", "late"]),
        (("--since", "2023-11-14T22:14:00+00:00"), ["late"]),
        (("--until", "2023-11-14T22:14:00+00:00"), ["a", "mine"]),
    ],
)
def test_jobs_are_chosen_by_user_and_time(tmp_path, words, names, monkeypatch):
    (tmp_path / "n1").mkdir()
    later = BEGAN + 60 * NS_PER_S
    lines = [
        record(),
        record(name="late", job="0.late", began_wall_ns=later, ended_wall_ns=later),
        record(name="mine", job="54321.mine", uid=54321),
    ]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "n1/history.jsonl").write_bytes(b"".join(map(encode_record, lines)))
    shown = json.loads(run_history(tmp_path, *words, "--json").output)["jobs"]
    assert sorted(job["name"] for job in shown) == names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "job,elapse"), "'elapse' is not a column; did you mean 'elapsed'?"),
        (("--format", "job,job"), "names a column twice"),
        (("--format", ""), "'' is not a column; cosched history --help lists them"),
        (("-u", "no-such-user"), "no user 'no-such-user' on this machine"),
        (("--since", "yesterday"), "'yesterday' is neither a duration"),
        (("--since", "1d", "--until", "2d"), "--until: 2d is before --since 1d"),
    ],
)
def test_bad_choice_is_one_line(run_dir, words, message):
    result = run_history(run_dir, *words)
    assert isinstance(result.exception, CoschedError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_history_reports_that_it_is_empty(run_dir):
    result = run_history(run_dir, "--job", "nosuch")
    assert isinstance(result.exception, CoschedError)
    assert "nosuch" in str(result.exception)


def test_history_skips_a_cut_last_line_only(run_dir):
    path = run_dir / "n1/history.jsonl"
    lines = path.read_bytes()
    place = FilePair(run_dir / "n1", "history", 0)
    path.write_bytes(lines[:-5])
    assert len(read_files(place, 0, refuse)) == 1


@pytest.mark.parametrize("bad", [b"\xff", b'{"node":"\xff"}', b"{", b"[" * 100_000])
def test_a_bad_line_is_skipped_with_one_line(run_dir, caplog, bad):
    path = run_dir / "n1" / "history.jsonl"
    lines = path.read_bytes()
    place = FilePair(run_dir / "n1", "history", 0)
    whole = len(read_files(place, 0, refuse))
    path.write_bytes(bad + b"\n" + lines + bad + b"\n" + bad + b"\n")
    told = []
    assert len(read_files(place, 0, told.append)) == whole
    (line,) = told
    assert f"{path}:1: not a line of a history" in line
    assert line.endswith("; 3 lines of this file are skipped")
    assert line.isprintable()
    assert len(list(earlier_records(place))) == whole  # as a daemon reads it
    (logged,) = caplog.messages
    assert "3 lines are skipped" in logged


def refuse(line):
    raise AssertionError(line)


def test_history_follows_a_file_rotated_while_read(run_dir, monkeypatch):
    place = FilePair(run_dir / "n1", "history", 0)
    whole = len(read_files(place, 0, refuse))
    place.previous.write_bytes(place.current.read_bytes())
    read, rotated = Path.read_bytes, []

    def rotate_first(path):
        if path == place.current and not rotated:
            rotated.append(path.replace(place.previous))  # the next one is still to be made
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", rotate_first)
    assert len(read_files(place, 0, refuse)) == whole
    assert rotated


def test_history_follows_a_file_rotated_between_reads(run_dir, monkeypatch):
    place = FilePair(run_dir / "n1", "history", 0)
    middle = place.current.read_bytes()
    place.previous.write_bytes(encode_record(record(node="n1", name="old", job="0.old")))
    read, rotated = Path.read_bytes, []

    def rotate_after(path):
        content = read(path)
        if path == place.previous and not rotated:
            rotated.append(place.current.replace(place.previous))
            place.current.write_bytes(b"")
        return content

    monkeypatch.setattr(Path, "read_bytes", rotate_after)
    names = [found.name for found in read_files(place, 0, refuse)]
    assert rotated
    assert len(names) == len(middle.splitlines())
    assert "old" not in names  # as in the files that there are now


def test_unreadable_history_is_one_line(run_dir):
    place = FilePair(run_dir / "n1", "history", 0)
    place.previous.mkdir()
    with pytest.raises(CoschedError, match=r"history\.1\.jsonl: cannot be read \(Is a dir"):
        read_files(place, 0, refuse)


def test_record_in_file_and_memory_counts_once(run_dir):
    nodes = [NodePaths(run_dir, "n1"), NodePaths(run_dir, "n2")]
    saved = [FilePair(run_dir / "n1", "history", 0)]
    assert len(gather(nodes, 0, refuse, saved)) == len(gather(nodes, 0, refuse)) == 4
    assert len(gather(nodes[1:], 0, refuse, saved)) == 4


def test_history_place_outlives_a_boot():
    usual = NodePaths(Path("/tmp/cosched-1000"), "n1")
    own = NodePaths(Path("/scratch/mine"), "n1")
    home = {"HOME": "/home/u"}

    def place(paths, private, environ):
        return history_files(paths, private, environ, 1000).directory

    assert place(usual, True, home) == Path("/home/u/.local/state/cosched/n1")
    assert place(usual, True, {**home, "XDG_STATE_HOME": "/s"}) == Path("/s/cosched/n1")
    assert place(usual, True, {}) == usual.directory
    assert place(usual, False, home) == usual.directory
    assert place(own, True, home) == own.directory
    site = {"STATE_DIRECTORY": "/var/lib/cosched:/other"}
    assert place(NodePaths(Path("/run/cosched"), "n1"), False, site) == SITE_STATE / "n1"
    assert place(usual, True, site | home) == Path("/home/u/.local/state/cosched/n1")
    assert state_directory({"XDG_STATE_HOME": "relative", "HOME": ""}) is None


CHANGES = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from("ab"), st.booleans()), max_size=30
)


@given(CHANGES, st.integers(0, 150))
def test_scheduled_since_covers_each_scheduled_instant(changes, since_ns):
    accounts, wall_ns, now = Accounts(), 1, {"a": False, "b": False}
    expected = {"a": set(), "b": set()}
    for job in now:
        registered = TaskRegistered(
            now_ns=0, wall_ns=0, job=job, task=1, cpus=frozenset({0})
        )
        accounts.take(registered, [PublishStatus(job, 0, False, Cause.FIRST)])
    for later, job, scheduled in [*changes, (3, "a", False), (3, "b", False)]:
        for each, is_on in now.items():
            expected[each] |= set(range(wall_ns, wall_ns + later)) if is_on else set()
        wall_ns += later
        now[job] = scheduled
        status = PublishStatus(job, wall_ns, scheduled, Cause.SLICE)
        accounts.take(AlarmRang(now_ns=wall_ns, wall_ns=wall_ns), [status])
    for job, instants in expected.items():
        found = accounts.open[job].scheduled_since(since_ns)
        assert found == sorted(found)
        covered = {t for begin, end in found for t in range(begin, end)}
        assert covered == {t for t in instants if t >= since_ns}


def test_scheduled_since_leaves_the_present_interval_open():
    account = Account("0.a", Moment(0, 0))
    account.stand(Standing.SCHEDULED, Moment(5, 5), Cause.FIRST)
    assert account.scheduled_since(3) == [(5, None)]
    assert account.scheduled_since(7) == [(7, None)]


def test_intervals_are_kept_in_microseconds():
    account = Account("0.a", Moment(0, BEGAN))
    account.stand(Standing.SCHEDULED, Moment(5 * NS_PER_US, BEGAN), Cause.FIRST)
    account.stand(Standing.UNSCHEDULED, Moment(9 * NS_PER_US + 1, BEGAN), Cause.SLICE)
    assert intervals_of(account) == ((5, 9),)
    assert replace(record(), intervals_us=intervals_of(account)).intervals_us == ((5, 9),)
