/*
 * life.c - registers the process after MPI_Init (CMDREG), deregisters it at the beginning of
 * MPI_Finalize (CMDOUT), and handles a forked child.
 *
 * It fails open. Without COSCHED_JOB and COSCHED_WAIT it does nothing. Without a daemon the
 * carrier stays as the environment has it, and everything else is as without the shim.
 *
 * The exported entries that begin MPI are here, not in entry.c, since they need all layers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/library.h"
#include "base/report.h"
#include "base/state.h"
#include "calls/entry.h"
#include "calls/requests.h"
#include "status/comms.h"
#include "status/copies.h"
#include "status/together.h"
#include "wait/library_yields.h"

static pthread_once_t fork_watched = PTHREAD_ONCE_INIT;

static void detach_child(void) { cosched_abandon(&cosched_state.link); }

/* A program of another C library, such as musl, also gets the preload if a rank starts it. It must
 * find all symbols that the shim needs. glibc's pthread_atfork needs one that is glibc's own. */
#ifdef __GLIBC__
extern void *__dso_handle __attribute__((visibility("hidden")));
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *object) __attribute__((weak));

static void watch_forks(void) {
    if (__register_atfork != NULL)
        (void)__register_atfork(NULL, NULL, detach_child, __dso_handle);
}
#else
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, detach_child); }
#endif

/* A user whose job waits for memory must see why it does not start. */
static void report_memory_wait(const char *reason) {
    if (reason[0] != '\0')
        cosched_report_warn("%s", reason);
    cosched_together_call_roll(COSCHED_PRESENT);
}

static void attach(void) {
    struct cosched_environment *environment = &cosched_state_environment;
    struct cosched_registration *task = &environment->task;
    struct cosched_link *link = &cosched_state.link;
    task->on_memory_wait = report_memory_wait;
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &task->rank);
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &task->world);
    int error = cosched_attach(link, environment->socket_path, task, COSCHED_ATTACH_TIMEOUT_MS);
    if (error == -ENOMEM && link->reason[0] != '\0')
        cosched_report_warn("%s", link->reason); /* one task of a node gets it */
    if (error != 0) {
        cosched_report_info("rank %d runs on its own: %s (%s)", task->rank, link->reason,
                            environment->socket_path);
        cosched_together_call_roll(link->presence);
        return;
    }
    pthread_once(&fork_watched, watch_forks);
    cosched_report_info("rank %d of %d registered as task %u of job %s on %s, status by %s",
                        task->rank, task->world, link->slot, task->job, environment->node,
                        cosched_environment_carrier_name(task->carrier));
    cosched_together_call_roll(link->presence);
}

/* Called when MPI deletes the attributes of MPI_COMM_SELF, which is the first thing that
 * MPI_Finalize does, in every language. */
static int leave(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    cosched_requests_forget();
    cosched_together_close();
    cosched_comms_close();
    if (cosched_state.link.counters->foreign != 0)
        cosched_report_info("%llu messages came from peers without the shim",
                            (unsigned long long)cosched_state.link.counters->foreign);
    cosched_detach(&cosched_state.link);
    return MPI_SUCCESS;
}

/* Warns once a job about a profiling tool that the shim bypasses. */
static void report_tool(void) {
    const char *tool = cosched_pmpi_bypassed;
    int rank = 0;
    if (tool == NULL)
        return;
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        cosched_report_warn("%s, linked between the program and MPI, misses the calls that "
                            "cosched stands in for; LD_PRELOAD=%s cosched-run ... puts it in "
                            "front",
                            tool, tool);
}

static void enter(void) {
    int key = MPI_KEYVAL_INVALID;
    report_tool();
    cosched_wait_open();
    cosched_copies_choose();
    cosched_comms_open();
    if (cosched_pmpi.Comm_create_keyval(cosched_comms_stay, leave, &key, NULL) == MPI_SUCCESS)
        cosched_pmpi.Comm_set_attr(MPI_COMM_SELF, key, NULL);
    if (cosched_state_environment.task.job == NULL)
        return; /* COSCHED_WAIT alone: no job to register with */
    /* The ranks join before they register. A task may wait long for memory of its node, and the
     * other ranks would take it for a rank without the shim. */
    cosched_together_open();
    attach();
}

/* Leaves errno as the library set it. */
static int after_init(int rc) {
    int error = errno;
    if (rc == MPI_SUCCESS)
        enter();
    errno = error;
    return rc;
}

int cosched_do_Init(int *argc, char ***argv) {
    return after_init(cosched_pmpi.Init(argc, argv));
}

int cosched_do_Init_thread(int *argc, char ***argv, int required, int *provided) {
    return after_init(cosched_pmpi.Init_thread(argc, argv, required, provided));
}

/* Whether MPI_Init was called by a Fortran binding inside the library: by mpi_init_, MPI_INIT,
 * mpi_init_f08_ or ompi_init_f, not by MPI_Init_thread or another MPI_Init*. */
static bool is_binding_inside(const void *caller) {
    Dl_info where;
    return cosched_pmpi_called_from(caller) && cosched_library_of(caller, &where) &&
           where.dli_sname != NULL && strcasestr(where.dli_sname, "mpi_init") != NULL &&
           strstr(where.dli_sname, "MPI_Init") == NULL;
}

/* A Fortran binding is a library of its own with MPICH and Open MPI. If it were a part of the
 * MPI library, its PMPI calls would look like the library's own, and its messages would
 * travel without the status byte that their receivers expect. Such a program is refused. */
#define REFUSE_BINDING_INSIDE(name)                                                                \
    if (cosched_state_mode() == COSCHED_STATE_ACTIVE && cosched_state_uses_prefix() &&              \
        is_binding_inside(__builtin_return_address(0)))                                            \
        return cosched_report_refuse(                                                              \
            "MPI_" #name, "the Fortran binding is a part of the MPI library, where its messages "  \
                          "cannot be seen; use cosched-run --carrier none");

#define BEGINNING(name, parameters, arguments)                                                     \
    COSCHED_ENTRY MPI_##name parameters {                                                          \
        REFUSE_BINDING_INSIDE(name)                                                                \
        enum cosched_state_mode mode = cosched_state_mode();                                       \
        COSCHED_ENTRY_SERVE(name, cosched_next_mpi, true, name, arguments)                                           \
    }                                                                                              \
    COSCHED_ENTRY PMPI_##name parameters {                                                         \
        REFUSE_BINDING_INSIDE(name)                                                                \
        enum cosched_state_mode mode = cosched_state_mode();                                       \
        COSCHED_ENTRY_SERVE(name, cosched_next_pmpi, COSCHED_ENTRY_FROM_OUTSIDE(), name, arguments)                   \
    }
#define CALL(name, parameters, arguments)
#define COUNTED CALL
#include "base/calls.h"
