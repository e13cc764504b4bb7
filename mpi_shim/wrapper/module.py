"""Makes the wrapped module; registers and deregisters the task with MPI.

The task registers (CMDREG) when MPI is initialised: at import, as mpi4py does by default,
or in ``MPI.Init``. With COSCHED_STATUS=shadow all ranks join there. The task deregisters
(CMDOUT) when MPI is about to end. There are two ways:

- The program calls ``MPI_Finalize``. MPI first deletes the attributes of COMM_SELF, and the
  wrapper has set one with a callback.
- mpi4py calls it after the interpreter has ended, when no Python callback can run. An
  ``atexit`` function runs before that.

If a task dies in another way, the daemon sees it by its pidfd.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper import comms
from mpi_shim.wrapper.collectives import by_nonblocking
from mpi_shim.wrapper.collectives import shadow as shadow_collectives
from mpi_shim.wrapper.comms import PREDEFINED, constant
from mpi_shim.wrapper.messages.attached_buffer import (
    attach_process_buffer,
    detach_process_buffer,
)
from mpi_shim.wrapper.messages.matched import CONSTANTS, Message
from mpi_shim.wrapper.requests.request import REQUEST_NULL, Grequest, Prequest, Request
from mpi_shim.wrapper.status.rules import NO_LIMIT_MS
from mpi_shim.wrapper.status.shadow import shadow
from mpi_shim.wrapper.status.together import FAREWELL_MS, Together
from mpi_shim.wrapper.task.environment import Environment
from mpi_shim.wrapper.task.link import task
from mpi_shim.wrapper.windows import FILE_NULL, WIN_NULL, File, Win

NAME = "mpi_shim.MPI"

_OWN = ("__name__", "__doc__", "__package__", "__loader__", "__spec__")


def build_module(environment: Environment) -> ModuleType:
    """Returns mpi4py.MPI with its communicating classes replaced; registers the task."""
    task.configure(environment)
    if task.shadow:
        shadow_collectives.install()
    if environment.nonblocking_collectives:
        by_nonblocking.install()

    module = ModuleType(NAME, "mpi4py.MPI, its messages carrying the task's status.")
    module.__package__ = "mpi_shim"
    contents: dict[str, Any] = vars(module)
    contents.update({k: v for k, v in vars(mpi).items() if k not in _OWN})
    contents.update(_replacements())

    def begin() -> None:
        """Registers the task once MPI is initialised."""
        contents.update({name: constant(name) for name in PREDEFINED})
        contents.pop("__getattr__", None)
        world = mpi.COMM_WORLD
        together = Together(shadow, task, environment)
        if task.shadow:
            # Before registration, in which a task may wait long for memory. The others
            # would otherwise give up on it.
            together.open()
        task.on_presence = together.call_roll
        attached = environment.has_job and task.register(
            environment, world.Get_rank(), world.Get_size()
        )
        if attached or task.shadow:
            _leave_with_mpi(together)

    def init() -> None:
        """Initialize the MPI execution environment."""
        mpi.Init()
        begin()

    def init_thread(required: int = mpi.THREAD_MULTIPLE) -> int:
        """Initialize the MPI execution environment."""
        provided = mpi.Init_thread(required)
        begin()
        return provided

    def missing(name: str) -> Any:
        """Returns a communicator before ``init``: another library may have initialised
        MPI."""
        if name not in PREDEFINED:
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        if mpi.Is_initialized() and not mpi.Is_finalized():
            begin()
        return constant(name)

    contents.update({"Init": init, "Init_thread": init_thread})
    if mpi.Is_initialized():
        if not mpi.Is_finalized():
            begin()
    else:
        for name in PREDEFINED:
            del contents[name]
        contents["__getattr__"] = missing
    return module


def _replacements() -> dict[str, Any]:
    classes = (*comms.CLASSES, Request, Prequest, Grequest, Message, Win, File)
    for cls in classes:
        _document(cls)
    return {
        **{cls.__name__: cls for cls in classes},
        **CONSTANTS,
        "REQUEST_NULL": REQUEST_NULL,
        "WIN_NULL": WIN_NULL,
        "FILE_NULL": FILE_NULL,
        "Attach_buffer": attach_process_buffer,
        "Detach_buffer": detach_process_buffer,
    }


def _document(cls: type) -> None:
    """Gives each method that replaces one of mpi4py the docstring of that method, and the
    first sentence of its own class: it describes what the wrapper adds."""
    for ours in reversed(cls.__mro__):
        if not ours.__module__.startswith("mpi_shim."):
            continue
        added, _, _ = inspect.cleandoc(str(ours.__doc__)).partition("\n\n")
        for name, method in vars(ours).items():
            function = getattr(method, "__func__", method)
            if not callable(function) or function.__doc__:
                continue
            for theirs in cls.__mro__:
                if theirs.__module__ == mpi.__name__ and name in vars(theirs):
                    function.__doc__ = f"{getattr(theirs, name).__doc__}\n\n{added}"
                    break


def _leave_with_mpi(together: Together) -> None:
    """Deregisters at MPI_Finalize or at exit, whichever comes first; drops the link in a
    forked child."""

    def delete(_comm: mpi.Comm, _keyval: int, _value: Any) -> None:
        together.close()
        task.deregister()

    def at_exit() -> None:
        if not mpi.Is_finalized():
            together.close(FAREWELL_MS if "mpi4py.run" in sys.modules else NO_LIMIT_MS)
        task.deregister()

    def in_child() -> None:
        together.abandon()
        task.abandon()

    keyval = mpi.Comm.Create_keyval(delete_fn=delete)
    mpi.COMM_SELF.Set_attr(keyval, None)
    atexit.register(at_exit)
    os.register_at_fork(after_in_child=in_child)
