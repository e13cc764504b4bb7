"""The parts of the Debian package, around a small stand-in of its Python environment."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess

import pytest

from cosched.config.cosched_toml import examine_file
from cosched.core.config.layers import merge
from tests.places import ROOT
from tests.unit.cli.test_docs_pages import links_of

PARTS = ROOT / "scripts/packaging"
PREFIX = "/usr/lib/cosched"
UNITS = ("cosched.service", "cosched-agent.service", "cosched-controller.service")
SCRIPTS = ("environment", "tree", "shims", "postinst", "prerm", "postrm")


def commands():
    """The commands that setup.py installs."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "COMMANDS":
            return set(ast.literal_eval(node.value))
    raise AssertionError("setup.py has no COMMANDS")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The tree of a package, without Python packages and shims."""
    work = tmp_path_factory.mktemp("work")
    own = work / "package/usr/lib/cosched"
    for folder in ("bin", "share/man/man1", "lib/systemd/system"):
        (own / folder).mkdir(parents=True)
    for name in (*commands(), "cosched-python", "python3"):
        (own / "bin" / name).touch()
    for unit in UNITS:
        shutil.copy(ROOT / "daemons" / unit, own / "lib/systemd/system")
    shutil.copy(ROOT / "docs/man/cosched.1", own / "share/man/man1")
    for shell, text in (
        ("bash", "complete\n"),
        ("zsh", "#compdef cosched\n1\n#compdef cosched-run\n2\n"),
        ("fish", "complete\n"),
    ):
        (work / f"completion.{shell}").write_text(text)
    done = subprocess.run(
        [PARTS / "tree", ROOT, work, work / "package", PREFIX],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return work / "package"


@pytest.mark.parametrize("name", SCRIPTS)
def test_shell_reads_each_script(name):
    shell = (PARTS / name).read_text().split("\n", 1)[0].removeprefix("#!")
    done = subprocess.run([shell, "-n", PARTS / name], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_each_command_is_in_usr_bin(package):
    links = {each.name: str(each.readlink()) for each in (package / "usr/bin").iterdir()}
    assert links == {name: f"{PREFIX}/bin/{name}" for name in commands()}


def test_links_of_pages_have_targets(package):
    """Only a clone has the folder of the benchmarks."""
    pages = [*(package / "usr/share/doc/cosched").rglob("*.md")]
    assert {"README.md", "tutorial.md", "formats.md", "yoo.md"} <= {p.name for p in pages}
    for page in pages:
        for link in links_of(page):
            name = link.partition("#")[0]
            if "benchmarks/" not in name:
                assert (page.parent / name).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("name", UNITS)
def test_units_start_commands_of_the_package(package, name):
    text = (package / "usr/lib/systemd/system" / name).read_text()
    started = re.findall(r"^Exec\w+=-?(/usr/\S+)", text, re.M)
    assert started
    for path in started:
        assert (package / path.lstrip("/")).is_symlink(), path
    assert "/usr/local" not in text
    assert text.startswith("\n") or text.startswith("[Unit]")


def test_zsh_has_a_file_for_each_command(package):
    folder = package / "usr/share/zsh/vendor-completions"
    assert (folder / "_cosched").read_text() == "#compdef cosched\n1\n"
    assert (folder / "_cosched-run").read_text() == "#compdef cosched-run\n2\n"


def test_settings_of_the_package_are_the_defaults(package):
    given, doubts = examine_file(package / "etc/cosched.toml", operator=True)
    assert (given, doubts) == (merge([]), [])


def test_taskprolog_of_the_package_prints_nothing_before_it_is_set_up(package):
    run = subprocess.run(
        ["sh", ROOT / "daemons/slurm-taskprolog"],
        env={
            "COSCHED_SLURM_CONF": str(package / "etc/cosched-slurm.conf"),
            **{"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "shared"},
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert (run.stdout, run.stderr) == ("", "")


def test_taskprolog_takes_the_values_that_the_file_shows(package, tmp_path):
    text = (package / "etc/cosched-slurm.conf").read_text()
    conf = tmp_path / "conf"
    conf.write_text(re.sub(r"^# (\w+=)", r"\1", text, flags=re.M))
    run = subprocess.run(
        ["sh", ROOT / "daemons/slurm-taskprolog"],
        env={
            "COSCHED_SLURM_CONF": str(conf),
            **{"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "shared"},
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"export LD_PRELOAD={PREFIX}/shim/mpich.so\n" in run.stdout


def test_tmpfiles_keep_a_domain_on_the_disk(package, tmp_path):
    if shutil.which("systemd-tmpfiles") is None:
        pytest.skip("no systemd-tmpfiles on this machine")
    (tmp_path / "run").mkdir()
    subprocess.run(
        [
            *("systemd-tmpfiles", f"--root={tmp_path}", "--create"),
            package / "usr/lib/tmpfiles.d/cosched.conf",
        ],
        check=False,  # root= needs users of that root, which are not there
        capture_output=True,
    )
    link = tmp_path / "run/cosched/domain"
    assert str(link.readlink()) == "/var/lib/cosched/domain"
    assert (tmp_path / "var/lib/cosched/domain").is_dir()


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (("deb-for",), "deb-for needs a release: trixie or bookworm"),
        (("deb-for", "trixie", "a", "b"), "deb-for does not take 'b'"),
        (("deb", "a", "b"), "deb does not take 'b'"),
        (("rpm",), "no command 'rpm'"),
    ],
)
def test_mistake_in_the_command_is_one_line(words, mistake):
    done = subprocess.run(
        [ROOT / "scripts/package", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert mistake in done.stderr
    assert (done.stderr.count("\n"), done.stdout) == (1, "")
