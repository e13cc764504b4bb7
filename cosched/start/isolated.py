"""Runs a program of cosched in a Python that the user's variables do not change.

Commands and daemons run as ``python -I -X utf8``. PYTHONPATH, PYTHONHOME and the like are
meant for the user's jobs, which get them unchanged. In UTF-8 mode text keeps all bytes of
arguments and paths, whatever the locale is.

setup.py makes the commands in ``bin`` of ``command.sh`` and this file, so it imports
nothing of cosched. Processes that cosched starts run ``__main__.py`` beside it.
"""

import gc
import importlib
import os
import site
import sys
from importlib.machinery import PathFinder


class Last:
    """Finds modules in folders. Other finders come first, also that of an editable
    installation."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Finds a module that is in no package; folders of packages are on ``path``."""
        return PathFinder.find_spec(name, self._folders) if path is None else None


def complete_path() -> None:
    """Adds the folders that may have cosched, or a package that it needs.

    ``-I`` leaves out PYTHONPATH and the user's packages. They come last now, so no module
    there replaces one of Python or of cosched.
    """
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    last = Last([folder for folder in folders if folder])
    sys.meta_path.append(last)  # type: ignore[arg-type]
    virtual = sys.prefix != sys.base_prefix and sys.base_prefix not in site.PREFIXES
    if not virtual and not os.environ.get("PYTHONNOUSERSITE"):
        folder = site.getusersitepackages()
        if os.path.isdir(folder):
            site.addsitedir(folder)


def set_again() -> None:
    """Sets the variables of the user that ``command.sh`` could not leave as they are."""
    for line in os.environ.pop("COSCHED_OTHER_VARIABLES", "").split("\n"):
        name, equals, value = line.partition("=")
        if name and equals:
            os.environ[name] = value.replace("\1", "\n")


def run(module: str) -> None:
    """Runs the function main of a module, and ends with its status.

    Python looks for garbage again and again, also at its end, which takes a fifth of a
    quick command's time. Imports make none, and modules stay. At the end the kernel takes
    all memory back.
    """
    set_again()
    complete_path()
    gc.disable()
    main = importlib.import_module(module).main
    gc.freeze()
    gc.enable()
    try:
        sys.exit(main())
    finally:
        gc.freeze()
