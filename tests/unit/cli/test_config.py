"""Checks the configuration: merging, places, contradictions, limits."""

from __future__ import annotations

import getpass
import itertools
import json
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cli import commands as program
from cosched.cli.entry import run_cli
from cosched.cli.nodes import config as config_command
from cosched.cli.nodes import config_set
from cosched.config.config_files import ConfigFiles, usual_files
from cosched.config.cosched_toml import examine, load, read_text
from cosched.config.save import edited, save
from cosched.core.config import limits as limit_rules
from cosched.core.config.layers import (
    DEFAULTS,
    merge,
    overlay,
    read_environment,
    read_options,
)
from cosched.core.config.merged_config import Origin, Setting, Source
from cosched.core.config.mistakes import key_lines
from cosched.core.config.schema import BY_PATH, KEYS, Limits
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL, Settings, Span
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.tools.commands import run_command
from tests.unit.core.settings_samples import values_of

# -- merging -----------------------------------------------------------------------------

PATHS = st.sampled_from([key.path for key in KEYS])
LAYERS = st.dictionaries(
    PATHS,
    st.builds(
        Setting,
        st.integers(),
        st.builds(Origin, st.sampled_from(Source), st.text(max_size=3)),
    ),
)


@given(st.lists(LAYERS, max_size=5))
def test_merge_takes_value_of_last_layer_that_has_it(layers):
    merged = merge(layers).merged
    assert set(merged) == set(BY_PATH)
    for path, setting in merged.items():
        values = [layer[path] for layer in layers if path in layer]
        assert setting == (values[-1] if values else DEFAULTS[path])


@given(LAYERS, LAYERS, LAYERS)
def test_overlay_in_parts_equals_overlay_at_once(one, two, three):
    at_once = overlay([one, two, three])
    assert overlay([overlay([one, two]), three]) == at_once
    assert overlay([one, overlay([two, three])]) == at_once
    assert overlay([at_once, at_once]) == at_once


@given(st.data())
def test_saved_value_is_read_back_with_its_line(data):
    keys = data.draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1))
    wanted = {key.path: data.draw(values_of(key)) for key in keys}
    text = edited("# mine\n\n[node] # ours\n", "f", wanted)
    layer, problems = read_text(text, "f", operator=True)
    assert not problems
    assert {path: setting.value for path, setting in layer.items()} == wanted
    assert text.startswith("# mine\n\n[node] # ours\n")
    for path, setting in layer.items():
        line = int(setting.origin.where.removeprefix("f:"))
        assert text.splitlines()[line - 1].startswith(f"{BY_PATH[path].name} = ")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_default_is_a_value_of_its_kind(key):
    if key.default is not None:
        assert key.kind.parse(key.shown(key.default)) == key.default


# -- places ------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path):
    return ConfigFiles(tmp_path / "etc.toml", tmp_path / "user.toml")


def test_later_place_overrides_earlier_place(places):
    places.operator.write_text('[node]\nslice = "1s"\ngmet = "10ms"\n[limits]\n')
    places.user.write_text('\n[node]\nslice = "3s"\nalign = false\n')
    config, warnings = load(
        {"COSCHED_NODE_ALIGN": "on", "COSCHED_RUN_DIR": "/x", "HOME": "/h"},
        {"run.wait": ("block:5us", "--wait")},
        places,
    )
    assert config.node.settings() == Settings(3 * NS_PER_S, 10 * NS_PER_MS, True)
    assert config.run.wait == "block:5us"
    assert warnings == []
    assert str(config.origin("node.slice")) == f"{places.user}:3"
    assert str(config.origin("node.gmet")) == f"{places.operator}:3"
    assert str(config.origin("node.align")) == "COSCHED_NODE_ALIGN"
    assert str(config.origin("run.wait")) == "--wait"
    assert str(config.origin("node.mode")) == "default"


@pytest.mark.parametrize(
    ("environ", "user"),
    [
        ({"HOME": "/h"}, "/h/.config/cosched/config.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "/c/cosched/config.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "rel"}, "/h/.config/cosched/config.toml"),
        ({}, None),
        ({"HOME": ""}, None),
    ],
)
def test_user_file_follows_environment(environ, user):
    found = usual_files(environ).user
    assert (found and str(found)) == user


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[node]\nslyce = '1s'", 2, "node.slyce: no such key; did you mean 'slice'"),
        ("[node]\n\nslice = 2", 3, "slice: 2 has no unit"),
        ("[node]\nslice = 'soon'", 2, "slice: 'soon' is not a duration"),
        ("[node]\nalign = 'perhaps'", 2, "neither on nor off"),
        ("[node]\nmode = 'strickt'", 2, "did you mean 'strict'"),
        ("[node]\nmode = 3", 2, "mode: 3 is not one of"),
        ("[node]\nwait = 'spin'", 2, "it belongs into [run]"),
        ("node = 3", 1, "node: is a table: write [node]"),
        ("gmet = '1ms'", 1, "gmet: no such key; it belongs into [node]"),
        ("#\n[nodes]\n", 2, "did you mean 'node'"),
        ("[metrics]\nlisten = '9434'", 2, "is not HOST:PORT"),
        ("[metrics]\nlisten = 'h:70000'", 2, "from 0 to 65535"),
        ("[run]\nwait = 'sleep'", 2, "'sleep' is none of"),
        ("[run]\nwait = 'spin:1us'", 2, "only block and auto take a time"),
        ("[limits]\njobs_per_user = 0", 2, "whole number"),
        ("[limits]\ncarriers = ['shadow', 'shadow']", 2, "twice"),
        ("[limits]\ncarriers = []", 2, "is not a list of"),
        ("[node]\nslice = \n", 2, "not TOML"),
        ("[node\n", 1, "not TOML"),
        # Combinations that have no effect, or the opposite one.
        ("[node]\ngmet = '2s'", 2, "the least slice 1s: no message would ever pull"),
        ("[node]\nslice = '2s'\ngmet = '2s'", 3, "slice 2s: no message would ever"),
        ("[node]\nslice = '10ms'\ngmet = '1ms'", 2, "before the kernel has carried out"),
        (
            "[node]\nslice = '10ms'\ngmet = '1ms'\nalign = false",
            2,
            "before a message is trapped",
        ),
        ("[node]\nmode = 'strict'\nslice = '50ms'\ngmet = '1ms'", 3, "quotas count over"),
        ("[node]\norder = 'rst'", 2, "'rst' is none of rest, age, paper; did you"),
        ("[node]\norder = true", 2, "true is not one of rest, age, paper"),
        ("[node]\nfairness = 'user'", 2, "did you mean 'users'?"),
        ("[node]\nleast_share = '25'", 2, "percentage and a period, such as 25%/30s"),
        ("[node]\nleast_share = '101%/30s'", 2, "percentage and a period"),
        ("[node]\nleast_share = '25%/10ms'", 2, "the period 10ms is not from 1s"),
        ("[node]\nleast_share = '25%/soon'", 2, "'soon' is not a duration"),
        ("[node]\nleast_share = 25", 2, 'is not a share; write it like "25%/30s"'),
        (
            "[node]\norder = 'age'\nslice = '2s'",
            2,
            "order age has no effect with slice 2s: jobs take turns there",
        ),
        (
            "[node]\nslice = '2s'\nleast_share = '50%/30s'",
            3,
            "least_share 50%/30s has no effect with slice 2s",
        ),
        (
            "[node]\nfairness = 'users'\norder = 'age'",
            2,
            "fairness users has no effect with order age",
        ),
        (
            "[node]\nslice = '2s'\nfairness = 'users'\norder = 'paper'",
            3,
            "fairness users has no effect with order paper",
        ),
        (
            "[node]\nleast_share = '50%/1s'",
            2,
            "least_share 50%/1s is for less than two slices of 1s: jobs would only",
        ),
        (
            "[node]\nclass_scheduler = 'dutycycle'\nslice = '150ms'\ngmet = '1ms'",
            3,
            "every 200ms, never within a slice",
        ),
        ("[limits]\nslice_min = '3s'\nslice_max = '2s'", 2, "no slice is allowed"),
        ("[limits]\nslice_max = '0.5s'", 2, "slice 1s is above the limit slice_max 500ms"),
        ("[node]\nslice = '2s'\n[limits]\nslice_min = '3s'", 2, "slice 2s is below the"),
        ("[node]\ngmet = '100ms'\n[limits]\ngmet_max = '50ms'", 2, "gmet 100ms is above"),
        ("[limits]\nwaits = ['block']", 2, "wait 'spin' is not allowed here"),
        (
            "[run]\nstatus = 'prefix'\n[limits]\ncarriers = ['shadow']",
            2,
            "status 'prefix' is not allowed",
        ),
    ],
)
def test_file_problem_has_line_and_reason(places, text, line, words):
    places.operator.write_text(text)
    problems = examine({}, None, places)[1]
    found = {str(p.where): p.message for p in problems}
    where = f"{places.operator}:{line}"
    assert where in found, found
    assert words in str(next(p for p in problems if words in str(p)))
    assert all("\n" not in str(problem) for problem in problems)


def test_user_file_with_limits_is_a_problem(places):
    places.user.write_text("[limits]\njobs_per_user = 9\n")
    config, errors, _ = examine({}, None, places)
    assert config.limits.jobs_per_user is None
    assert "only the operator's file" in errors[0].message
    (error,) = read_environment({"COSCHED_LIMITS_JOBS_PER_USER": "9"})[1]
    assert "only the operator's file" in error.message


def test_clash_of_two_files_names_the_later_file(places):
    places.operator.write_text('[node]\ngmet = "1s"\n')
    places.user.write_text('[node]\nslice = "500ms"\n')
    (error,) = examine({}, None, places)[1]
    assert error.where == f"{places.user}:2"


def test_option_may_exceed_rule_of_files(places):
    config, doubts = load({}, {"node.gmet": ("5s", "--gmet")}, places)
    assert config.node.gmet == Span(5 * NS_PER_S)
    assert [doubt.where for doubt in doubts] == ["--gmet"]


@pytest.mark.parametrize(
    "text",
    [
        "slice = '2s'",
        "slice = '2s'\norder = 'rest'\nleast_share = '25%/30s'\nfairness = 'jobs'",
        "order = 'age'",
        "slice = 'auto:20s'",
        "fairness = 'users'\nleast_share = '0%/1min'",
    ],
)
def test_usual_order_is_no_problem(places, text):
    places.operator.write_text(f"[node]\n{text}\n")
    assert examine({}, None, places)[1:] == ([], [])


def test_order_of_options_is_in_the_settings(places):
    options = {
        "node.order": ("age", "--order"),
        "node.least_share": ("50%/1min", "--least-share"),
        "node.fairness": ("users", "--fairness"),
    }
    config, doubts = load({}, options, places)
    assert config.node.settings().texts() == {
        **Settings().texts(),
        **{"slice": "auto", "gmet": "auto"},
        **{"order": "age", "least_share": "50%/1min", "fairness": "users"},
    }
    assert [doubt.where for doubt in doubts] == ["--least-share", "--fairness"]


def test_private_daemons_ignore_metrics_of_a_file(places):
    places.operator.write_text('[metrics]\nlisten = "127.0.0.1:9434"\n')
    config, _ = load({}, None, places)
    assert config.metrics_listen(private=False) == "127.0.0.1:9434"
    assert config.metrics_listen(private=True) == "off"
    config, _ = load({}, {"metrics.listen": ("127.0.0.1:1", "--metrics")}, places)
    assert config.metrics_listen(private=True) == "127.0.0.1:1"


def test_unknown_variable_is_a_problem():
    layer, (problem,) = read_environment({"COSCHED_NODE_SLYCE": "1s", "COSCHED_JOB": "x"})
    assert layer == {}
    assert str(problem) == (
        "COSCHED_NODE_SLYCE: sets nothing; did you mean 'COSCHED_NODE_SLICE'?"
    )


def test_option_problem_names_the_option():
    (problem,) = read_options({"node.slice": ("soon", "--slice")})[1]
    assert str(problem).startswith("--slice: 'soon' is not a duration")


def test_load_with_several_errors_raises_one_line(places):
    places.user.write_text("[node]\nslyce = 1\nslice = 2\n")
    with pytest.raises(CoschedError, match=r"slyce.*and 1 more: cosched config check"):
        load({}, None, places)


def test_unreadable_file_is_an_error(places):
    places.operator.mkdir()
    places.user.write_bytes(b"[node]\n\xff\n")
    unreadable, not_text = examine({}, None, places)[1]
    assert "cannot be read: Is a directory" in unreadable.message
    assert not_text.where.endswith("user.toml:2")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away: needs root")
def test_file_of_another_user_is_not_trusted(places):
    places.user.write_text("")
    os.chown(places.user, 12345, -1)
    (error,) = examine({}, None, places)[1]
    assert "belongs to another user" in error.message


def test_file_that_others_can_change_is_not_trusted(places):
    places.operator.write_text('[node]\nslice = "1s"\n')
    places.operator.chmod(0o666)
    (error,) = examine({}, None, places)[1]
    assert str(error) == f"{places.operator}: other users can change it; chmod go-w it"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1\n[b]\nc = 2", {"a": 1, "b": 2, "b.c": 3}),
        ("node.slice = '1s'", {"node": 1, "node.slice": 1}),
        ("['node'] # x\n\"slice\" = '1s'", {"node": 1, "node.slice": 2}),
        ("# a = 1\n[ b ]\n c=[\n 'x=1',\n]", {"b": 2, "b.c": 3}),
    ],
)
def test_key_lines_returns_line_of_each_key(text, lines):
    assert key_lines(text) == lines


# -- saving ------------------------------------------------------------------------------

COMMENTED = """\
# the cluster's
[node]   # all nodes
slice = "2s"  # as the users asked
# below: for later
gmet = "50ms"

[run]
wait = "spin"
"""


def test_save_keeps_comments_and_order(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(COMMENTED)
    path.chmod(0o640)
    save(path, {"node.slice": Span(NS_PER_S), "limits.jobs_per_user": 3}, operator=True)
    expected = COMMENTED.replace('"2s"', '"1s"') + "\n[limits]\njobs_per_user = 3\n"
    assert path.read_text() == expected
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        (
            COMMENTED,
            {"node.gmet": Span(9 * NS_PER_S)},
            "no message would ever pull a switch",
        ),
        ("[node\n", {"node.gmet": Span(1)}, "not TOML"),
        ("node = 1\n", {"node.gmet": Span(1)}, "node is a section"),
        ("[node]\nslyce = 1\n", {"node.gmet": Span(NS_PER_MS)}, "slyce"),
    ],
)
def test_save_refuses_wrong_value(tmp_path, text, value, words):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(CoschedError) as caught:
        save(path, value, operator=True)
    assert words in str(caught.value)
    assert path.read_text() == text


# -- limits ------------------------------------------------------------------------------

LIMITS = Limits(
    slice_min_ns=NS_PER_S,
    slice_max_ns=3 * NS_PER_S,
    gmet_max_ns=NS_PER_S,
    carriers=("shadow",),
    waits=("spin", "block"),
    jobs_per_user=2,
    private_daemons=False,
)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (limit_rules.refuse_settings(LIMITS, Settings()), None),
        (
            limit_rules.refuse_settings(LIMITS, Settings(slice_ns=NS_PER_S // 2)),
            "the least is 1s",
        ),
        (
            limit_rules.refuse_settings(LIMITS, Settings(slice_ns=4 * NS_PER_S)),
            "the most is 3s",
        ),
        (limit_rules.refuse_settings(LIMITS, Settings(gmet_ns=2 * NS_PER_S)), "gmet 2s"),
        (limit_rules.refuse_task(LIMITS, "shadow", 1), None),
        (limit_rules.refuse_task(LIMITS, "prefix", 0), "carrier 'prefix'"),
        (limit_rules.refuse_task(LIMITS, "shadow", 2), "2 jobs of yours"),
        (limit_rules.refuse_wait(LIMITS, "block:20000"), None),
        (limit_rules.refuse_wait(LIMITS, "yield"), "use spin or block"),
        (limit_rules.refuse_private(LIMITS), "ask the operator"),
        (limit_rules.refuse_private(replace(LIMITS, private_daemons=True)), None),
    ],
)
def test_limits_refuse_with_reason(refusal, words):
    assert (refusal is None) if words is None else (words in refusal)


def test_limits_do_not_apply_to_root():
    assert limit_rules.limits_for(LIMITS, 0) == Limits()
    assert limit_rules.limits_for(LIMITS, 1000) == LIMITS


# -- the command -------------------------------------------------------------------------


def cosched(*words, **environ):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
    return run_command(*words, env={**inherited, **environ})


def test_show_prints_source_of_each_value(tmp_path):
    user = tmp_path / "cosched/config.toml"
    user.parent.mkdir()
    user.write_text('[node]\nslice = "1s"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "COSCHED_RUN_WAIT": "block"}
    shown = cosched("config", "show", "--json", **environ)
    assert shown.returncode == 0, shown.stderr
    answer = json.loads(shown.stdout)
    assert set(answer["values"]) == set(BY_PATH)
    slice_ = answer["values"]["node.slice"]
    assert (slice_["value"], slice_["where"]) == ("1s", f"{user}:2")
    assert answer["values"]["run.wait"]["where"] == "COSCHED_RUN_WAIT"
    assert answer["values"]["node.memory"]["value"] == "auto"
    assert answer["values"]["node.history_age"]["value"] is None
    text = cosched("config", "show", **{**environ, "HOME": str(tmp_path)}).stdout
    assert "1s" in text
    assert "~/cosched/config.toml:2" in text
    assert max(map(len, text.splitlines())) <= 80
    rows = [line for line in text.splitlines() if line.startswith("  ")]
    starts = {row.index(row.split()[2], row.index(row.split()[1]) + 1) for row in rows}
    assert len(starts) == 1


def status(node, **changed):
    settings = USUAL.changed(changed)
    return {"node": node, "settings": {**settings.texts(), "align": settings.align}}


def test_show_marks_what_daemons_have_instead(tmp_path, monkeypatch, capsys):
    statuses = [
        status("n1", slice="0.5s", align="off"),
        status("n2", slice="500ms"),
        status("n3", slice="2s"),
    ]
    monkeypatch.setattr(config_command, "gather", lambda _run_dir: statuses)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COSCHED_NODE_SLICE", "2s")
    assert run_cli(program.cosched, ["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    pairs = itertools.pairwise(lines)
    marked = [(line.split()[0], below.strip()) for line, below in pairs if " now " in below]
    assert marked == [("slice", "now 500ms on n1, n2"), ("align", "now off on n1")]
    assert lines[-1] == "daemons are up on n1, n2, n3; 'now' marks what differs there"
    assert run_cli(program.cosched, ["config", "show", "--json"]) == 0
    live = json.loads(capsys.readouterr().out)["live"]
    assert (live["n1"]["node.slice"], live["n1"]["node.align"]) == ("500ms", "off")


def test_show_without_an_answer_of_daemons_shows_the_files(tmp_path, monkeypatch, capsys):
    def refuse(_run_dir):
        raise CoschedError("node n1: the daemon does not answer")

    monkeypatch.setattr(config_command, "gather", refuse)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run_cli(program.cosched, ["config", "show"]) == 0
    out, err = capsys.readouterr()
    assert "[node]" in out
    assert err == "cosched: warning: node n1: the daemon does not answer\n"


def test_check_prints_each_problem_in_a_line_and_fails(tmp_path):
    path = tmp_path / "new.toml"
    path.write_text("[node]\nslyce = 1\ngmet = '9s'\n[limits]\n")
    result = cosched("config", "check", str(path))
    assert result.returncode == 1
    first, second = result.stderr.splitlines()
    assert first.startswith(f"{path}:2: node.slyce: ")
    assert second.startswith(f"{path}:3: gmet 9s is not below the least slice 1s")
    path.write_text("[node]\ngmet = '50ms'\n")
    assert cosched("config", "check", str(path)).returncode == 0
    assert cosched("config", "check", str(tmp_path / "none")).returncode == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('controller = "a:1"\nslots = -1\n[nodes]\nn = "a:2"\n', "2: slots: -1 is not"),
        ('name = "a"\nengine = "slurm"\n[slurm]\npoll = "0s"\n', "4: slurm.poll: '0s' is"),
        ('[[job]]\nname = "a"\nranks = 0\n', "3: job.1.ranks: 0 is not a whole number"),
        ('name = "a"\n[queue]\nsize = "x"\n', "3: queue.size: 'x' is none of rigid, "),
        ("[node]\n[queue]\n", "2: queue: no such key; the keys are node, metrics, run, "),
        ("[nodes]\nslice = '2s'\n", "1: nodes: no such key; did you mean 'node'?"),
    ],
    ids=[
        *("domain", "slurm", "workload", "domain without nodes"),
        *("a table of another file", "a table like another one"),
    ],
)
def test_check_knows_each_kind_of_file(tmp_path, text, line):
    path = tmp_path / "some.toml"
    path.write_text(text)
    result = cosched("config", "check", str(path))
    assert result.returncode == 1
    assert result.stderr.splitlines()[0].startswith(f"{path}:{line}")


DOMAIN = """\
name = "d"
controller = "h:1"
nodes = { n = "h:2" }
[queue]
size = "rigid"
[queue.changes]
suspend = "60s"
[symbiosis]
placement = "labels"
"""


def test_check_warns_of_settings_without_effect(tmp_path):
    path = tmp_path / "domain.toml"
    path.write_text(DOMAIN)
    result = cosched("config", "check", str(path))
    assert (result.returncode, result.stdout) == (0, f"{path}: all right\n")
    assert result.stderr.splitlines() == [
        f"cosched: warning: {path}:7: queue.changes.suspend: has no effect with "
        'size = "rigid"',
        f"cosched: warning: {path}:9: symbiosis.placement: has no effect without parts = 2",
    ]


COUPLED = """\
name = "d"
controller = "h:1"
nodes = { n = "h:2" }
[coupling]
listen = "h:3"
domains = { e = "h:4" }
"""


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('metrics = "h:1"', "7: coupling.metrics: h:1 is the address of the controller"),
        ('metrics = "h:3"', "7: coupling.metrics: h:3 is the address of this domain"),
        ('metrics = "h:4"', "7: coupling.metrics: h:4 is the address of domain e"),
        ('[metrics]\nlisten = "h:2"', "8: metrics.listen: h:2 is the address of node n"),
        (
            '[metrics]\nlisten = "h:3"',
            "8: metrics.listen: h:3 is the address of this domain",
        ),
    ],
)
def test_check_finds_metrics_at_the_address_of_another_part(tmp_path, lines, problem):
    path = tmp_path / "domain.toml"
    path.write_text(COUPLED + lines + "\n")
    result = cosched("config", "check", str(path))
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{path}:{problem}")


DOMAIN_ON_SLURM = """\
name = "a"
engine = "slurm"
[coupling]
listen = "h:1"
domains = { b = "h:2" }
[slurm]
conf = "CONF"
user = "USER"
"""


def test_check_finds_the_slurm_conf_and_the_user_of_a_domain(tmp_path):
    path, conf = tmp_path / "domain.toml", tmp_path / "slurm.conf"
    text = DOMAIN_ON_SLURM.replace("CONF", str(conf))
    path.write_text(text.replace("USER", "no-such-user"))
    no_conf = f"{path}:7: slurm.conf: '{conf}' is no file here; write the path "
    no_user = f"{path}:8: slurm.user: there is no user 'no-such-user' here; write SlurmUser"
    result = cosched("config", "check", str(path), COSCHED_RUN_DIR=str(tmp_path))
    assert result.returncode == 1
    for line, problem in zip(result.stderr.splitlines(), (no_conf, no_user), strict=True):
        assert line.startswith(problem)
    words = ("cluster", "couple", "--config", str(path))
    for problem in (no_conf, no_user):
        result = cosched(*words, COSCHED_RUN_DIR=str(tmp_path))
        assert (result.returncode, problem in result.stderr) == (1, True)
        conf.touch()
    path.write_text(text.replace("USER", getpass.getuser()))
    assert cosched("config", "check", str(path)).returncode == 0


def test_set_of_start_only_key_without_save_fails(tmp_path):
    for word, remedy in (
        ("node.mode=strict", "with --save, then restart them"),
        ("run.wait=block", "cosched-run reads it from the file; write it there"),
    ):
        result = cosched("config", "set", word, "--run-dir", str(tmp_path))
        assert result.returncode == 1
        assert remedy in result.stderr


def test_set_that_is_saved_but_refused_by_daemons_says_both(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise CoschedError("node n1: 'set' is for root and the daemon's own user")

    monkeypatch.setattr(config_set, "_set_live", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    words = ["config", "set", "--run-dir", str(tmp_path), "--save", "slice=1s"]
    assert run_cli(program.cosched, words) == 1
    file = tmp_path / ".config/cosched/config.toml"
    reason = f"saved in {file}, but not set: node n1: 'set' is for root and the daemon's"
    assert reason in capsys.readouterr().err
    assert "slice" in file.read_text()
