"""Metrics of a coupled domain, their rules of alerts, and its settings read again."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cosched.cluster.controller.controller import Controller
from cosched.cluster.coupling import metrics
from cosched.cluster.coupling.metrics import DomainCollector, metrics_of, serve_metrics
from cosched.cluster.engines.native.engine import NativeEngine
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import Submission
from cosched.config.domain import parse_config
from cosched.config.restarts import CONTROLLER_ALONE
from cosched.config.slurm import coupled_config
from cosched.core.cluster.coupling.settings import Scheme, WhenDown
from cosched.core.cluster.coupling.state import Stage
from cosched.core.config.tables import reload, write
from cosched.core.errors import CoschedError
from tests.places import ROOT
from tests.unit.cluster.coupling.live.live_domains import (
    EngineDouble,
    LiveDomain,
    free_addresses,
    parse_coupled,
)

JOB = Submission(token="t", name="a", argv=("/bin/true",), environ={}, cwd="/")
RULES = ROOT / "docs/prometheus/coupling.rules.yml"
PAGE = ROOT / "docs/coupling.md"


async def holding(folder, **coupling):
    """A domain whose job has begun to hold 3 of 8 nodes, and is alone."""
    addresses = free_addresses("ab")
    engine = EngineDouble("a", 8, ["b"])
    words = {"unknown": "1h", "answer": "2s", "when_down": "hold", **coupling}
    live = LiveDomain(folder, "a", addresses, engine, lambda line: None, **words)
    engine.submit(1, "mate=g@b", size=3)
    end = time.monotonic() + 20
    while not live.coupling.counts.holds:
        assert time.monotonic() < end, "the job holds"
        await asyncio.sleep(0.01)
    return live


def take(live):
    return live.pairs.figures()


def scraped(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }


def test_metrics_over_http(tmp_path):
    address = free_addresses("m")["m"]

    async def work():
        live = await holding(tmp_path, held_cap=0.75)
        end = serve_metrics(address, lambda: take(live))
        with pytest.raises(CoschedError, match=r"metrics: cannot listen at"):
            serve_metrics(address, lambda: take(live))
        one = await asyncio.to_thread(scraped, address)
        await asyncio.sleep(0.1)
        two = await asyncio.to_thread(scraped, address)
        end()
        await live.close()
        return one, two

    one, two = asyncio.run(work())
    assert one["cosched_domain_held_nodes",] == 3
    assert one["cosched_domain_nodes",] == 8
    assert one["cosched_domain_held_cap_ratio",] == 0.75
    assert one["cosched_domain_holds_total",] == 1
    assert one["cosched_domain_jobs_with_mates", "holding"] == 1
    assert one["cosched_domain_jobs_with_mates", "queuing"] == 0
    assert one["cosched_domain_other_up", "b"] == 0
    held_s = [found["cosched_domain_held_node_seconds_total",] for found in (one, two)]
    assert held_s[1] - held_s[0] >= 0.3  # a hold that lasts counts


def test_controller_that_does_not_answer_is_one_line(monkeypatch):
    monkeypatch.setattr(metrics, "ANSWER_S", 0.05)
    loop = asyncio.new_event_loop()  # it does not run, as one that waits for a disk
    with pytest.raises(CoschedError, match="controller has not answered within"):
        next(DomainCollector(loop, dict).collect())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_held_node_time_counts_once(tmp_path):
    async def work():
        live = await holding(tmp_path, release="300ms")
        member = live.coupling.state.members[1]
        before = 0
        while member.stage is Stage.HOLDING:
            before = take(live).held_node_ns
            await asyncio.sleep(0.02)
        after = take(live).held_node_ns
        await live.close()
        return before, after, live.coupling.counts.releases

    before, after, releases = asyncio.run(work())
    assert releases == 1
    assert before <= after <= before + 3 * 0.5e9


def samples(folder):
    async def work():
        live = await holding(folder)
        found = list(metrics_of(take(live)))
        await live.close()
        return found

    return asyncio.run(work())


def test_pages_and_rules_name_the_metrics(tmp_path):
    exist = {sample.name for metric in samples(tmp_path) for sample in metric.samples}
    named = set(re.findall(r"\bcosched_domain_\w+", RULES.read_text()))
    assert named <= exist
    of_own_queue = {
        "cosched_domain_jobs",
        "cosched_domain_job_nodes",
        "cosched_domain_size_changes_total",
        "cosched_domain_suspensions_total",
    }
    assert (
        set(re.findall(r"`(cosched_domain_\w+)`", PAGE.read_text())) == exist | of_own_queue
    )
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    assert alerts == re.findall(r"`(Cosched\w+)`: ", PAGE.read_text())


@pytest.mark.parametrize("coupled", [False, True])
def test_domain_with_its_own_queue_serves_the_same_metrics(tmp_path, coupled):
    """Also one that is coupled with no other."""
    at = free_addresses(["controller", "n1", "n2", "metrics", "peers", "b"])
    others = {"listen": at["peers"], "domains": {"b": at["b"]}, "same_names": ["b"]}
    config = parse_config(
        {
            "controller": at["controller"],
            "nodes": {"n1": at["n1"], "n2": at["n2"]},
            "metrics": {"listen": at["metrics"]},
            **({"coupling": others} if coupled else {}),
        }
    )
    paths = DomainPaths(tmp_path)
    make_keys(paths.keys, config.members)
    make_keys(paths.peers, ["domain", "b"])
    keys = load_keys(paths.keys, "controller", config.members)
    store = JobStore(paths.store, config.node_names)
    store.add("t", Record(0, 7, 7, JOB, 0, State.HELD))

    async def work():
        engine = NativeEngine(config, keys, paths, store, print)
        ready = asyncio.Event()
        run = asyncio.ensure_future(Controller(engine, paths, print).run(ready.set))
        await ready.wait()
        found = await asyncio.to_thread(scraped, at["metrics"])
        engine.end_domain()
        await run
        return found

    found = asyncio.run(work())
    store.close()
    assert found["cosched_domain_jobs", "held"] == 1
    assert found["cosched_domain_jobs", "running"] == 0
    assert found["cosched_domain_nodes",] == 0  # no agent has joined
    exist = {sample.name for metric in samples(tmp_path / "a") for sample in metric.samples}
    without = set() if coupled else {"cosched_domain_other_up"}  # there is none
    names = {name for name, *_ in found if name.startswith("cosched_domain_")}
    assert names == exist - without | {"cosched_domain_jobs"}


def promtool(*words):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", *words], capture_output=True, text=True, timeout=240, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_rules_alert_in_time(tmp_path):
    code, text = promtool("check", "rules", str(RULES))
    assert code == 0, text
    tests = Path(__file__).with_name("coupling.rules.test.yml").read_text()
    for rules, works in (
        (RULES.read_text(), True),
        (RULES.read_text().replace("> 0.9 *", "> 1.9 *"), False),
    ):
        (tmp_path / "rules.yml").write_text(rules)
        (tmp_path / "test.yml").write_text(
            tests.replace("RULES", str(tmp_path / "rules.yml"))
        )
        code, text = promtool("test", "rules", str(tmp_path / "test.yml"))
        assert (code == 0) == works, text


# --- settings read again ------------------------------------------------------------------


def test_changed_settings_are_taken_and_addresses_are_not(tmp_path):
    async def work():
        live = await holding(tmp_path)
        old = live.domain._config
        changes = {
            "scheme": "yield",
            "when_down": "start",
            "yield_wait": "1s",
            "release_wait": "9s",
            "listen": "127.0.0.1:1",
        }
        written = write(old.document)
        coupling = {**written["coupling"], **changes}
        slurm = {"poll": "3s"}
        new = parse_coupled({**written, "coupling": coupling, "slurm": slurm})
        change = reload(old.document, new.document, CONTROLLER_ALONE)
        used = coupled_config(change.config)
        live.pairs.configure(used)
        lease_ns = live.coupling.state.members[1].turn.lease_ns
        assert used.waits == new.waits
        assert reload(used.document, new.document, CONTROLLER_ALONE).changed == ()
        found = live.coupling.settings, used.listen == old.listen, lease_ns
        await live.close()
        return found, change

    (settings, same_address, lease_ns), change = asyncio.run(work())
    assert (settings.scheme, settings.when_down) == (Scheme.YIELD, WhenDown.START)
    assert same_address
    assert lease_ns is not None
    assert change.text == (
        "changed: coupling.yield_wait, coupling.scheme, coupling.release_wait, "
        "coupling.when_down; needs a restart of the controller: coupling.listen, "
        "slurm.poll"
    )


def test_equal_settings_change_nothing(tmp_path):
    async def work():
        live = await holding(tmp_path)
        document = live.domain._config.document
        change = reload(document, replace(document), CONTROLLER_ALONE)
        await live.close()
        return change

    assert asyncio.run(work()).text == "nothing has changed"
