"""Reading ELF files: fakes of every width and byte order, real ones, and rubbish."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.launch.elf import build_id, read_elf
from tests.unit.launch import launch_fakes as fakes


def write(tmp_path, content, name="app"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_names_are_read_at_each_width_and_byte_order(tmp_path, wide, order):
    content = fakes.elf(
        ["libmpi.so.12", "libc.so.6"], runpath="/a:/b", wide=wide, order=order
    )
    elf = read_elf(write(tmp_path, content))
    assert elf.needed == ("libmpi.so.12", "libc.so.6")
    assert elf.runpath == ("/a", "/b")
    assert elf.rpath == ()


def test_static_program_needs_nothing(tmp_path):
    assert read_elf(write(tmp_path, fakes.elf(static=True))).needed == ()


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF" + bytes(60)]
)
def test_file_that_is_not_elf_gives_none(tmp_path, content):
    assert read_elf(write(tmp_path, content)) is None


def test_missing_file_or_directory_gives_none(tmp_path):
    assert read_elf(tmp_path / "none") is None
    assert read_elf(tmp_path) is None


SAMPLE = fakes.elf(["libmpi.so.40"], runpath="/opt/lib")


@given(cut=st.integers(0, len(SAMPLE) - 1))
def test_truncated_file_never_raises(tmp_path_factory, cut):
    path = tmp_path_factory.getbasetemp() / "cut"
    path.write_bytes(SAMPLE[:cut])
    found = read_elf(path)
    assert found is None or set(found.needed) <= {"libmpi.so.40"}


@given(where=st.integers(4, len(SAMPLE) - 1), value=st.integers(0, 255))
def test_damaged_file_never_raises(tmp_path_factory, where, value):
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(SAMPLE[:where] + bytes([value]) + SAMPLE[where + 1 :])
    found = read_elf(path)
    assert found is None or all(isinstance(name, str) for name in found.needed)


def test_runpath_comes_after_the_environment_and_hides_rpath(tmp_path):
    elf = read_elf(
        write(tmp_path, fakes.elf(["libx.so"], runpath="$ORIGIN/../lib", rpath="/never"))
    )
    origin = tmp_path.resolve()
    assert list(elf.search_path({"LD_LIBRARY_PATH": "/one:/two"})) == [
        Path("/one"),
        Path("/two"),
        Path(f"{origin}/../lib"),
    ]


def test_rpath_alone_comes_before_the_environment(tmp_path):
    elf = read_elf(write(tmp_path, fakes.elf(["libx.so"], rpath="/first")))
    assert list(elf.search_path({"LD_LIBRARY_PATH": "/then"})) == [
        Path("/first"),
        Path("/then"),
    ]


def test_library_is_found_in_the_search_path(tmp_path):
    (tmp_path / "lib").mkdir()
    library = write(tmp_path, b"", "lib/libx.so")
    elf = read_elf(write(tmp_path, fakes.elf(["libx.so"], runpath="${ORIGIN}/lib")))
    assert elf.find("libx.so", {}) == library.resolve()
    assert elf.find("liby.so", {}) is None


def test_real_program_agrees_with_ldd():
    path = Path(sys.executable).resolve()
    elf = read_elf(path)
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    assert elf is not None
    assert all(name in said for name in elf.needed)


def test_build_id_is_that_of_the_linker(tmp_path):
    source = tmp_path / "x.c"
    source.write_text("int x;\n")
    library = tmp_path / "libx.so"
    command = ["cc", "-shared", "-fPIC", str(source), "-o", str(library)]
    for option, expected in (("0x0123456789", "0123456789"), ("none", "")):
        subprocess.run([*command, f"-Wl,--build-id={option}"], check=True)
        assert build_id(library).hex() == expected
    assert build_id(source) == b""
