"""Small stand-ins for the things that cosched.launch looks at: ELF files, launchers."""

from __future__ import annotations

import os
import struct
from pathlib import Path

HYDRA = "HYDRA build details:\n    Version:          5.0.2\n    CC: gcc\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619\n"
OPEN_MPI_5 = "mpiexec (Open MPI) 5.0.11\n\nReport bugs to somewhere\n"
OPEN_MPI_4 = "mpiexec.openmpi (OpenRTE) 4.1.4\n"


def elf(needed=(), runpath="", rpath="", *, wide=True, order="<", static=False) -> bytes:
    """A file with the headers and the dynamic section that the loader would read."""
    word = "Q" if wide else "I"
    strings = b"\0"

    def text(value):
        nonlocal strings
        strings += os.fsencode(value) + b"\0"
        return len(strings) - len(os.fsencode(value)) - 1

    entries = [(1, text(name)) for name in needed]
    entries += [(29, text(runpath))] if runpath else []
    entries += [(15, text(rpath))] if rpath else []
    header_size, entry_size = (64, 56) if wide else (52, 32)
    base = 0x400000
    strings_at = header_size + 2 * entry_size
    dynamic_at = strings_at + len(strings)
    entries += [(5, base + strings_at), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(order + word * 2, *entry) for entry in entries)
    total = dynamic_at + len(dynamic)

    def segment(kind, offset, size):
        if wide:
            return struct.pack(
                order + "IIQQQQQQ", kind, 5, offset, base + offset, 0, size, size, 8
            )
        return struct.pack(
            order + "IIIIIIII", kind, offset, base + offset, 0, size, size, 5, 8
        )

    segments = segment(1, 0, total)
    segments += segment(0 if static else 2, dynamic_at, len(dynamic))
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    header = ident + struct.pack(
        order + "HHI" + word * 3 + "IHHHHHH",
        *(2, 62, 1, base, header_size, 0, 0, header_size, entry_size, 2, 0, 0, 0),
    )
    return header + segments + strings + dynamic


def executable(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755)
    return path


def launcher(path: Path, version: str) -> Path:
    """A launcher that only knows its version."""
    return executable(path, f"#!/bin/sh\ncat <<'END'\n{version}END\n")
