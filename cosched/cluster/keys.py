"""Makes and reads the CURVE keys of a domain: a pair for the controller and each node.

``NAME.secret`` has mode 0600 and belongs on that machine only. ``NAME.public`` belongs on
all machines of the domain. Both hold one line, in Z85.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq

from cosched.core.bounds import CURVE_KEY_LENGTH
from cosched.core.decoding import decode_text
from cosched.core.errors import CoschedError
from cosched.linux.files.whole import PRIVATE, write_whole

_REMEDY = "make keys with: cosched cluster keygen"


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The own pair, and the public keys of the domain by name."""

    name: str  #: of this member
    secret: bytes  #: of its own pair
    public: Mapping[str, bytes]  #: the public keys of all members, by name

    @property
    def own_public(self) -> bytes:
        return self.public[self.name]


def owners_of(public: Mapping[str, bytes]) -> dict[str, str]:
    """Returns the name of each member by its public key."""
    return {decode_text(key, "a public key"): name for name, key in public.items()}


def make_keys(folder: Path, names: Iterable[str]) -> list[str]:
    """Makes the pairs that the folder lacks; returns the names that got one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = []
    for name in names:
        secret_file, public_file = _files(folder, name)
        if secret_file.exists() and public_file.exists():
            continue
        public, secret = zmq.curve_keypair()
        write_whole(secret_file, secret + b"\n", PRIVATE)
        write_whole(public_file, public + b"\n")
        made.append(name)
    return made


def remove_broken(folder: Path, names: Iterable[str]) -> None:
    """Removes the pairs that are damaged, such as those of a full disk, so that
    ``make_keys`` makes them again."""
    for name in names:
        files = _files(folder, name)
        with contextlib.suppress(FileNotFoundError):
            secret, public = (file.read_bytes().strip() for file in files)
            if not _is_pair(secret, public):
                for file in files:
                    file.unlink()


def _is_pair(secret: bytes, public: bytes) -> bool:
    if len(secret) != CURVE_KEY_LENGTH:
        return False
    try:
        return bool(zmq.curve_public(secret) == public)
    except (ValueError, zmq.ZMQError):  # not Z85
        return False


def load_keys(
    folder: Path, name: str, names: Iterable[str], remedy: str = _REMEDY
) -> KeyRing:
    """Reads the secret key of ``name`` and the public keys of all ``names``.

    remedy: advice about a file that is missing or is not a key. Raises CoschedError for a
    key that is missing, damaged or readable by others.
    """
    secret_file, _ = _files(folder, name)
    secret = _read(secret_file, remedy)
    mode = secret_file.stat().st_mode
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CoschedError(f"{secret_file}: others can read it; chmod 600 it")
    public = {each: _read(_files(folder, each)[1], remedy) for each in {*names, name}}
    if not _is_pair(secret, public[name]):
        raise CoschedError(f"{secret_file}: does not belong to {name}.public")
    return KeyRing(name, secret, public)


def known_keys(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns the names whose public keys are in the folder."""
    return [name for name in names if _files(folder, name)[1].exists()]


def former_keys(folder: Path, public: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the public keys in the folder that no member has, by name: those of removed
    nodes. public: the keys of the members. Files that cannot be keys are left out."""
    members = set(public.values())
    files = [file for file in sorted(folder.glob("*.public")) if os.access(file, os.R_OK)]
    found = {file.stem: file.read_bytes().strip() for file in files if file.is_file()}
    return {
        name: key
        for name, key in found.items()
        if len(key) == CURVE_KEY_LENGTH and key.isascii() and key not in members
    }


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.secret", folder / f"{name}.public"


def _read(path: Path, remedy: str) -> bytes:
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}; {remedy}") from None
    if len(key) != CURVE_KEY_LENGTH or not key.isascii():
        raise CoschedError(f"{path}: is not a key; {remedy}")
    return key
