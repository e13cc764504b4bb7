"""Builds ``_pmix``: the part of libpmix's interface (versions 4 and 5) that a server needs,
without its headers."""

from __future__ import annotations

from cffi import FFI

_DECLARATIONS = """
typedef int pmix_status_t;
typedef struct { char nspace[256]; uint32_t rank; } pmix_proc_t;
typedef struct { uint16_t type; size_t size; void *array; } pmix_data_array_t;
typedef struct { char *bytes; size_t size; } pmix_byte_object_t;
typedef struct {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint8_t persist;
        size_t size;
        pmix_byte_object_t bo;
        pmix_data_array_t *darray;
        uint64_t longest[3];
    } data;
} pmix_value_t;
typedef struct { char key[512]; uint32_t flags; pmix_value_t value; } pmix_info_t;
typedef struct { pmix_proc_t proc; char key[512]; pmix_value_t value; } pmix_pdata_t;
typedef struct {
    char *cmd; char **argv; char **env; char *cwd; int maxprocs;
    pmix_info_t *info; size_t ninfo;
} pmix_app_t;

typedef void (*pmix_op_cbfunc_t)(pmix_status_t, void *);
typedef void (*pmix_release_cbfunc_t)(void *);
typedef void (*pmix_modex_cbfunc_t)(
    pmix_status_t, const char *data, size_t ndata, void *cbdata,
    pmix_release_cbfunc_t, void *release_cbdata);
typedef void (*pmix_lookup_cbfunc_t)(
    pmix_status_t, pmix_pdata_t *data, size_t ndata, void *cbdata);
typedef void (*pmix_spawn_cbfunc_t)(pmix_status_t, char *nspace, void *cbdata);
typedef void (*pmix_dmodex_response_fn_t)(
    pmix_status_t, char *data, size_t size, void *cbdata);

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
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo, pmix_op_cbfunc_t, void *cbdata);
typedef pmix_status_t (*lookup_fn)(
    const pmix_proc_t *, char **keys, const pmix_info_t *, size_t ninfo,
    pmix_lookup_cbfunc_t, void *cbdata);
typedef pmix_status_t (*unpublish_fn)(
    const pmix_proc_t *, char **keys, const pmix_info_t *, size_t ninfo,
    pmix_op_cbfunc_t, void *cbdata);
typedef pmix_status_t (*spawn_fn)(
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo, const pmix_app_t *,
    size_t napps, pmix_spawn_cbfunc_t, void *cbdata);
typedef pmix_status_t (*connect_fn)(
    const pmix_proc_t *, size_t nprocs, const pmix_info_t *, size_t ninfo,
    pmix_op_cbfunc_t, void *cbdata);
typedef void (*log_fn)(
    const pmix_proc_t *, const pmix_info_t *, size_t ninfo,
    const pmix_info_t *directives, size_t ndirectives, pmix_op_cbfunc_t, void *cbdata);
typedef pmix_status_t (*control_fn)(
    const pmix_proc_t *, const pmix_proc_t *targets, size_t ntargets,
    const pmix_info_t *directives, size_t ndirectives, void *cbfunc, void *cbdata);
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
    unpublish_fn unpublish;
    spawn_fn spawn;
    connect_fn connect;
    connect_fn disconnect;
    void *register_events, *deregister_events, *listener, *notify_event, *query,
        *tool_connected;
    log_fn log;
    void *allocate;
    control_fn job_control;
    void *monitor, *get_credential, *validate_credential, *iof_pull, *push_stdin;
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
void PMIx_server_deregister_client(const pmix_proc_t *, pmix_op_cbfunc_t, void *cbdata);
pmix_status_t PMIx_server_setup_fork(const pmix_proc_t *, char ***);
pmix_status_t PMIx_server_dmodex_request(
    const pmix_proc_t *, pmix_dmodex_response_fn_t, void *cbdata);
void *PMIx_Info_list_start(void);
pmix_status_t PMIx_Info_list_add(
    void *, const char *key, const void *value, uint16_t type);
pmix_status_t PMIx_Info_list_convert(void *, pmix_data_array_t *);
void PMIx_Info_list_release(void *);
void PMIx_Data_array_destruct(pmix_data_array_t *);
"""

#: Without a source it becomes a module of Python: stewards load it in two milliseconds, and
#: need no parser of C.
pmix = FFI()
pmix.cdef(_DECLARATIONS)
pmix.set_source("cosched.cluster.pmi._pmix", None)
