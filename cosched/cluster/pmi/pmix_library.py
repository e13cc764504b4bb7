"""Calls libpmix through cffi, without its headers: the part of the PMIx API (versions 4
and 5) that a server needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosched.cluster.pmi._pmix import ffi
from cosched.cluster.pmi.pmix_facts import Fact, Kind
from cosched.cluster.pmi.pmix_values import FLAG, TEXT, read_text
from cosched.core.errors import CoschedError
from cosched.linux.system_text import from_wire

SUCCESS = 0
ERROR = -1
NOT_FOUND = -46
NOT_SUPPORTED = -47
#: The name is published already.
DUPLICATE = -53
#: The tasks of a spawn could not start.
NOT_LAUNCHED = -181
#: An upcall's result: done, the callback function will not be called.
DONE = -157

#: PMIx's numbers of types; see ``pmix_values``, too.
_DATA_ARRAY, _REGEX = 39, 49

#: The newest function that we call.
_NEWEST = "PMIx_Info_list_start"
#: PMIx 4 lacks it, so some memory is then not freed.
_DESTRUCT = "PMIx_Data_array_destruct"

_NUMBERS = {  # the type in C, PMIx's number of the type
    Kind.FLAG: ("bool *", FLAG),
    Kind.UINT16: ("uint16_t *", 13),
    Kind.UINT32: ("uint32_t *", 14),
    Kind.RANK: ("uint32_t *", 40),
}


class PmixLibrary:
    """libpmix, loaded. Its functions raise CoschedError if a call fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ffi = ffi
        try:
            self._lib: Any = self.ffi.dlopen(str(path))
        except OSError as error:
            raise CoschedError(f"cannot load the PMIx library: {error}") from None
        if not self._has(_NEWEST):
            raise CoschedError(f"{path}: not a library of PMIx 4.1 or newer")

    def _has(self, function: str) -> bool:
        """Returns whether the library has a function."""
        try:
            return bool(getattr(self._lib, function))
        except ffi.error:
            return False

    def start_server(self, module: Any, facts: Sequence[Fact]) -> None:
        """Starts the library's server; ``module``: a pmix_server_module_t."""
        with self._infos(facts) as infos:
            self._check(
                self._lib.PMIx_server_init(module, infos.array, infos.size),
                "cannot start a server",
            )

    def register_job(self, name: str, local: int, facts: Sequence[Fact]) -> None:
        """Makes a job known; ``local``: the number of its tasks on this node."""
        with self._infos(facts) as infos:
            self._check(
                self._lib.PMIx_server_register_nspace(
                    name.encode(), local, infos.array, infos.size, *self._wait
                ),
                f"cannot register job {name}",
            )

    def register_task(self, name: str, rank: int, uid: int, gid: int) -> None:
        """Registers a task of this node, so that it can connect to the server."""
        self._check(
            self._lib.PMIx_server_register_client(
                self._task(name, rank), uid, gid, self.ffi.NULL, *self._wait
            ),
            f"cannot register rank {rank}",
        )

    def forget_task(self, name: str, rank: int, callback: Any) -> None:
        """Removes a task of this node, and the files that it registered for that. callback:
        a pmix_op_cbfunc_t, called in libpmix's thread when that is done."""
        self._lib.PMIx_server_deregister_client(
            self._task(name, rank), callback, self.ffi.NULL
        )

    def read_values(self, name: str, rank: int, callback: Any, number: int) -> None:
        """Asks for what a task of this node has put for others. callback: a
        pmix_dmodex_response_fn_t, called in libpmix's thread with ``number``."""
        self._check(
            self._lib.PMIx_server_dmodex_request(
                self._task(name, rank), callback, self.ffi.cast("void *", number)
            ),
            f"cannot read the values of rank {rank}",
        )

    def environment(self, name: str, rank: int) -> dict[str, str]:
        """Returns the variables by which a task finds the server."""
        variables = self.ffi.new("char ***")
        self._check(
            self._lib.PMIx_server_setup_fork(self._task(name, rank), variables),
            f"cannot make the environment of rank {rank}",
        )
        found = {}
        number = 0
        while variables[0][number] != self.ffi.NULL:
            line = from_wire(read_text(variables[0][number]))
            key, _, value = line.partition("=")
            found[key] = value
            number += 1
        return found

    @property
    def _wait(self) -> tuple[Any, Any]:
        """A callback function and its data; without one, a call waits for its end."""
        return self.ffi.NULL, self.ffi.NULL

    def _task(self, name: str, rank: int) -> Any:
        return self.ffi.new("pmix_proc_t *", {"nspace": name.encode(), "rank": rank})

    @contextmanager
    def _infos(self, facts: Sequence[Fact]) -> Iterator[Any]:
        """Yields the facts as a pmix_data_array_t of pmix_info_t."""
        infos = self._lib.PMIx_Info_list_start()
        array: Any = self.ffi.new("pmix_data_array_t *")
        try:
            for fact in facts:
                self._add(infos, fact)
            self._check(self._lib.PMIx_Info_list_convert(infos, array), "out of memory")
            yield array
        finally:
            self._lib.PMIx_Info_list_release(infos)
            if array.array != self.ffi.NULL and self._has(_DESTRUCT):
                self._lib.PMIx_Data_array_destruct(array)

    def _add(self, infos: Any, fact: Fact) -> None:
        if fact.kind is Kind.FACTS:
            assert isinstance(fact.value, tuple)
            with self._infos(fact.value) as inner:
                self._add_value(infos, fact, inner, _DATA_ARRAY)
        elif isinstance(fact.value, str):
            if fact.kind is Kind.TEXT:
                self._add_value(infos, fact, os.fsencode(fact.value), TEXT)
            else:
                self._add_value(infos, fact, self._compressed(fact), _REGEX)
        else:
            c_type, number = _NUMBERS[fact.kind]
            self._add_value(infos, fact, self.ffi.new(c_type, fact.value), number)

    def _add_value(self, infos: Any, fact: Fact, value: Any, number: int) -> None:
        pointer = self.ffi.from_buffer(value + b"\0") if isinstance(value, bytes) else value
        self._check(
            self._lib.PMIx_Info_list_add(infos, fact.key.encode(), pointer, number),
            f"cannot use {fact.key}",
        )

    def _compressed(self, fact: Fact) -> Any:
        """Returns a list of hosts or of ranks in libpmix's own short form."""
        generate = (
            self._lib.PMIx_generate_regex
            if fact.kind is Kind.NODES
            else self._lib.PMIx_generate_ppn
        )
        short = self.ffi.new("char **")
        assert isinstance(fact.value, str)
        self._check(generate(os.fsencode(fact.value), short), f"cannot use {fact.key}")
        return short[0]

    def _check(self, status: int, problem: str) -> None:
        if status not in (SUCCESS, DONE):
            reason = read_text(self._lib.PMIx_Error_string(status))
            raise CoschedError(f"PMIx ({self._path}): {problem}: {reason}")
