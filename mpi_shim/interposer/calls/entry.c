/*
 * The exported functions, made from the table of calls.
 *
 * MPI_x     is what applications call.
 * PMPI_x    is exported too, because an application may use that name, directly or through
 *           a Fortran binding (Open MPI's calls PMPI_Send, MPICH's mpi_f08 calls PMPI_Wait)
 *           or a profiling tool: such a call moves the application's messages just as well.
 *           But the library's own I/O layer calls PMPI_Isend for messages that only it
 *           receives; calls from inside the library go straight through.
 *
 * A Fortran binding is a library of its own with MPICH and Open MPI. Were it a part of the
 * MPI library, its PMPI calls could not be told from the library's own, and messages would
 * travel without the status byte that their receivers expect: such a program is refused
 * when it begins.
 */
#define _GNU_SOURCE
#include "calls/do.h"

#include <dlfcn.h>
#include <string.h>

#include "wait/idle.h"
#include "calls/requests.h"
#include "status/shadow.h"

#define EXPORTED __attribute__((visibility("default"))) int

#define SERVE(name, active, instead, arguments)                                                    \
    enum cosched_shim_mode mode = cosched_shim_mode();                                             \
    if (__builtin_expect(mode == COSCHED_SHIM_ACTIVE, 1)) {                                        \
        if (active)                                                                                \
            return cosched_do_##instead arguments;                                                 \
        cosched_idle_forget();                                                                     \
    } else if (mode != COSCHED_SHIM_PASSIVE || cosched_pmpi.name == NULL)                          \
        return cosched_shim_refuse("MPI_" #name);                                                  \
    return cosched_pmpi.name arguments;

#define ENTRIES(name, instead, parameters, arguments)                                              \
    EXPORTED MPI_##name parameters { SERVE(name, true, instead, arguments) }                       \
    EXPORTED PMPI_##name parameters {                                                              \
        SERVE(name, !cosched_pmpi_called_from(__builtin_return_address(0)), instead, arguments)                \
    }

/* Whether MPI_Init was called by a Fortran binding inside the library: by mpi_init_, MPI_INIT,
 * mpi_init_f08_ or ompi_init_f, not by MPI_Init_thread and its like. */
static bool from_binding_inside(const void *caller) {
    Dl_info where;
    return cosched_pmpi_called_from(caller) && dladdr(caller, &where) != 0 && where.dli_sname != NULL &&
           strcasestr(where.dli_sname, "mpi_init") != NULL &&
           strstr(where.dli_sname, "MPI_Init") == NULL;
}

#define REFUSE_BINDING_INSIDE(name)                                                                \
    if (cosched_shim_mode() == COSCHED_SHIM_ACTIVE && cosched_shim_prefixes() &&                       \
        from_binding_inside(__builtin_return_address(0)))                                          \
        return cosched_shim_refuse_because(                                                        \
            "MPI_" #name, "the Fortran binding is a part of the MPI library, where its messages "  \
                          "cannot be seen; use cosched-run --carrier none");

#define BEGINNING(name, parameters, arguments)                                                     \
    EXPORTED MPI_##name parameters {                                                               \
        REFUSE_BINDING_INSIDE(name)                                                                \
        SERVE(name, true, name, arguments)                                                         \
    }                                                                                              \
    EXPORTED PMPI_##name parameters {                                                              \
        REFUSE_BINDING_INSIDE(name)                                                                \
        SERVE(name, !cosched_pmpi_called_from(__builtin_return_address(0)), name, arguments)                   \
    }

/* A call in which ranks meet stays the library's own: the shim says who comes, gets its
 * turns in the waits, and sees who came. */
#define MEET(name, comm, active, arguments, after)                                                 \
    enum cosched_shim_mode mode = cosched_shim_mode();                                             \
    if (mode == COSCHED_SHIM_ACTIVE) {                                                             \
        if (active) {                                                                              \
            int rc;                                                                                \
            cosched_shadow_meets(comm);                                                            \
            COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.name arguments);                                \
            if (rc == MPI_SUCCESS)                                                                 \
                after;                                                                             \
            return rc;                                                                             \
        }                                                                                          \
        cosched_idle_forget();                                                                     \
    } else if (mode != COSCHED_SHIM_PASSIVE || cosched_pmpi.name == NULL)                          \
        return cosched_shim_refuse("MPI_" #name);                                                  \
    return cosched_pmpi.name arguments;

#define MEETING_ENTRIES(name, comm, parameters, arguments, after)                                  \
    EXPORTED MPI_##name parameters { MEET(name, comm, true, arguments, after) }                    \
    EXPORTED PMPI_##name parameters {                                                              \
        MEET(name, comm, !cosched_pmpi_called_from(__builtin_return_address(0)), arguments, after) \
    }

#define CALL(name, parameters, arguments) ENTRIES(name, name, parameters, arguments)
#define MEETING(name, comm, parameters, arguments)                                                 \
    MEETING_ENTRIES(name, comm, parameters, arguments, cosched_shadow_met(comm))
#define LATER(name, comm, parameters, arguments)                                                   \
    MEETING_ENTRIES(name, comm, parameters, arguments,                                             \
                    cosched_requests_expect_meeting(*request, comm))
#define COUNT int
#define PLACE int
#define COUNTED CALL
#define COUNTED_MEETING MEETING
#define COUNTED_LATER LATER
#include "base/calls.h"
#undef COUNTED
#undef PLACE
#undef COUNT
#undef CALL

#if MPI_VERSION >= 4
#define CALL(name, parameters, arguments) /* and so a BEGINNING */
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define COUNTED(name, parameters, arguments) ENTRIES(name##_c, name, parameters, arguments)
#define MEETING(name, comm, parameters, arguments)
#define LATER MEETING
#define COUNTED_MEETING(name, comm, parameters, arguments)                                         \
    MEETING_ENTRIES(name##_c, comm, parameters, arguments, cosched_shadow_met(comm))
#define COUNTED_LATER(name, comm, parameters, arguments)                                           \
    MEETING_ENTRIES(name##_c, comm, parameters, arguments,                                         \
                    cosched_requests_expect_meeting(*request, comm))
#include "base/calls.h"
#endif
