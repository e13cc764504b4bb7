"""Runs a member of a domain that does not see one folder, as if its node lacked it.

usage: hiding.py FOLDER MODULE ARGUMENTS. Needs root.
"""

import runpy
import sys
from pathlib import Path

from cosched.linux import namespaces

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def main():
    folder, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv[:] = [module, *sys.argv[3:]]
    namespaces.unshare(CLONE_NEWNS)
    namespaces.mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    namespaces.mount("tmpfs", folder, "tmpfs", 0)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
