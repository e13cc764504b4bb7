"""Judges what several nodes must have alike. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from cosched.observe.doctor.facts import NodeFacts, Seen, Site
from cosched.observe.doctor.findings import Finding, good, note, problem, warning

#: Nodes that are named in one line.
NAMED = 4
#: How far clocks may differ, as a part of the least slice.
APART_PART = 0.05


def check_between(site: Site) -> Iterator[Finding]:
    """Yields the findings about the nodes together; nothing for a single node."""
    if len(site.nodes) < 2:
        return
    silent = [seen for seen in site.nodes if seen.facts is None]
    if silent:
        yield problem(
            "nodes",
            f"{_names([seen.name for seen in silent])} did not answer: {silent[0].silent}",
            "their jobs run uncoscheduled there",
        )
    if len(site.facts) < 2:
        return
    yield _check_clocks(site)
    yield _alike(site, "version", lambda one: one.version, problem, _UPGRADE)
    yield _alike(site, "abi", lambda one: str(one.abi), problem, _UPGRADE)
    yield _alike(site, "kernel", lambda one: one.kernel, note, "no harm by itself")
    yield _alike(site, "settings", _settings, warning, _SETTINGS)
    yield _alike(site, "classes", _classes, warning, "see the log of the nodes for reasons")


_UPGRADE = "install one version on all nodes, then on each: cosched up --restart"
_SETTINGS = "write the same /etc/cosched.toml on all, and: cosched config set"


def _check_clocks(site: Site) -> Finding:
    answered = [seen for seen in site.nodes if seen.facts is not None]
    first = min(answered, key=lambda seen: seen.offset_s)
    last = max(answered, key=lambda seen: seen.offset_s)
    apart_s, within_s = last.offset_s - first.offset_s, first.within_s + last.within_s
    text = f"at most {apart_s * 1e3:.1f} ms apart, measured to {within_s * 1e3:.1f} ms"
    bound_s = APART_PART * min((one for one in map(_slice_s, answered) if one), default=1.0)
    if apart_s - within_s <= bound_s:
        return good("clocks", text)
    aligned = any(_is_aligned(seen) for seen in answered)
    judge = warning if aligned else note
    return judge(
        "clocks",
        f"{last.name} is {apart_s * 1e3:.0f} ms ahead of {first.name}",
        "synchronise them by chrony or NTP" + ("; until then align=off" if aligned else ""),
    )


def _slice_s(seen: Seen) -> float | None:
    return seen.facts.daemon.slice_s if seen.facts and seen.facts.daemon else None


def _is_aligned(seen: Seen) -> bool:
    daemon = seen.facts.daemon if seen.facts else None
    return daemon is not None and daemon.settings.get("align") == "on"


def _settings(one: NodeFacts) -> str:
    if one.daemon is None:
        return ""
    return " ".join(f"{name}={text}" for name, text in one.daemon.settings.items())


def _classes(one: NodeFacts) -> str:
    return f"{one.daemon.class_scheduler} {one.daemon.mode}" if one.daemon else ""


def _alike(
    site: Site,
    subject: str,
    value: Callable[[NodeFacts], str],
    judge: Callable[[str, str, str], Finding],
    remedy: str,
) -> Finding:
    """Compares a value of all nodes that have it; names the nodes of the rarer values."""
    nodes = defaultdict(list)
    for one in site.facts:
        if value(one):
            nodes[value(one)].append(one.node)
    if len(nodes) < 2:
        return good(subject, next(iter(nodes), "unknown"))
    usual, *rare = sorted(nodes, key=lambda one: -len(nodes[one]))
    others = "; ".join(f"{_names(nodes[one])}: {one}" for one in rare[:2])
    more = f" and {len(rare) - 2} more" if len(rare) > 2 else ""
    return judge(subject, f"{others}{more}; the others: {usual}", remedy)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
