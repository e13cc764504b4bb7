"""Makes the rows that the dashboard's page draws, from one look to the next. Pure.

Times are ms since 1970, fractions lie from 0 to 1. The id of a job is its number in the
domain, or its key on the nodes if the domain does not have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from cosched.cluster.answers import JobInfo, NodeInfo
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.dashboard.kept_rows import KeptRows
from cosched.dashboard.looks import DomainLook, Look
from cosched.dashboard.spans import KEEP_NS, Spans
from cosched.launch.environment import name_on_nodes
from cosched.observe.top.model import JobRow, NodeRow, View
from cosched.observe.top.recent import Recent
from cosched.observe.top.sample import Sample, Status

Json = dict[str, Any]

#: States of jobs that wait or run.
WAITING = ("held", "queued")
RUNNING = ("starting", "running")
#: The tables of rows by key.
_TABLES = ("nodes", "daemons", "jobs", "live", "starts", "waits", "mates", "domains")
#: The state of a job without a domain that has left its nodes.
LEFT = "ended"


class Picture:
    """The present rows, and what changed since an earlier version. find_user: returns the
    name of a user."""

    def __init__(self, find_user: Callable[[int], str]) -> None:
        self._find_user = find_user
        self._users: dict[int, str] = {}
        self.version = 0
        self._at_ms = 0
        self._troubles: Sequence[str] = ()
        self._sampled: Sequence[str] = ()
        self._domain_dir: str | None = None
        self._agreement: float | None = None
        self._tables = {name: KeptRows() for name in _TABLES}
        self._spans = Spans()
        self._recent = Recent()
        self._ids: dict[str, str] = {}
        self._alone: dict[str, Json] = {}

    def take(self, look: Look) -> None:
        """Takes a look, later than the earlier ones."""
        self.version += 1
        self._at_ms = look.wall_ns // NS_PER_MS
        self._troubles = tuple(look.troubles)
        self._domain_dir = None if look.domain is None else str(look.domain.run_dir)
        self._name_jobs(look.domain)
        if not look.are_silent:
            self._take_sample(look.sample)
        rows = {str(job["job"]): self._job(job) for job in jobs_of(look.domain)}
        self._replace("jobs", {**rows, **self._alone})
        self._replace("nodes", _nodes(look.domain, self._sampled))
        self._replace("starts", _starts(look.domain))
        self._replace("waits", _waits(look.domain))
        self._replace("mates", _mates(look.domain))
        self._replace("domains", _domains(look.domain))

    def _take_sample(self, sample: Sample | None) -> None:
        statuses = () if sample is None else sample.statuses
        self._sampled = [status["node"] for status in statuses]
        seen = self._view(sample)
        self._take_spans(statuses)
        self._take_alone(statuses)
        self._replace("daemons", _daemons(statuses, seen))
        self._replace("live", {} if seen is None else self._live(seen))

    def _replace(self, table: str, rows: Json) -> None:
        self._tables[table].replace(self.version, rows)

    def since(self, version: int) -> Json:
        """Returns what changed after this version; everything if that is not known."""
        tables = self._tables
        oldest = max(table.complete_from for table in tables.values())
        after = version if oldest <= version <= self.version else 0
        return {
            "version": self.version,
            "after": after,
            "at_ms": self._at_ms,
            "daemons_up": bool(self._sampled),
            "domain": self._domain_dir,
            "troubles": self._troubles,
            "totals": self._totals(),
            **{name: table.since(after) for name, table in tables.items()},
            "spans": self._spans.ended_since(after),
            "running": self._spans.open(),
        }

    # -- parts -----------------------------------------------------------------------------

    def _name_jobs(self, domain: DomainLook | None) -> None:
        """Notes the ids of the domain's jobs by their keys on nodes."""
        self._ids = {
            f"{job['uid']}.{name_on_nodes(job['name'], job['job'])}": str(job["job"])
            for job in jobs_of(domain)
        }

    def _view(self, sample: Sample | None) -> View | None:
        if sample is None:
            self._recent.forget()
            self._agreement = None
            return None
        seen = self._recent.add(sample)
        self._agreement = None if seen is None else seen.agreement
        return seen

    def _take_spans(self, statuses: Sequence[Status]) -> None:
        for status in statuses:
            by_id = {
                self._ids.get(key, key): found
                for key, found in status.get("scheduled", {}).items()
            }
            self._spans.take(self.version, status["node"], status["wall_ns"], by_id)
        self._spans.lose(self.version, [status["node"] for status in statuses])

    def _take_alone(self, statuses: Sequence[Status]) -> None:
        """Takes the jobs that came to the nodes without a domain."""
        jobs: dict[str, list[Status]] = {}
        for status in statuses:
            for job in status["jobs"]:
                if job["key"] not in self._ids:
                    jobs.setdefault(job["key"], []).append({**job, "on": status})
        for key, parts in jobs.items():
            before = self._alone.get(key)
            if before is None or before["state"] == LEFT:  # or another job of this name
                began_ms = min([self._at_ms, *map(_first_span_ms, parts)])
            else:
                began_ms = before["began_ms"]
            self._alone[key] = self._job_alone(parts, began_ms)
        for key, row in list(self._alone.items()):
            if key in jobs:
                continue
            ended_ms = self._at_ms if row["state"] != LEFT else row["ended_ms"]
            if key in self._ids or ended_ms < self._at_ms - KEEP_NS // NS_PER_MS:
                del self._alone[key]
            else:
                self._alone[key] = {**row, "state": LEFT, "ended_ms": ended_ms}

    def _job(self, job: JobInfo) -> Json:
        return {
            "number": job["job"],
            "name": job["name"],
            "user": self._user(job["uid"]),
            "uid": job["uid"],
            "state": job["state"],
            "node_count": job["nodes"],
            "tasks": job["tasks"],
            "nodes": [] if job["state"] in WAITING else job["hosts"],
            "halves": [] if job["state"] in WAITING else job["halves"],
            "beside": [str(number) for number in job["neighbours"]],
            "submitted_ms": job["submitted_ns"] // NS_PER_MS,
            "began_ms": _ms(job["started_ns"]),
            "ended_ms": _ms(job["ended_ns"]),
            "limit_s": None if job["time_ns"] is None else job["time_ns"] // NS_PER_S,
            "status": job["status"],
            # That of a waiting job changes often, and is in a table of its own.
            "reason": "" if job["state"] in WAITING else job["reason"],
            "mates": job["mates"],
            "minimum": job["minimum"],
            "ideal": job["ideal"],
            "preferred": job["preferred"],
        }

    def _job_alone(self, parts: Sequence[Status], began_ms: int) -> Json:
        """Returns the row of a job that no domain has."""
        first, nodes = parts[0], [part["on"]["node"] for part in parts]
        return {
            "number": None,
            "name": first["name"],
            "user": self._user(first["uid"]),
            "uid": first["uid"],
            "state": "running",
            "node_count": len(nodes),
            "tasks": sum(len(part["tasks"]) for part in parts),
            "nodes": nodes,
            "halves": [],
            "beside": [],
            "submitted_ms": began_ms,
            "began_ms": began_ms,
            "ended_ms": None,
            "limit_s": None,
            "status": None,
            "reason": "",
            "mates": "",
            "minimum": None,
            "ideal": None,
            "preferred": None,
        }

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            self._users[uid] = self._find_user(uid)
        return self._users[uid]

    def _live(self, seen: View) -> Json:
        return {self._ids.get(job.key, job.key): _live(job) for job in seen.jobs}

    def _totals(self) -> Json:
        states = Counter(job["state"] for job in self._tables["jobs"])
        daemons = list(self._tables["daemons"])
        rates = [each["switches_rate"] for each in daemons if each["cpu"] is not None]
        return {
            "nodes": len(self._tables["nodes"]),
            "nodes_up": sum(node["state"] == "up" for node in self._tables["nodes"]),
            "daemons": len(daemons),
            "running": sum(states[state] for state in RUNNING),
            "waiting": sum(states[state] for state in WAITING),
            "agreement": _rounded(self._agreement),
            "switches_rate": round(sum(rates), 1) if rates else None,
        }


def jobs_of(domain: DomainLook | None) -> Sequence[JobInfo]:
    """Returns the jobs of a domain; none without a domain."""
    return domain.jobs if domain else ()


def _first_span_ms(job: Status) -> int:
    """Returns when a job was first scheduled on a node, as far as its daemon remembers."""
    spans = job["on"].get("scheduled", {}).get(job["key"])
    return int(spans[0][0] if spans else job["on"]["wall_ns"]) // NS_PER_MS


def _nodes(domain: DomainLook | None, sampled: Sequence[str]) -> Json:
    rows = {node["node"]: _node(node) for node in (domain.nodes if domain else ())}
    for name in sampled:
        rows.setdefault(name, {"node": name, "state": "up", "reason": "", "slots": None})
    return rows


def _node(node: NodeInfo) -> Json:
    return {name: node[name] for name in ("node", "state", "reason", "slots")}


def _daemons(statuses: Sequence[Status], seen: View | None) -> Json:
    rates = {} if seen is None else {node.name: node for node in seen.nodes}
    return {
        status["node"]: _daemon(status, rates.get(status["node"])) for status in statuses
    }


def _daemon(status: Status, row: NodeRow | None) -> Json:
    """Returns the health of a node's daemons."""
    settings, classes, timer = (
        status[name] for name in ("settings", "class_scheduler", "timer")
    )
    return {
        "pid": status["pid"],
        "version": status["version"],
        "up_since_ms": round(status["wall_ns"] / NS_PER_S - status["uptime_s"], -1) * 1000,
        "slice": settings["slice"],
        "gmet": settings["gmet"],
        "align": settings["align"],
        "classes": f"{classes['name']} {classes['mode']}",
        "timer_up": bool(timer["pid"]),
        "timer_restarts": timer["restarts"],
        "late_max_us": round(timer["late_max_us"]),
        "warnings": [
            *settings["warnings"],
            *(job["reason"] for job in status["waiting"]),
        ],
        "cpu": _rounded(row.daemon_cpu, 3) if row else None,
        "switches_rate": _rounded(row.switches_rate, 1) if row else None,
        "refused_rate": _rounded(row.refused_rate, 1) if row else None,
    }


def _live(job: JobRow) -> Json:
    """Returns what a job does on the nodes, as ``cosched top`` shows it."""
    return {
        "state": job.state,
        "scheduled": _rounded(job.scheduled),
        "entitled": _rounded(job.entitled),
        "useful": _rounded(job.useful),
        "waiting": _rounded(job.waiting),
        "filled": _rounded(job.filled),
        "agreement": _rounded(job.agreement),
        "ran_s": round(job.ran_s),
        "expected_s": None if job.expected_s is None else round(job.expected_s, 1),
    }


def _starts(domain: DomainLook | None) -> Json:
    """Returns when waiting jobs are expected to start."""
    return {
        str(job["job"]): job["expected_ns"] // (1000 * NS_PER_MS) * 1000
        for job in jobs_of(domain)
        if job["expected_ns"] is not None and job["ended_ns"] is None
    }


def _waits(domain: DomainLook | None) -> Json:
    """Returns why jobs wait."""
    return {
        str(job["job"]): job["reason"] for job in jobs_of(domain) if job["state"] in WAITING
    }


def _mates(domain: DomainLook | None) -> Json:
    names = ("job", "group", "user", "state", "nodes", "held", "yields", "why")
    return {
        str(mate["job"]): {name: dict(mate)[name] for name in names}
        for mate in (domain.mates if domain else ())
    }


def _domains(domain: DomainLook | None) -> Json:
    """Returns the other domains."""
    return {
        each["domain"]: {
            "state": each["state"],
            # Clocks differ by some microseconds from one look to the next.
            "down_since_ms": _rounded_ms(each["down_since_ns"]),
            "waiting": each["waiting"],
            "running": each["running"],
        }
        for each in (domain.domains if domain else ())
    }


def _rounded_ms(at_ns: int | None) -> int | None:
    return None if at_ns is None else round(at_ns / NS_PER_S) * 1000


def _ms(at_ns: int | None) -> int | None:
    return None if at_ns is None else at_ns // NS_PER_MS


def _rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)
