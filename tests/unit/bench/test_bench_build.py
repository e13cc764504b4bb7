"""Workload programs are compiled once, and again after a change."""

import os

import pytest

from cosched.bench.workload.build import build_program
from cosched.core.errors import CoschedError

# Copies the source, counts its calls, and fails as a compiler does if the source says so.
MPICC = """\
#!/bin/sh
if [ "$1" = -show ]; then echo cc -lmpi; exit; fi
echo call >> "{log}"
while [ $# -gt 0 ]; do
    case $1 in
        -o) out=$2; shift ;;
        *.c) source=$1 ;;
    esac
    shift
done
if grep -q wrong "$source"; then
    echo "$source: In function 'main':" >&2
    echo "$source:1:1: error: unknown type name 'wrong'" >&2
    exit 1
fi
cp "$source" "$out" && chmod +x "$out"
"""


@pytest.fixture
def mpicc(tmp_path):
    path = tmp_path / "mpicc"
    path.write_text(MPICC.format(log=tmp_path / "log"))
    path.chmod(0o755)
    return path


def calls(tmp_path):
    log = tmp_path / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def source(tmp_path, text):
    path = tmp_path / "prog.c"
    path.write_text(text)
    return path


def test_program_is_built_once(tmp_path, mpicc):
    first = build_program(source(tmp_path, "a"), mpicc, os.environ, tmp_path / "cache")
    again = build_program(tmp_path / "prog.c", mpicc, os.environ, tmp_path / "cache")
    assert first == again
    assert first.read_text() == "a"
    assert calls(tmp_path) == 1
    assert os.listdir(tmp_path / "cache") == [first.parent.name]
    assert first.name == "prog"


def test_program_is_built_again_for_changed_inputs(tmp_path, mpicc):
    cache = tmp_path / "cache"
    first = build_program(source(tmp_path, "a"), mpicc, os.environ, cache)
    other_source = build_program(source(tmp_path, "b"), mpicc, os.environ, cache)
    mpicc.write_text(mpicc.read_text().replace("-lmpi", "-lmpich"))
    other_compiler = build_program(tmp_path / "prog.c", mpicc, os.environ, cache)
    assert len({first, other_source, other_compiler}) == 3
    assert calls(tmp_path) == 3


def test_program_that_does_not_compile_is_an_error(tmp_path, mpicc):
    path = source(tmp_path, "wrong")
    with pytest.raises(CoschedError) as caught:
        build_program(path, mpicc, os.environ, tmp_path / "cache")
    assert str(caught.value) == (
        f"{mpicc} cannot build '{path}': {path}:1:1: error: unknown type name 'wrong'"
    )
    assert not list(tmp_path.glob("cache/*/prog"))


def test_missing_source_is_an_error(tmp_path, mpicc):
    with pytest.raises(CoschedError, match=r"no_such\.c': No such file"):
        build_program(tmp_path / "no_such.c", mpicc, os.environ, tmp_path / "cache")
