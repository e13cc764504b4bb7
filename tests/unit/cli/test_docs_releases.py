"""docs/releases.md has the versions that the code compares."""

from __future__ import annotations

import re

from cosched.cluster import store_versions
from cosched.cluster.coupling import snapshot_store
from cosched.cluster.messages import PROTOCOL
from cosched.shm._native import lib
from cosched.version import VERSION
from tests.places import ROOT

PAGE = (ROOT / "docs/releases.md").read_text()


def test_page_has_the_version():
    assert f"**State:** {VERSION} is the version in the code" in PAGE
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_page_has_each_number():
    shown = dict(re.findall(r"^\| ([^|]*) \| (\d+) \| ", PAGE, re.M))
    assert shown == {
        "ABI of the shared memory": str(lib.COSCHED_ABI),
        "the same": str(lib.COSCHED_ABI),
        "page of a malleable job": str(lib.COSCHED_PAGE_VERSION),
        "protocol of a domain": str(PROTOCOL),
        "job store (`jobs.sqlite`)": str(store_versions.VERSION),
        "store of the coupling (`mates.sqlite`)": str(snapshot_store._VERSION),
    }


def test_page_has_the_oldest_store_that_is_read():
    oldest = store_versions.VERSION - len(store_versions.upgrades(()))
    assert f"an older file ({oldest} to {store_versions.VERSION - 1}) is upgraded" in PAGE
