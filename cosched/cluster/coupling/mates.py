"""Reads which mates a job names. Pure.

A user names the group and the other domains, and how the starts depend on each other:
``mate=climate@eureka,mate=climate@lens,within=60s``. Slurm's users write this into the
comment of their job, after ``cosched:``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from cosched.core.cluster.coupling.groups import Group, Timing
from cosched.core.errors import CoschedError
from cosched.core.units import parse_duration

#: The beginning of a comment that names mates.
MARK = "cosched:"
LONGEST = 1024
MOST_DOMAINS = 16
LONGEST_DELAY_NS = 7 * 24 * 3600 * 1_000_000_000
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_TOKEN = r"[A-Za-z0-9._-]{8,128}"
_EXAMPLE = "as in mate=climate@eureka"


@dataclass(frozen=True, slots=True)
class Mates:
    """The mates of a job."""

    group: str  #: the name that all jobs of the group give
    domains: tuple[str, ...]  #: the domains of the other jobs, sorted
    within_ns: int = 0  #: how far apart the starts may be
    #: The domain whose job starts first, perhaps the job's own; None: all start together.
    after: str | None = None
    delay_ns: int = 0  #: how long that job runs before the others start; 0 without it
    #: A secret that all jobs of the group give; then their users may have any names.
    token: str = ""


def group_of(mates: Mates, own: str) -> Group:
    """Returns the group of a job of the domain ``own``."""
    members, token = (own, *mates.domains), mates.token
    if mates.after is not None:
        first, delay_ns = mates.after, mates.delay_ns
        return Group(mates.group, members, Timing.AFTER, delay_ns, first, token)
    timing = Timing.WITHIN if mates.within_ns else Timing.TOGETHER
    return Group(mates.group, members, timing, mates.within_ns, token=token)


def shown_mates(addresses: Sequence[tuple[str, str]], most: int = 1 << 16) -> str:
    """Returns the mates of a started job as its programs read them: ``eureka=812@e[1-4]``.

    addresses: domain and address of each. They come from other domains. most: the length
    of the text; each mate has the same share, and shows the first of its nodes.
    """
    share = most // max(1, len(addresses)) - 1
    return " ".join(
        f"{domain}={first_nodes(_shown(address, len(address)), share - len(domain) - 1)}"
        for domain, address in addresses
    )


def first_nodes(address: str, most: int) -> str:
    """Returns an address that is no longer than ``most``: it ends after a whole node."""
    if len(address) <= most:
        return address
    number, at, nodes = address.partition("@")
    left = most - len(number) - len(at)
    if left < 0:
        return ""
    kept = nodes[:left].rpartition(",")[0]  # so there is room for a bracket
    return f"{number}{at}{kept}{']' if kept.count('[') > kept.count(']') else ''}"


def mates_text(
    mates: Iterable[str],
    within: str = "",
    after: str = "",
    delay: str = "",
    token: str = "",
) -> str:
    """Returns the text for ``parse_mates``. mates: each ``GROUP@DOMAIN``."""
    single = {"within": within, "after": after, "delay": delay, "token": token}
    parts = [f"mate={each}" for each in mates]
    return ",".join([*parts, *(f"{key}={value}" for key, value in single.items() if value)])


def read_comment(comment: str, own: str, others: Collection[str]) -> Mates | None:
    """Returns the mates that a comment names; None for one without ``cosched:`` in front.

    own: this domain's name; others: those of the domains with which it is coupled. Raises
    CoschedError with one line for the user.
    """
    if not comment.startswith(MARK):
        return None
    return parse_mates(comment[len(MARK) :], own, others)


def parse_mates(text: str, own: str, others: Collection[str]) -> Mates:
    """Returns the mates of a job of the domain ``own``. Raises CoschedError."""
    if len(text) > LONGEST:
        raise CoschedError(f"mates: are longer than {LONGEST} characters")
    groups: list[str] = []
    domains: list[str] = []
    single: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in ("mate", "within", "after", "delay", "token"):
            raise CoschedError(
                f"mates: '{_shown(part)}' is none of mate=GROUP@DOMAIN, within=TIME, "
                "after=DOMAIN, delay=TIME, token=WORD"
            )
        if key == "mate":
            group, domain = _mate(value)
            groups.append(group)
            domains.append(domain)
        elif key in single:
            raise CoschedError(f"mates: {key} is given twice")
        else:
            single[key] = value
    _check(groups, domains, own, others)
    return _with_timing(groups[0], tuple(sorted(domains)), single, own)


def _mate(value: str) -> tuple[str, str]:
    group, at, domain = value.partition("@")
    if not at or not re.fullmatch(_NAME, group) or not re.fullmatch(_NAME, domain):
        raise CoschedError(f"mates: '{_shown(value)}' is not GROUP@DOMAIN, {_EXAMPLE}")
    return group, domain


def _check(
    groups: list[str], domains: list[str], own: str, others: Collection[str]
) -> None:
    if not groups:
        raise CoschedError(f"mates: name at least one, {_EXAMPLE}")
    if len(set(groups)) > 1:
        raise CoschedError(
            f"mates: a job is in one group, not in {' and '.join(sorted(set(groups)))}"
        )
    if len(domains) > MOST_DOMAINS:
        raise CoschedError(f"mates: are in more than {MOST_DOMAINS} domains")
    for domain in domains:
        if domains.count(domain) > 1:
            raise CoschedError(f"mates: a group has one job in each domain; {domain} twice")
        if domain == own:
            raise CoschedError(f"mates: {domain} is this domain; name the mate's domain")
        if domain not in others:
            known = ", ".join(sorted(others)) or "none"
            raise CoschedError(f"mates: domain '{domain}' is not coupled; known: {known}")


def _with_timing(
    group: str, domains: tuple[str, ...], single: dict[str, str], own: str
) -> Mates:
    within, after, delay = (single.get(key) for key in ("within", "after", "delay"))
    token = single.get("token", "")
    if "token" in single and not re.fullmatch(_TOKEN, token):
        raise CoschedError("mates: a token has 8 to 128 letters, digits, '.', '_' and '-'")
    if within is not None and after is not None:
        raise CoschedError("mates: within and after exclude each other")
    if delay is not None and after is None:
        raise CoschedError("mates: delay needs after=DOMAIN")
    if after is not None and after not in (own, *domains):
        raise CoschedError(
            f"mates: '{_shown(after)}', which starts first, is no domain of the group"
        )
    within_ns, delay_ns = _time("within", within), _time("delay", delay)
    return Mates(group, domains, within_ns, after, delay_ns, token)


def _time(key: str, text: str | None) -> int:
    if text is None:
        return 0
    time_ns = parse_duration(text, f"mates: {key}")
    if time_ns > LONGEST_DELAY_NS:
        raise CoschedError(f"mates: {key}={_shown(text)} is longer than 7 days")
    return time_ns


def _shown(text: str, most: int = 64) -> str:
    """Returns a text of others so that it fits into one printable line."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)[:most]
