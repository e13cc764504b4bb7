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
from cosched.linux.files.owners import ROOT_UID
from cosched.linux.files.whole import PRIVATE, write_whole
from cosched.linux.users import named_user

_REMEDY = "make keys with: cosched cluster keygen, or copy the file from where it made them"


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
    """Makes the pairs that the folder lacks; returns the names that got one.

    A public key stays, also without its secret: that may be on its own machine alone.
    Raises CoschedError if the folder cannot be read or written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [name for name in names if _make_pair(*_files(folder, name))]
    except OSError as error:
        raise CoschedError(f"{folder}: keys cannot be made: {error.strerror}") from None


def _make_pair(secret_file: Path, public_file: Path) -> bool:
    """Makes a pair, or the public key of a secret one; returns whether it was missing."""
    if public_file.exists():
        return False
    if secret_file.exists():
        public = _public_of(secret_file.read_bytes().strip())
        if public is None:
            raise CoschedError(f"{secret_file}: is not a key; remove it first")
    else:
        public, secret = zmq.curve_keypair()
        write_whole(secret_file, secret + b"\n", PRIVATE)
    write_whole(public_file, public + b"\n")
    return True


def without_keys(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns the names of which the folder has no key."""
    return [name for name in names if not any(map(os.path.exists, _files(folder, name)))]


def remove_keys(folder: Path, names: Iterable[str]) -> None:
    """Removes the keys of these names."""
    for name in names:
        for file in _files(folder, name):
            file.unlink(missing_ok=True)


def without_secret(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns the names whose secret keys are not in the folder."""
    return [name for name in names if not _files(folder, name)[0].exists()]


def remove_broken(folder: Path, names: Iterable[str]) -> None:
    """Removes the pairs that are damaged, such as those of a full disk, and the halves, so
    that ``make_keys`` makes them again."""
    for name in names:
        files = _files(folder, name)
        with contextlib.suppress(FileNotFoundError):
            secret, public = (file.read_bytes().strip() for file in files)
            if _is_pair(secret, public):
                continue
        remove_keys(folder, [name])


def _is_pair(secret: bytes, public: bytes) -> bool:
    return _public_of(secret) == public


def _public_of(secret: bytes) -> bytes | None:
    """Returns the public key of a secret one; None if that is no key."""
    if len(secret) != CURVE_KEY_LENGTH:
        return None
    try:
        public: bytes = zmq.curve_public(secret)
    except (ValueError, zmq.ZMQError):  # not Z85
        return None
    return public


def load_keys(
    folder: Path, name: str, names: Iterable[str], remedy: str = _REMEDY
) -> KeyRing:
    """Reads the secret key of ``name`` and the public keys of all ``names``.

    remedy: advice about a file that is missing or is not a key. Raises CoschedError for a
    key that is missing, damaged, readable by others or another user's.
    """
    secret_file, _ = _files(folder, name)
    secret = _read(secret_file, remedy)
    found = secret_file.stat()
    if found.st_uid not in (ROOT_UID, os.geteuid()):
        owner = named_user(found.st_uid)
        raise CoschedError(f"{secret_file}: its owner {owner} can read it; chown it")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CoschedError(f"{secret_file}: others can read it; chmod 600 it")
    public = {each: _read(_files(folder, each)[1], remedy) for each in {*names, name}}
    if not _is_pair(secret, public[name]):
        raise CoschedError(
            f"{secret_file}: does not belong to {name}.public; copy both from where they "
            "were made together"
        )
    return KeyRing(name, secret, public)


def known_keys(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns the names whose public keys are in the folder."""
    return [name for name in names if os.path.exists(_files(folder, name)[1])]


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


def _owner_of(path: Path) -> str:
    """Returns the owner of a key in words, or that of its folder if that is closed."""
    for place in (path, path.parent):
        with contextlib.suppress(PermissionError):
            return named_user(place.stat().st_uid)
    return "its owner"


def _read(path: Path, remedy: str) -> bytes:
    try:
        key = path.read_bytes().strip()
    except PermissionError as error:
        raise CoschedError(
            f"{path}: {error.strerror}; start this as {_owner_of(path)}, who may read it"
        ) from None
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}; {remedy}") from None
    if len(key) != CURVE_KEY_LENGTH or not key.isascii():
        raise CoschedError(f"{path}: is not a key; {remedy}")
    return key
