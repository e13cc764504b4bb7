"""Judges a site: the findings by node, between the nodes, and about Slurm. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cosched.observe.doctor.checks.between import check_between
from cosched.observe.doctor.checks.node import check_health, check_node
from cosched.observe.doctor.checks.slurm import check_slurm
from cosched.observe.doctor.facts import Site
from cosched.observe.doctor.findings import Finding, Level, note

BETWEEN = "between nodes"
SLURM = "slurm"

Groups = dict[str, Sequence[Finding]]


def judge(site: Site) -> Groups:
    """Returns all findings: by node for the nodes that answered, then the common ones."""
    groups: Groups = {
        seen.name: list(check_node(seen.facts, personal=site.is_personal(seen.facts)))
        for seen in site.nodes
        if seen.facts
    }
    if between := list(check_between(site)):
        groups[BETWEEN] = between
    if site.slurm is not None:
        mpis = [mpi for one in site.facts for mpi in one.mpis or ()]
        groups[SLURM] = list(check_slurm(site.slurm, mpis))
    elif site.slurm_silent:
        unknown = note(SLURM, site.slurm_silent, "its settings were not examined")
        groups[SLURM] = [unknown]
    return groups


def judge_health(site: Site) -> Groups:
    """Returns what is not good about running nodes; nothing of a healthy one."""
    bad = {
        one.node: [f for f in check_health(one) if f.level is not Level.GOOD]
        for one in site.facts
    }
    return {node: findings for node, findings in bad.items() if findings}


def document(site: Site, groups: Mapping[str, Sequence[Finding]]) -> dict[str, Any]:
    """Returns the facts and the findings as JSON fields."""
    findings = [
        {"about": name, **msgspec.to_builtins(finding)}
        for name, group in groups.items()
        for finding in group
    ]
    nodes = [msgspec.to_builtins(seen) for seen in site.nodes]
    return {"nodes": nodes, "findings": findings}
