"""Keys of a domain: each member's secret one is for that member only."""

import stat

import pytest

from cosched.cluster.keys import load_keys, make_keys
from cosched.core.errors import CoschedError

NAMES = ("controller", "n1")


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
