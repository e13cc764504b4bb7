/*
 * entry.c - makes the exported functions from the table of calls. MPI_Init and MPI_Init_thread
 * are in life.c.
 *
 * MPI_x     is what applications call.
 * PMPI_x    is exported too, because an application may call that name itself, through a
 *           Fortran binding (Open MPI's calls PMPI_Send, MPICH's mpi_f08 calls PMPI_Wait) or
 *           through a profiling tool. Such a call moves the application's messages as well.
 *           But the library's own I/O layer calls PMPI_Isend for messages that only it
 *           receives: calls from inside the library go to the library unchanged.
 */
#define _GNU_SOURCE
#include "calls/entry.h"

#include "calls/requests.h"
#include "status/shadow.h"

#define ENTRIES(name, instead, parameters, arguments)                                              \
    COSCHED_ENTRY_FIRST(MPI_##name, parameters, arguments)                                         \
    COSCHED_ENTRY_FIRST(PMPI_##name, parameters, arguments)                                        \
    COSCHED_ENTRY MPI_##name parameters {                                                          \
        COSCHED_ENTRY_MODE(MPI_##name, arguments)                                                  \
        COSCHED_ENTRY_SERVE(name, cosched_next_mpi, true, instead, arguments)                      \
    }                                                                                              \
    COSCHED_ENTRY PMPI_##name parameters {                                                         \
        COSCHED_ENTRY_MODE(PMPI_##name, arguments)                                                 \
        COSCHED_ENTRY_SERVE(name, cosched_next_pmpi, COSCHED_ENTRY_FROM_OUTSIDE(), instead, arguments)                \
    }

/* A collective stays the library's own. The shim sends the task's status before it, acts in
 * its waits, and reads the others' statuses after it. */
#define SERVE_COLLECTIVE(name, next, comm, active, arguments, after)                                                 \
    if (__builtin_expect(mode == COSCHED_STATE_ASIDE, 0))                                          \
        return next.name arguments;                                                                \
    if (mode == COSCHED_STATE_ACTIVE) {                                                            \
        if (active) {                                                                              \
            int rc;                                                                                \
            cosched_shadow_before_collective(comm);                                                            \
            COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.name arguments);                                \
            if (rc == MPI_SUCCESS)                                                                 \
                after;                                                                             \
            return rc;                                                                             \
        }                                                                                          \
        cosched_wait_forget();                                                                     \
    } else if (mode != COSCHED_STATE_PASSIVE || cosched_pmpi.name == NULL)                           \
        return cosched_state_refuse("MPI_" #name);                                                 \
    return cosched_pmpi.name arguments;

#define COLLECTIVE_ENTRIES(name, comm, parameters, arguments, after)                                  \
    COSCHED_ENTRY_FIRST(MPI_##name, parameters, arguments)                                         \
    COSCHED_ENTRY_FIRST(PMPI_##name, parameters, arguments)                                        \
    COSCHED_ENTRY MPI_##name parameters {                                                          \
        COSCHED_ENTRY_MODE(MPI_##name, arguments)                                                  \
        SERVE_COLLECTIVE(name, cosched_next_mpi, comm, true, arguments, after)                     \
    }                                                                                              \
    COSCHED_ENTRY PMPI_##name parameters {                                                         \
        COSCHED_ENTRY_MODE(PMPI_##name, arguments)                                                 \
        SERVE_COLLECTIVE(name, cosched_next_pmpi, comm, COSCHED_ENTRY_FROM_OUTSIDE(), arguments, after)                           \
    }

#define CALL(name, parameters, arguments) ENTRIES(name, name, parameters, arguments)
#define COLLECTIVE(name, comm, parameters, arguments)                                                 \
    COLLECTIVE_ENTRIES(name, comm, parameters, arguments, cosched_shadow_after_collective(comm))
#define NONBLOCKING(name, comm, parameters, arguments)                                                   \
    COLLECTIVE_ENTRIES(name, comm, parameters, arguments,                                             \
                    cosched_requests_expect_collective(*request, comm))
#define BEGINNING(name, parameters, arguments)
#define COUNT int
#define PLACE int
#define COUNTED CALL
#define COUNTED_COLLECTIVE COLLECTIVE
#define COUNTED_NONBLOCKING NONBLOCKING
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
#define COLLECTIVE(name, comm, parameters, arguments)
#define NONBLOCKING COLLECTIVE
#define COUNTED_COLLECTIVE(name, comm, parameters, arguments)                                         \
    COLLECTIVE_ENTRIES(name##_c, comm, parameters, arguments, cosched_shadow_after_collective(comm))
#define COUNTED_NONBLOCKING(name, comm, parameters, arguments)                                           \
    COLLECTIVE_ENTRIES(name##_c, comm, parameters, arguments,                                         \
                    cosched_requests_expect_collective(*request, comm))
#include "base/calls.h"
#endif
