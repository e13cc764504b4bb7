"""Generates values of settings, and whole tables, from their declarations."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from cosched.bench.simulate.models import Model
from cosched.bench.workload.file import JobSpec
from cosched.core.config import kinds, tables
from cosched.core.config.schema import LISTEN_OR_OFF, WAIT
from cosched.core.config.tables import REQUIRED, Key, keys_of, write
from cosched.core.errors import CoschedError
from cosched.core.node.settings import GMET, LEAST_SHARE, SLICE

#: The schemas of lists and mappings, by the form of their kind.
TABLES = {"list of tables": JobSpec, "table of models": Model}
NAMES = st.text(string.ascii_letters, min_size=1, max_size=8)
ADDRESSES = st.sampled_from(["127.0.0.1:9434", "[::1]:1", "n-1.site:65535"])
#: A TOML document has no lone surrogates, and no carriage return without a line feed.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
LINES = TEXTS.filter(str.isprintable)
NUMBERS = st.integers(0, 9 * 10**18)
#: Durations of any precision: each is written exactly.
DURATIONS = st.one_of(NUMBERS, st.integers(1, 10**5).map(lambda s: s * 10**9)).map(
    lambda ns: f"{ns}ns"
)

_COUNTS = st.dictionaries(NAMES, NUMBERS, max_size=3)
#: Mappings to other values than texts, by the form of their kind.
MAPPINGS = {
    "table of NAME = NUMBER": _COUNTS,
    'table of NAME = {"NODES" = NUMBER}': st.dictionaries(NAMES, _COUNTS, max_size=3),
}


def raw_values(kind: kinds.Kind[Any]) -> st.SearchStrategy[Any]:
    """Generates TOML values that a kind may take; it refuses some of them."""
    if kind.form in TABLES:
        below = tables_of(TABLES[kind.form]).map(write)
        named = st.dictionaries(NAMES, below, max_size=2)
        return st.lists(below, max_size=2) if kind.form.startswith("list") else named
    words = [word.strip('"') for word in kind.form.split(" | ")]
    if kind is SLICE:
        return st.one_of(DURATIONS, st.just("auto"), DURATIONS.map("auto:{}".format))
    if kind is GMET:
        return st.one_of(DURATIONS, st.just("auto"))
    if kind is LEAST_SHARE:
        return st.builds("{}%/{}".format, st.integers(0, 100), DURATIONS)
    if kind is WAIT:
        return st.sampled_from(["spin", "yield", "block", "block:5us", "auto:1ms"])
    if kind is kinds.SWITCH:
        return st.booleans()
    if kind.form.startswith("size"):
        return st.one_of(NUMBERS.map(str), st.sampled_from(["64K", "1M", "off", "auto"]))
    if kind.form.startswith("duration"):
        return st.one_of(DURATIONS, st.just("never"))
    if kind in (kinds.ADDRESS, kinds.LISTEN, LISTEN_OR_OFF):
        return st.one_of(ADDRESSES, st.just("off"))
    if kind.form.startswith('list of "'):
        known = [word.strip('" ') for word in kind.form.removeprefix("list of ").split(",")]
        return st.lists(st.sampled_from(known), unique=True, min_size=1)
    if kind.form.startswith("a whole number"):
        return st.one_of(st.integers(0, 100), NUMBERS)
    if kind.form.startswith("a "):
        return st.one_of(st.floats(0, 1), st.floats(0, 1e5), st.integers(0, 100))
    if kind.form.startswith("list"):
        return st.lists(TEXTS, max_size=3)
    if "HOST:PORT" in kind.form:
        return st.dictionaries(NAMES, ADDRESSES, max_size=3)
    if kind.form in MAPPINGS:
        return MAPPINGS[kind.form]
    if kind.form.startswith("table"):
        return st.dictionaries(NAMES, TEXTS, max_size=3)
    return TEXTS if words == ["text"] else st.sampled_from(words)


def values_of(key: Key) -> st.SearchStrategy[Any]:
    """Generates typed values of a key."""
    return raw_values(key.kind).filter(_takes(key.kind)).map(key.kind.parse)


def _takes(kind: kinds.Kind[Any]) -> Callable[[Any], bool]:
    def takes(raw: Any) -> bool:
        try:
            kind.parse(raw)
        except CoschedError:
            return False
        return True

    return takes


def tables_of(schema: type) -> st.SearchStrategy[Any]:
    """Generates tables; their parts may contradict each other."""
    given = {each.path: values_of(each) for each in keys_of(schema) if required(each)}
    others = {each.path: values_of(each) for each in keys_of(schema) if not required(each)}
    values = st.fixed_dictionaries(given, optional=others)
    return values.map(lambda found: tables.fill(schema, found))


def required(key: Key) -> bool:
    return key.default is REQUIRED
