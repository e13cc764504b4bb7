"""Rights are given up whole or the process ends; no file goes to a number of no user."""

import ast
import os
import pwd
import socket
import struct
import sys
from pathlib import Path

import pytest

from cosched.core.decoding import Malformed
from cosched.core.task_rights import Identity
from cosched.linux.identity import (
    StillPrivileged,
    become,
    find_account,
    give,
    peer_ids,
)
from cosched.shm.objects import make_object, path_of
from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
USER = Identity(12345, 12346, frozenset({12346, 12347}))
#: The only files that may take rights or give files away, with the calls of each.
PLACES = {
    # takes the rights of a directory's owner for a while, and checks them both times
    "cosched/linux/files/owners.py": {"setgroups", "setresgid", "setresuid"},
    "cosched/linux/identity.py": {"setgroups", "setresgid", "setresuid", "chown"},
    "cosched/shm/objects.py": {"fchown"},  # it cannot import ``cosched.linux``
}
CALLS = {
    *("setuid", "seteuid", "setreuid", "setresuid", "initgroups", "setgroups"),
    *("setgid", "setegid", "setregid", "setresgid", "chown", "fchown", "lchown"),
}


class Kernel:
    """Has the ids of a process; some calls do nothing, or leave root's rights behind."""

    def __init__(self, monkeypatch, broken=(), *, returns=False):
        self.uids, self.gids, self.groups = (0,) * 3, (0,) * 3, [0]
        self.broken, self.returns = broken, returns
        for name in ("setgroups", "setresgid", "setresuid"):
            monkeypatch.setattr(os, name, getattr(self, name))
        monkeypatch.setattr(os, "getresuid", lambda: self.uids)
        monkeypatch.setattr(os, "getresgid", lambda: self.gids)
        monkeypatch.setattr(os, "getgroups", lambda: self.groups)

    def setgroups(self, groups):
        if "groups" not in self.broken:
            self.groups = groups

    def setresgid(self, *gids):
        self.gids = self._kept(self.gids, gids, "gid")

    def setresuid(self, *uids):
        if self.uids[1] != 0 and not self.returns:
            raise PermissionError
        self.uids = self._kept(self.uids, uids, "uid")

    def _kept(self, old, new, kind):
        names = (f"real {kind}", f"effective {kind}", f"saved {kind}")
        return tuple(
            before if name in self.broken else after
            for name, before, after in zip(names, old, new, strict=True)
        )


def test_process_has_the_rights_of_the_user(monkeypatch):
    kernel = Kernel(monkeypatch)
    become(USER)
    assert (kernel.uids, kernel.gids) == ((12345,) * 3, (12346,) * 3)
    assert kernel.groups == [12346, 12347]


@pytest.mark.parametrize(
    "broken",
    [
        *("real uid", "effective uid", "saved uid"),
        *("real gid", "effective gid", "saved gid", "groups"),
    ],
)
def test_call_without_an_effect_is_noticed(monkeypatch, broken):
    Kernel(monkeypatch, [broken])
    with pytest.raises(StillPrivileged, match="has other rights than those of user 12345"):
        become(USER)


def test_way_back_to_root_is_noticed(monkeypatch):
    Kernel(monkeypatch, returns=True)
    with pytest.raises(StillPrivileged):
        become(USER)


def test_refusal_of_the_kernel_is_one_line(monkeypatch):
    kernel = Kernel(monkeypatch)

    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "setresuid", refuse)
    with pytest.raises(StillPrivileged, match="rights of user 12345: Invalid argument"):
        become(USER)
    assert kernel.uids == (0, 0, 0)


@pytest.mark.parametrize("ids", [(-1, 5), (5, -1), (2**32 - 1, 5), (5, 2**32 - 1)])
def test_numbers_that_mean_unchanged_are_never_passed_on(monkeypatch, tmp_path, ids):
    def fail(*_args, **_more):
        raise AssertionError("the kernel was asked")

    for name in CALLS & set(dir(os)):
        monkeypatch.setattr(os, name, fail)
    with pytest.raises(Malformed):
        become(Identity(*ids, frozenset()))
    with pytest.raises(Malformed):
        give(tmp_path, *ids)
    name = f"/cosched-test-{os.getpid()}"
    with pytest.raises(Malformed):
        make_object(name, 10, *ids)
    assert not list(path_of(name).parent.glob(f"{name[1:]}*"))


@needs_root
def test_process_becomes_the_user_for_good():
    user = pwd.getpwnam("nobody")
    account = find_account(user.pw_uid)
    assert account is not None
    assert user.pw_gid in account.groups
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            become(Identity(user.pw_uid, user.pw_gid, account.groups))
            lines = Path("/proc/self/status").read_text().splitlines()
            status = dict(line.split(":", 1) for line in lines)
            assert set(status["Uid"].split()) == {str(user.pw_uid)}
            assert set(status["Gid"].split()) == {str(user.pw_gid)}
            assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
            code = 0
        except BaseException as error:  # noqa: BLE001  (a fork must not return)
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


@needs_root
def test_no_link_is_followed_when_a_file_is_given(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    give(link, 12345, 12346)
    assert (target.stat().st_uid, link.lstat().st_uid) == (0, 12345)


def test_number_that_no_user_has_is_no_account():
    assert find_account(max(user.pw_uid for user in pwd.getpwall()) + 1) is None
    assert find_account(0).name == "root"


def test_large_numbers_of_users_are_positive():
    class Connection:
        def getsockopt(self, level, option, size):
            assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
            return struct.pack("iII", 7, 2**32 - 2, 2**31)[:size]

    assert peer_ids(Connection()) == (7, 2**32 - 2, 2**31)


#: Its function takes limits, CPUs and a nice value, and no rights.
BACKGROUND = "cosched/linux/processes/background.py"


def test_rights_are_taken_and_files_given_only_here():
    found = {}
    for path in python_files("cosched", "daemons", "mpi_shim"):
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and node.attr in CALLS:
                found.setdefault(str(path.relative_to(ROOT)), set()).add(node.attr)
            if isinstance(node, ast.Call):
                words = {word.arg for word in node.keywords}
                if path != ROOT / BACKGROUND:
                    assert not {"extra_groups", "preexec_fn"} & words, path
    assert found == PLACES
