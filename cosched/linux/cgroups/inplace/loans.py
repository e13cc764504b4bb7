"""Keeps what stood in an engine's group before cosched changed it, and gives it back.

The old values are an extended attribute of the group itself, written before the group is
changed. So another process gives them back after a crash, and they end with the group: a
later group of the same name has none. Root trusts only ``trusted.*``, which only root may
write; other users have ``user.*`` (version 2).

    trusted.cosched.standing = TAG\\nFILE=VALUE\\n...
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import GONE, why, write
from cosched.linux.cgroups.controls import Controls

_NAME = "cosched.standing"


class Loan(NamedTuple):
    """A group that cosched changes, and the values that stood there."""

    directory: Path  #: the group's directory
    weight: int  #: its weight, in the scale of its cgroup version
    quota_us: int | None  #: UNLIMITED_US: no quota; None: the kernel has no quotas
    period_us: int  #: the period of the quota
    files: dict[str, str]  #: the text of each control file, by the file's name


class Loans:
    """The loans of one tag in one hierarchy."""

    def __init__(self, mount_point: Path, controls: Controls, tag: str) -> None:
        self._mount_point = mount_point
        self._controls = controls
        self._tag = tag
        self._attribute = f"{'trusted' if os.geteuid() == 0 else 'user'}.{_NAME}"

    def take(self, directory: Path) -> Loan:
        """Records the standing values of a group, or reads the record of a dead daemon.

        OSError passes; CoschedError if another daemon steers the group."""
        known = self._read(directory)
        if known is not None and known[0] != self._tag:
            raise CoschedError(
                f"{directory}: another cosched daemon steers it ({known[0]})"
            )
        if known is not None:
            files = known[1]
        else:
            files = {
                self._controls.weight_file: _text(directory / self._controls.weight_file)
            }
            # A kernel without bandwidth control has no such file and no quotas.
            with contextlib.suppress(FileNotFoundError):
                files[self._controls.quota_file] = _text(
                    directory / self._controls.quota_file
                )
            lines = [self._tag, *(f"{name}={text}" for name, text in files.items())]
            os.setxattr(directory, self._attribute, "\n".join(lines).encode())
        return self._loan(directory, files)

    def _loan(self, directory: Path, files: dict[str, str]) -> Loan:
        controls, period_us = self._controls, self._controls.period_us(directory)
        quota = files.get(controls.quota_file)
        quota_us = None if quota is None else controls.parse_quota(quota, period_us)
        weight = proc.integer(files[controls.weight_file])
        return Loan(directory, weight, quota_us, period_us, files)

    def give_back(self, directory: Path) -> None:
        """Restores the standing values of a group; does nothing without a loan.

        CoschedError names a file that refuses its old value."""
        known = self._read(directory)
        if known is None or known[0] != self._tag:
            return
        refused: CoschedError | None = None
        for name, text in known[1].items():
            try:
                write(directory / name, text)
            except OSError as error:
                if error.errno in GONE:
                    return  # the group ended, and its values with it
                refused = CoschedError(f"{directory}: cannot be given back: {why(error)}")
        with contextlib.suppress(OSError):
            os.removexattr(directory, self._attribute)
        if refused is not None:
            raise refused

    def find(self) -> Iterator[Path]:
        """Yields the groups of this tag's loans, also of another process's."""
        for directory, _, _ in os.walk(self._mount_point):
            known = self._read(Path(directory))
            if known is not None and known[0] == self._tag:
                yield Path(directory)

    def _read(self, directory: Path) -> tuple[str, dict[str, str]] | None:
        """Returns the tag and the values of a group's record."""
        try:
            text = shown_text(os.getxattr(directory, self._attribute))
        except OSError:
            return None  # there is none, or the group is gone
        tag, *lines = text.split("\n")
        values = (line.partition("=") for line in lines)
        names = (self._controls.weight_file, self._controls.quota_file)
        return tag, {name: value for name, _, value in values if name in names}


def _text(path: Path) -> str:
    return path.read_text(errors="replace").strip()
