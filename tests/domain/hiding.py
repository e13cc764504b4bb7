"""Hides a folder from a member of a domain, as if its node lacked it. Needs root."""

from pathlib import Path

from cosched.linux import namespaces

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def hide(folder):
    """Hides a folder from this process and its children."""
    namespaces.unshare(CLONE_NEWNS)
    namespaces.mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    namespaces.mount("tmpfs", folder, "tmpfs", 0)
