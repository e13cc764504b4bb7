"""Keys of a domain are private; damaged ones are one line, or are made again."""

import os
import stat

import pytest

from cosched.cluster.keys import load_keys, make_keys, remove_broken, without_secret
from cosched.core.errors import CoschedError

NAMES = ("controller", "n1")


@pytest.fixture
def folder(tmp_path):
    make_keys(tmp_path, NAMES)
    return tmp_path


@pytest.mark.parametrize("text", [b"", b'"' * 40, b"\xff" * 40, b"x" * 40])
@pytest.mark.parametrize("name", ["n1.secret", "n1.public"])
def test_a_damaged_key_is_one_line_and_is_made_again(folder, name, text):
    whole = load_keys(folder, "controller", ["controller"])
    (folder / name).write_bytes(text)
    with pytest.raises(CoschedError, match=r"^[^\n]*n1\.(secret|public)[^\n]*$"):
        load_keys(folder, "n1", NAMES)
    remove_broken(folder, NAMES)
    assert make_keys(folder, NAMES) == ["n1"]
    load_keys(folder, "n1", NAMES)
    assert load_keys(folder, "controller", ["controller"]) == whole


def test_pairs_that_are_whole_or_missing_stay_as_they_are(folder):
    before = {file: file.read_bytes() for file in folder.iterdir()}
    remove_broken(folder, (*NAMES, "n2"))
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_a_missing_half_is_never_replaced(folder):
    public, secret = folder / "n1.public", folder / "n1.secret"
    before = public.read_bytes()
    kept = secret.read_bytes()
    secret.unlink()
    assert without_secret(folder, NAMES) == ["n1"]
    assert make_keys(folder, NAMES) == []
    assert public.read_bytes() == before
    with pytest.raises(CoschedError, match=r"n1\.secret: No such file .* copy the file"):
        load_keys(folder, "n1", NAMES)
    secret.write_bytes(kept)
    secret.chmod(0o600)
    public.unlink()
    assert make_keys(folder, NAMES) == ["n1"]
    assert public.read_bytes() == before


def test_a_damaged_secret_without_its_public_key_is_one_line(folder):
    (folder / "n1.public").unlink()
    (folder / "n1.secret").write_bytes(b"x" * 7)
    with pytest.raises(CoschedError, match=r"n1\.secret: is not a key; remove it first"):
        make_keys(folder, NAMES)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_secret_of_another_user_is_refused(folder):
    os.chown(folder / "n1.secret", 65534, -1)
    with pytest.raises(CoschedError, match=r"n1\.secret: its owner nobody can read it"):
        load_keys(folder, "n1", NAMES)


def test_secret_keys_are_private(tmp_path):
    folder = tmp_path / "keys"
    make_keys(folder, NAMES)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in NAMES:
        secret = folder / f"{name}.secret"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert load_keys(folder, name, NAMES).name == name
        for mode in (0o640, 0o604):
            secret.chmod(mode)
            with pytest.raises(CoschedError, match="others can read it; chmod 600 it"):
                load_keys(folder, name, NAMES)
