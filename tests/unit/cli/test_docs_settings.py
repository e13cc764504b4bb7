"""The pages list each key of each file, as it is declared."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from cosched.bench.simulate.models import Model
from cosched.bench.workload.arrivals import Arrivals
from cosched.bench.workload.file import JobSpec
from cosched.cli.cluster.nodes import Reload
from cosched.config.coupling import CouplingTable
from cosched.config.domain import DomainConfig, load_config
from cosched.config.restarts import AGENTS, MEMBERS
from cosched.config.slurm import SlurmDomain
from cosched.core.config.schema import Sections
from cosched.core.config.tables import REQUIRED, Key, keys_of
from tests.places import ROOT

#: The word of a page for the programs that must restart.
RESTARTS = {"": "restart controller", AGENTS: "restart agents", MEMBERS: "restart all"}
MODEL = {key.path for key in keys_of(Model)}
DOMAIN = [key for key in keys_of(DomainConfig) if key.table != "coupling"]
SLURM = [key for key in keys_of(SlurmDomain) if key.table == "slurm"]
JOB = [key for key in keys_of(JobSpec) if not key.table]
#: The keys of each table of each page, and whether it has a column about reloading.
PAGES = {
    "configuration.md": ([keys_of(Sections)], False),
    "domain.md": ([DOMAIN], True),
    "coupling.md": ([keys_of(CouplingTable, "coupling"), SLURM], True),
    "workload-file.md": (
        [JOB, keys_of(Arrivals, "arrivals"), keys_of(Model, "model")],
        False,
    ),
}


def row(key: Key, *, reload: bool) -> str:
    """The beginning of a key's row. The page itself names a default that is a list, empty,
    or depends on something else, and has the text at the end."""
    form = re.sub(r'"[^"]*"', r"`\g<0>`", key.kind.form.replace(" | ", ", "))
    shown = key.default if key.default is REQUIRED else key.shown(key.default)
    if key.default is REQUIRED:
        default = "required |"
    elif shown in (None, "", [], {}) or isinstance(shown, list):
        default = "[^|]+|"
    else:
        default = f"`{json.dumps(shown)}` |"
    start = f"| `{key.path}` | {form} | "
    taken = f" {'at once' if key.live else RESTARTS[key.restart]} |" if reload else ""
    pattern = re.escape(default) if "[^|]" not in default else r"[^|]* \|"
    return re.escape(start) + pattern + re.escape(taken)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_each_key_as_it_is_declared(name: str) -> None:
    tables, reload = PAGES[name]
    rows = [
        line
        for line in (ROOT / "docs" / name).read_text().splitlines()
        if line.startswith("| `")
    ]
    for keys in tables:
        check(rows, keys, reload=reload)


def check(rows: Sequence[str], keys: Sequence[Key], *, reload: bool) -> None:
    for key in keys:
        expected = row(key, reload=reload)
        assert any(re.match(expected, line) for line in rows), expected
    tables = {key.table for key in keys if key.table}
    listed = {
        path
        for line in rows
        for path in re.findall(r"^\| `(\w+\.\w+)`", line)
        if path.partition(".")[0] in tables
    }
    assert listed <= {key.path for key in keys}


def test_domain_of_the_page_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs/domain.md").read_text()
    shown, *_ = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "domain.toml").write_text(shown)
    config = load_config(tmp_path / "domain.toml")
    assert (config.controller, *config.nodes) == ("n1:7570", "n1", "n2")


def test_help_names_the_settings_that_a_reload_takes() -> None:
    text = " ".join(str(Reload.__doc__).split())
    for key in (key for key in DOMAIN if key.table):
        named = key.path in text or f"[{key.table}]" in text
        assert named == key.live, key.path
    kept = {key.name for key in keys_of(CouplingTable) if not key.live}
    assert kept == {"listen", "domains", "metrics"}
    assert "[coupling] without listen, domains and metrics" in text
