"""Where a user's files belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.linux import homes


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache"),
    ],
)
def test_the_variable_comes_before_the_home(environ, cache):
    assert homes.cache_home(environ) == Path(cache)


def test_only_cache_home_fails_without_home(monkeypatch):
    assert homes.config_home({"HOME": "relative"}) is None
    assert homes.state_home({}) is None
    monkeypatch.setattr(homes.pwd, "getpwuid", lambda uid: {}[uid])
    with pytest.raises(CoschedError, match="no home directory: set XDG_CACHE_HOME"):
        homes.cache_home({})
