"""Calls libpmix through cffi, without its headers: the part of the PMIx API (versions 4
and 5) that a server needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cffi import FFI

from cosched.cluster.pmi.pmix_facts import Fact, Kind
from cosched.core.errors import CoschedError

SUCCESS = 0
ERROR = -1
NOT_FOUND = -46
NOT_SUPPORTED = -47
#: An upcall's result: done, the callback function will not be called.
DONE = -157

#: Stands for all ranks of a job.
ALL_RANKS = 0xFFFFFFFE

_DECLARATIONS = """
typedef int pmix_status_t;
typedef struct { char nspace[256]; uint32_t rank; } pmix_proc_t;
typedef struct { uint16_t type; size_t size; void *array; } pmix_data_array_t;
typedef struct pmix_info pmix_info_t;

typedef void (*pmix_op_cbfunc_t)(pmix_status_t, void *);
typedef void (*pmix_release_cbfunc_t)(void *);
typedef void (*pmix_modex_cbfunc_t)(
    pmix_status_t, const char *data, size_t ndata, void *cbdata,
    pmix_release_cbfunc_t, void *release_cbdata);

typedef pmix_status_t (*client_fn)(
    const pmix_proc_t *, void *object, pmix_op_cbfunc_t, void *cbdata);
typedef pmix_status_t (*abort_fn)(
    const pmix_proc_t *, void *object, int status, const char *message,
    pmix_proc_t *, size_t nprocs, pmix_op_cbfunc_t, void *cbdata);
typedef pmix_status_t (*fence_fn)(
    const pmix_proc_t *, size_t nprocs, const pmix_info_t *, size_t ninfo,
    char *data, size_t ndata, pmix_modex_cbfunc_t, void *cbdata);
typedef pmix_status_t (*modex_fn)(
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo,
    pmix_modex_cbfunc_t, void *cbdata);
typedef pmix_status_t (*publish_fn)(
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo, void *cbfunc, void *cbdata);
typedef pmix_status_t (*lookup_fn)(
    const pmix_proc_t *, char **keys, const pmix_info_t *, size_t ninfo,
    void *cbfunc, void *cbdata);
typedef pmix_status_t (*spawn_fn)(
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo, const void *apps,
    size_t napps, void *cbfunc, void *cbdata);
typedef pmix_status_t (*connect_fn)(
    const pmix_proc_t *, size_t nprocs, const pmix_info_t *, size_t ninfo,
    void *cbfunc, void *cbdata);
typedef void (*log_fn)(
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo,
    const pmix_info_t *directives, size_t ndirectives, pmix_op_cbfunc_t, void *cbdata);
typedef pmix_status_t (*group_fn)(
    int operation, char *group, const pmix_proc_t *, size_t nprocs,
    const pmix_info_t *, size_t ninfo, void *cbfunc, void *cbdata);

typedef struct {
    client_fn client_connected;
    client_fn client_finalized;
    abort_fn abort;
    fence_fn fence_nb;
    modex_fn direct_modex;
    publish_fn publish;
    lookup_fn lookup;
    lookup_fn unpublish;
    spawn_fn spawn;
    connect_fn connect;
    connect_fn disconnect;
    void *register_events, *deregister_events, *listener, *notify_event, *query,
        *tool_connected;
    log_fn log;
    void *allocate, *job_control, *monitor, *get_credential, *validate_credential,
        *iof_pull, *push_stdin;
    group_fn group;
    void *fabric, *client_connected2, *session_control;
    void *later[16];
} pmix_server_module_t;

const char *PMIx_Error_string(pmix_status_t);
pmix_status_t PMIx_server_init(pmix_server_module_t *, pmix_info_t *, size_t ninfo);
pmix_status_t PMIx_generate_regex(const char *, char **);
pmix_status_t PMIx_generate_ppn(const char *, char **);
pmix_status_t PMIx_server_register_nspace(
    const char *, int nlocalprocs, pmix_info_t *, size_t ninfo, void *cbfunc, void *cbdata);
pmix_status_t PMIx_server_register_client(
    const pmix_proc_t *, uint32_t uid, uint32_t gid, void *object,
    void *cbfunc, void *cbdata);
pmix_status_t PMIx_server_setup_fork(const pmix_proc_t *, char ***);
void *PMIx_Info_list_start(void);
pmix_status_t PMIx_Info_list_add(
    void *, const char *key, const void *value, uint16_t type);
pmix_status_t PMIx_Info_list_convert(void *, pmix_data_array_t *);
void PMIx_Info_list_release(void *);
void PMIx_Data_array_destruct(pmix_data_array_t *);
"""

_FFI = FFI()
_FFI.cdef(_DECLARATIONS)
# cffi parses the name of a type once, which is slow: here, before a steward is forked.
for _name in (
    *("client_fn", "abort_fn", "fence_fn", "modex_fn", "publish_fn", "lookup_fn"),
    *("spawn_fn", "connect_fn", "group_fn", "log_fn", "pmix_release_cbfunc_t"),
    *("pmix_server_module_t *", "pmix_proc_t *", "pmix_data_array_t *", "char[]"),
    *("char ***", "char **", "void *", "uintptr_t"),
    *("bool *", "uint16_t *", "uint32_t *"),
):
    _FFI.typeof(_name)

#: The newest function that we call.
_NEWEST = "PMIx_Info_list_start"
#: PMIx 4 lacks it, so some memory is then not freed.
_DESTRUCT = "PMIx_Data_array_destruct"

_NUMBERS = {  # the type in C, PMIx's number of the type
    Kind.FLAG: ("bool *", 1),
    Kind.UINT16: ("uint16_t *", 13),
    Kind.UINT32: ("uint32_t *", 14),
    Kind.RANK: ("uint32_t *", 40),
}
_TEXT = 3
_DATA_ARRAY = 39
_REGEX = 49


class PmixLibrary:
    """libpmix, loaded. Its functions raise CoschedError if a call fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ffi = _FFI
        try:
            self._lib: Any = self.ffi.dlopen(str(path))
        except OSError as error:
            raise CoschedError(f"cannot load the PMIx library: {error}") from None
        if not hasattr(self._lib, _NEWEST):
            raise CoschedError(f"{path}: not a library of PMIx 4.1 or newer")

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
        """Lets a task of this node connect to the server."""
        self._check(
            self._lib.PMIx_server_register_client(
                self._task(name, rank), uid, gid, self.ffi.NULL, *self._wait
            ),
            f"cannot register rank {rank}",
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
            line = self._text(variables[0][number])
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
            if array.array != self.ffi.NULL and hasattr(self._lib, _DESTRUCT):
                self._lib.PMIx_Data_array_destruct(array)

    def _add(self, infos: Any, fact: Fact) -> None:
        if fact.kind is Kind.FACTS:
            assert isinstance(fact.value, tuple)
            with self._infos(fact.value) as inner:
                self._add_value(infos, fact, inner, _DATA_ARRAY)
        elif isinstance(fact.value, str):
            if fact.kind is Kind.TEXT:
                self._add_value(infos, fact, fact.value.encode(), _TEXT)
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
        self._check(generate(fact.value.encode(), short), f"cannot use {fact.key}")
        return short[0]

    def _check(self, status: int, problem: str) -> None:
        if status not in (SUCCESS, DONE):
            reason = self._text(self._lib.PMIx_Error_string(status))
            raise CoschedError(f"PMIx ({self._path}): {problem}: {reason}")

    def _text(self, pointer: Any) -> str:
        data = self.ffi.string(pointer)
        assert isinstance(data, bytes)
        return data.decode()
