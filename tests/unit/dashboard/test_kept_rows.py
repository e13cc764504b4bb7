"""A page that has all changes since a version has the same rows as a new page."""

from hypothesis import given
from hypothesis import strategies as st

from cosched.dashboard import kept_rows
from cosched.dashboard.kept_rows import KeptRows

ROWS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))


def apply(rows, news):
    kept = {key: row for key, row in rows.items() if key not in news["gone"]}
    return kept | news["set"]


@given(st.lists(ROWS, min_size=1, max_size=8), st.data())
def test_changes_since_any_version_lead_to_the_present_rows(versions, data):
    table, seen = KeptRows(), [{}]
    for version, rows in enumerate(versions, 1):
        table.replace(version, rows)
        seen.append(rows)
    after = data.draw(st.integers(0, len(versions)))
    assert apply(seen[after], table.since(after)) == versions[-1]


def test_row_that_stays_is_not_returned_again():
    table = KeptRows()
    table.replace(1, {"a": {"n": 1}, "b": {"n": 1}})
    table.replace(2, {"a": {"n": 1}, "b": {"n": 2}})
    assert table.since(1) == {"set": {"b": {"n": 2}}, "gone": []}
    assert table.since(2) == {"set": {}, "gone": []}


def test_removed_rows_are_forgotten_at_last(monkeypatch):
    monkeypatch.setattr(kept_rows, "GONE_MOST", 2)
    table = KeptRows()
    table.replace(1, dict.fromkeys("abcd", 0))
    for version, left in enumerate(("bcd", "cd", "d"), 2):
        table.replace(version, dict.fromkeys(left, 0))
    assert table.complete_from == 2
    assert table.since(2)["gone"] == ["b", "c"]
