"""Compares the layouts in docs/dev/formats.md with the compiled headers."""

from __future__ import annotations

import re

import pytest

from cosched.shm._native import ffi, lib
from tests.places import ROOT

PAGE = (ROOT / "docs/dev/formats.md").read_text()
HEADER = (ROOT / "cosched/shm/include/cosched/layout.h").read_text()
PAGE_HEADER = (ROOT / "cosched/shm/include/cosched/page.h").read_text()
STRUCTS = re.findall(r"^struct (cosched_\w+) \{", HEADER + PAGE_HEADER, re.M)
STRUCTS.remove("cosched_page_look")  # stands in no memory that is shared
TABLE = re.compile(r"^`struct (\w+)`, (\d+) bytes:.*\n\n\|.*\n\|.*\n((?:\|.*\n)+)", re.M)
TABLES = {name: (int(size), rows) for name, size, rows in TABLE.findall(PAGE)}


def test_page_has_every_struct_and_no_other():
    assert STRUCTS
    assert set(TABLES) == set(STRUCTS)


@pytest.mark.parametrize("name", STRUCTS)
def test_page_has_compiled_offsets_and_sizes(name):
    size, rows = TABLES[name]
    shown = [
        (int(offset), int(length), field)
        for offset, length, field in re.findall(
            r"^\| (\d+) \| (\d+) \| (\w+) \|", rows, re.M
        )
    ]
    compiled = [
        (field.offset, ffi.sizeof(field.type), field_name)
        for field_name, field in ffi.typeof(f"struct {name}").fields
        if not field_name.startswith("pad")
    ]
    assert size == ffi.sizeof(f"struct {name}")
    assert shown == compiled


def test_page_has_versions_and_magic_numbers():
    assert f"ABI version: {lib.COSCHED_ABI}." in PAGE
    assert set(re.findall(r"\| abi \| (\d+) \|", PAGE)) == {str(lib.COSCHED_ABI)}
    magic = re.search(r"COSCHED_REGION_MAGIC UINT64_C\((0x[0-9a-f]+)\)", HEADER)[1]
    assert magic in PAGE
    assert f"{lib.COSCHED_HELLO_MAGIC:#x}" in PAGE
    magic = re.search(r"COSCHED_PAGE_MAGIC UINT64_C\((0x[0-9a-f]+)\)", PAGE_HEADER)[1]
    assert magic in PAGE
    assert f"its version is {lib.COSCHED_PAGE_VERSION}," in PAGE
    assert f"| version | {lib.COSCHED_PAGE_VERSION} |" in PAGE


@pytest.mark.parametrize("name", ["CMDREG", "CMDOUT", "CMDCSW", "CMDSCH", "CMDDWN"])
def test_page_has_number_of_each_request(name):
    row = re.search(r"^\| 0-7 \| (.*) \|$", PAGE, re.M)[1]
    assert re.search(rf"{name} {getattr(lib, f'COSCHED_{name}')}\b", row)


def test_page_has_bits_of_a_request():
    ring = ffi.new("struct cosched_ring *")
    request, slot, epoch = 0xAB, 0xCDEF, 0x1_2345_6789
    assert lib.cosched_request_post(ring, request, slot, epoch) == 0
    assert ring.cells[0] & 1
    payload = ring.cells[0] >> 1
    bits = re.findall(r"^\| (\d+)-(\d+) \| ", PAGE, re.M)
    assert len(bits) == 3
    found = [
        payload >> int(first) & ((1 << (int(last) - int(first) + 1)) - 1)
        for first, last in bits
    ]
    assert found == [request, slot, epoch & 0xFFFFFFFF]


def test_page_has_value_of_an_empty_cell():
    assert "`(p / 64) << 1`" in PAGE
    ring = ffi.new("struct cosched_ring *")
    for _ in range(lib.COSCHED_RING_CELLS):
        assert lib.cosched_request_post(ring, lib.COSCHED_CMDSCH, 1, 1) == 0
    taken = [ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.new("uint64_t *")]
    assert lib.cosched_request_take(ring, *taken) == 1
    assert ring.cells[0] == (64 // lib.COSCHED_RING_CELLS) << 1
