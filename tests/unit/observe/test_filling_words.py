"""The sentences of why, top and the account about filled waits and the begin of a job."""

from __future__ import annotations

import re
import time

import pytest

from cosched.core.units import NS_PER_S
from cosched.observe.filling import of_live
from cosched.observe.why.job_detail import detail
from cosched.observe.why.story_text import story_text
from tests.unit.observe.top_samples import filling, job, status, task

BEFORE_S = 1_700_000_000


@pytest.mark.parametrize(
    ("begun_s", "figures", "told"),
    [
        (None, filling(), []),
        (0.12, filling(), ["began 0.12 s after its command"]),
        (None, filling(0.001), []),
        (None, filling(2.1), ["its waits: 2.1 s, none of it filled"]),
        (
            None,
            filling(2.1, [("7.app-5", 1.138), ("7.app-7", 0.5)]),
            ["its waits: 2.1 s, 78% filled by app-5, app-7"],
        ),
        (
            None,
            filling(0.001, [], [("7.app-3", 1.7, 5.0), ("8.x", 0.6, 6.0), ("7.c", 1, 1)]),
            ["filled 34% of app-3's, 10% of 8.x's, 100% of c's waits"],
        ),
        (
            None,
            filling(4.0, [(f"7.{n}", 0.5) for n in "abcde"]),
            ["its waits: 4.0 s, 62% filled by a, b, c and 2 more"],
        ),
    ],
)
def test_sentences_name_other_jobs(begun_s, figures, told):
    assert of_live(job("me", [], began_after_s=begun_s, filling=figures)) == told


def test_daemon_of_an_earlier_version_says_nothing():
    old = job("me", [])
    del old["filling"], old["began_after_s"]
    assert of_live(old) == []


def test_why_and_detail_fit_80_columns():
    names = ["7." + letter * 60 for letter in "abc"]
    figures = filling(
        9.0, [(name, 2.0) for name in names], [(name, 2.0, 8.0) for name in names]
    )
    tasks = [task(rank, rank) for rank in range(40)]
    me = job("me", tasks, began_after_s=12345.6, filling=figures, cpus=range(40))
    other = job("other", [task(1)], cpus=range(40, 80))
    story = {"job": "7.me", "node": "n1", "now": "runs", "live": me, "notes": []}
    why = story_text({**story, "reaches_back_to_s": 0}, 5, in_all=True)
    assert "began 12345.60 s after its command" in why
    for text in (why, detail([status("n1", [me, other])], "me", 7)):
        assert max(map(len, text.splitlines())) <= 80
        flat = " ".join(text.split())
        assert f"67% filled by {', '.join(name[2:] for name in names)}" in flat
        assert f"filled 25% of {'a' * 60}'s" in flat
    assert "; carrier shadow; CPUs 0-39" in flat
    assert "on the node's other CPUs: other (CPUs 40-79)" in flat
    assert "after its command" not in story_text({**story, "reaches_back_to_s": 0}, 5)


def test_why_dates_a_change_that_was_not_today():
    noted = {"times": 1, "why": "first", "scheduled": True}
    notes = [
        {**noted, "wall_ns": at_s * NS_PER_S, "text": text}
        for at_s, text in ((BEFORE_S, "began"), (int(time.time()), "ended"))
    ]
    story = {"job": "7.me", "node": "n1", "now": "ended", "live": None, "notes": notes}
    _, earlier, today = story_text({**story, "reaches_back_to_s": 0}, 5).splitlines()
    date = time.strftime("%m-%d %H:%M:%S", time.localtime(BEFORE_S))
    assert earlier == f"  {date}.000  began"
    assert re.fullmatch(r"  \d\d:\d\d:\d\d\.000  ended", today)
