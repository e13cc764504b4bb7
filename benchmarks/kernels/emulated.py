"""An emulated node: a memory bus and a disk of stated speeds that all kernels on it share.

Two CPUs cannot fill a real memory bus, so their kernels would not slow each other. The
emulated node has its own servers with queues (``c/node.h``), from which each kernel draws.
All else is real: processes, their waits, and whatever schedules them. Figures that come
from it are marked as emulated.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from cosched.core.errors import CoschedError

#: As in ``c/node.h``, which has four more words: the states of the servers.
_FORM = struct.Struct("=Q8d4Q")
_MAGIC = 0x65646F6E6B636F63
#: On a file system in memory, so that no write of the kernels' state waits for a disk.
_FOLDER = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    """The speeds of an emulated node. Three processes fill the memory, and one the disk."""

    processors: int = 8  #: processes that can run at once
    stretch: float = 10.0  #: the time of a round of a kernel, as a multiple of its CPU time
    bus_mb_s: float = 400.0  #: the memory bus, in millions of bytes a second
    bank_m_s: float = 12.0  #: random accesses, in millions a second
    bank_part: float = 0.75  #: the part of the bus's time in which streams occupy the banks
    disk_mb_s: float = 40.0  #: the disk, in millions of bytes a second
    seek_ms: float = 10.0  #: lost whenever the disk serves another process
    access_ns: float = 250.0  #: one random access of a process alone
    stream_mb_s: float = (
        133.0  #: the rate of one process alone, in millions of bytes a second
    )

    def __post_init__(self) -> None:
        if min(astuple(self)) <= 0:
            raise CoschedError("an emulated node: each speed and each time is above 0")

    @property
    def text(self) -> str:
        """Describes the node in a line."""
        return (
            f"emulated: {self.processors} processors, memory {self.bus_mb_s:g} MB/s and "
            f"{self.bank_m_s:g} million accesses/s, disk {self.disk_mb_s:g} MB/s and "
            f"{self.seek_ms:g} ms a seek"
        )

    def _packed(self) -> bytes:
        return _FORM.pack(
            _MAGIC,
            self.stretch,
            self.bus_mb_s * 1e6,
            self.bank_m_s * 1e6,
            self.bank_part,
            self.disk_mb_s * 1e6,
            self.seek_ms / 1e3,
            self.access_ns / 1e9,
            self.stream_mb_s * 1e6,
            *(0, 0, 0, 0),
        )

    @contextmanager
    def made(self) -> Iterator[Path]:
        """Makes the memory that the kernels share; removes it at the end."""
        folder = _FOLDER if _FOLDER.is_dir() else None
        with tempfile.NamedTemporaryFile(prefix="cosched-node-", dir=folder) as file:
            file.write(self._packed())
            file.flush()
            yield Path(file.name)
