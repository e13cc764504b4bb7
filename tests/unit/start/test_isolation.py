"""Variables and folders of the user that break Python do not break cosched; jobs get the
variables as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from cosched.start.own_command import COSCHED, own_command
from cosched.version import VERSION
from tests.places import ROOT

BIN = Path(sys.executable).parent
SHADOWED = ("enum", "re", "click", "os", "site", "msgspec", "sitecustomize", "cosched")


@pytest.fixture
def folder(tmp_path):
    """A folder with modules that end Python."""
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the user')\n")
    (tmp_path / "startup.py").write_text("raise SystemExit('startup of the user')\n")
    return tmp_path


def variables(folder):
    return {
        "PYTHONPATH": str(folder),
        "PYTHONHOME": "/nonexistent",
        "PYTHONWARNINGS": "error",
        "PYTHONDEVMODE": "1",
        "PYTHONINSPECT": "1",
        "PYTHONOPTIMIZE": "2",
        "PYTHONSTARTUP": str(folder / "startup.py"),
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
        "PYTHONMALLOC": "nonsense",
        "PYTHONPLATLIBDIR": "nonsense",
        "LC_ALL": "xx_YY",
    }


COMMANDS = [
    (BIN / "cosched", "--version"),
    (BIN / "cosched-run", "--version"),
    (*own_command(COSCHED), "--version"),
    (BIN / "coschedd", "--help"),
    (BIN / "cosched-timerd", "--help"),
    (BIN / "cosched-controller", "--help"),
    (BIN / "cosched-agent", "--help"),
]


def run(words, folder, environ):
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: f"{Path(words[0]).name}")
def test_no_variable_breaks_a_program(folder, words):
    done = run(words, folder, variables(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert VERSION in done.stdout or done.stdout.startswith("usage: ")


@pytest.mark.mpi_job
@pytest.mark.parametrize("name", ["PYTHONHOME", "PYTHONPATH", "PYTHONUTF8", "LC_ALL"])
def test_a_job_gets_the_variables_as_they_are(folder, name):
    given = variables(folder)
    words = [BIN / "cosched-run", "--run-dir", folder / "r", "-n", "1", "printenv", name]
    done = run(words, folder, given)
    assert done.stdout == f"{given[name]}\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BASH_FUNC_module%%", "() {  echo loaded\n echo twice\n}"),
        ("a.b", " * two  words "),
        ("1st", ""),
        ("self", "mine"),
        ("python", "python2"),
        ("IFS", ":"),
        ("PWD", "/nonexistent"),
    ],
)
def test_a_command_leaves_variables_as_they_are(tmp_path, name, value):
    """The commands begin in sh, which leaves out some variables, and changes others."""
    given, shown, complaint = given_and_shown(tmp_path, {name: value})
    assert shown[name] == value
    assert set(shown) - {"LC_CTYPE", "SHLVL", "_", "PWD", "OLDPWD"} == set(given) - {"PWD"}
    assert not complaint


def test_variables_that_cannot_be_kept_are_named(tmp_path):
    many = {f"BASH_FUNC_{letter}%%": "x" * 50_000 for letter in "abc"}
    given, shown, complaint = given_and_shown(tmp_path, many)
    assert set(given) - set(shown) == set(many)
    assert complaint.startswith("cosched-shows: warning: BASH_FUNC_")
    assert complaint.count("\n") == 1


def given_and_shown(folder, variables):
    """Runs a command that prints its variables; returns those it was given, those it has,
    and what it wrote to standard error."""
    start = ROOT / "cosched" / "start"
    command = folder / "cosched-shows"
    texts = (start / "command.sh").read_text(), (start / "isolated.py").read_text()
    command.write_text("".join(texts) + "\nrun('shows')\n")
    command.chmod(0o755)
    (folder / "python3").symlink_to(sys.executable)
    (folder / "shows.py").write_text(
        "import json, os\ndef main(): print(json.dumps(dict(os.environ)))\n"
    )
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), **variables}
    done = subprocess.run([command], env=given, capture_output=True, text=True, check=True)
    return given, json.loads(done.stdout), done.stderr


def test_packages_that_only_the_user_has_come_last(tmp_path):
    (tmp_path / "only_here.py").write_text("")
    (tmp_path / "enum.py").write_text("raise SystemExit('wrong')")
    text = (ROOT / "cosched/start/isolated.py").read_text()
    script = tmp_path / "command"
    script.write_text(f"{text}\ncomplete_path()\nimport enum, only_here, msgspec\n")
    done = run([sys.executable, "-I", script], tmp_path, {"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_ends_searches_no_garbage(tmp_path):
    module = tmp_path / "frozen.py"
    module.write_text(
        "import atexit, gc\n"
        "def count():\n"
        "    print(gc.get_freeze_count() > len(gc.get_objects()))\n"
        "def main():\n"
        "    atexit.register(count)\n"
        "    return 3\n"
    )
    text = (ROOT / "cosched/start/isolated.py").read_text()
    script = tmp_path / "command"
    script.write_text(f"{text}\nrun('frozen')\n")
    done = run([sys.executable, "-I", script], tmp_path, {"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (3, "True\n", "")


def test_a_command_runs_processes_side_by_side(tmp_path):
    words = ["sim", "generate", "made.swf", "--jobs", "50", "--machine", "8"]
    done = run([BIN / "cosched", *words], tmp_path, {})
    assert (done.returncode, done.stderr) == (0, "")
    words = ["sim", "queue", "made.swf", "--policy", "fcfs,easy", "--parallel", "2"]
    done = run([BIN / "cosched", *words], tmp_path, {})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" log ") == 2


@pytest.fixture
def folder_of_all():
    """A folder that all users may enter; those of pytest are closed."""
    with tempfile.TemporaryDirectory(prefix="cosched-t-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def installed(folder, line):
    """Makes a command as an installer does; ``line``: the first of cosched-python."""
    folder.mkdir()
    head = (ROOT / "cosched/start/command.sh").read_text()
    command = folder / "hello"
    command.write_text(f"{head}\nimport sys\nprint('hello', *sys.argv[1:])\n")
    command.chmod(0o755)
    (folder / "cosched-python").write_text(f"{line}\nimport os\n")
    return command


@pytest.mark.parametrize(
    "line",
    [
        f"#!{sys.executable}",
        f"#!{sys.executable} -sP",
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''",
        f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''",
    ],
)
def test_a_command_finds_the_python_of_its_installer(tmp_path, line):
    command = installed(tmp_path / "a folder", line)
    link = tmp_path / "link"
    link.symlink_to(command)
    for words in ([command], [link], ["sh", command.name]):
        done = run([*words, "a b", "*"], command.parent, {})
        assert (done.stdout, done.stderr, done.returncode) == ("hello a b *\n", "", 0)


def test_a_command_has_no_escape_of_which_python_warns():
    """Python 3.12 and later print a warning at each start of the command."""
    head = (ROOT / "cosched/start/command.sh").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile(head, "command.sh", "exec").co_filename == "command.sh"


@pytest.mark.skipif(os.geteuid() != 0, reason="runs as another user, so it needs root")
def test_a_python_that_only_its_owner_may_run_is_named(folder_of_all):
    """Such as one below /root: other users cannot make the environment again."""
    python = folder_of_all / "own" / "python3"
    python.parent.mkdir(mode=0o700)
    python.symlink_to(sys.executable)
    command = installed(folder_of_all / "bin", f"#!{python}")
    done = run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", command],
        folder_of_all,
        {},
    )
    remedy = "ask its owner to install cosched with a Python that all users may run"
    assert done.stderr == f"hello: no Python at {python}; {remedy}\n"
    assert done.returncode == 127


@pytest.mark.parametrize("in_venv", [False, True])
def test_a_command_without_its_python_names_the_remedy(tmp_path, in_venv):
    command = installed(tmp_path / "bin", "#!/gone/python3")
    remedy = "python3 -m pip install --force-reinstall ."
    if in_venv:
        (tmp_path / "pyvenv.cfg").write_text("home = /gone\n")
        remedy = f"python3 -m venv --clear {tmp_path} && {tmp_path}/bin/pip install ."
    done = run([command], tmp_path, {})
    problem = f"hello: no Python at /gone/python3; in a clone of cosched: {remedy}\n"
    assert (done.stderr, done.returncode) == (problem, 127)
