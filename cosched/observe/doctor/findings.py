"""Defines what ``cosched doctor`` finds, and renders it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cosched.tables import WIDTH


class Level(str, Enum):
    """How bad a finding is. A problem keeps jobs from being coscheduled."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a subject."""

    level: Level  #: how good or bad it is
    subject: str  #: the node, daemon or part that was examined
    text: str  #: the fault or the fact that was found
    remedy: str = ""  #: the step that the user can take; empty: none is needed


def good(subject: str, text: str) -> Finding:
    return Finding(Level.GOOD, subject, text)


def note(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.NOTE, subject, text, remedy)


def warning(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, subject, text, remedy)


def problem(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.PROBLEM, subject, text, remedy)


def is_bad(findings: Iterable[Finding], *, strict: bool) -> bool:
    """Returns whether one of them is a problem, or, if ``strict``, a warning."""
    levels = {Level.PROBLEM, Level.WARNING} if strict else {Level.PROBLEM}
    return any(finding.level in levels for finding in findings)


def render(
    groups: Mapping[str, Sequence[Finding]], *, all_of_them: bool, width: int = WIDTH
) -> str:
    """Returns the findings below the name of their group, in lines of this width.

    Without ``all_of_them`` the good ones are only counted.
    """
    lines: list[str] = []
    for name, findings in groups.items():
        shown = [f for f in findings if all_of_them or f.level is not Level.GOOD]
        hidden = len(findings) - len(shown)
        lines.append(f"{name}: {hidden} good" if hidden else name)
        for finding in shown:
            lines += _lines(finding, width)
    return "\n".join(lines)


def _lines(finding: Finding, width: int) -> list[str]:
    head = f"  {finding.level.value:<8} {finding.subject:<8} "
    text = f"{finding.text}; {finding.remedy}" if finding.remedy else finding.text
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
