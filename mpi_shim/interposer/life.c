/*
 * The life of the shim in one process: the environment, registration (CMDREG) after
 * MPI_Init, deregistration (CMDOUT) at the beginning of MPI_Finalize, a forked child.
 *
 * It fails open. Without COSCHED_JOB and COSCHED_WAIT nothing is done at all; without a daemon the carrier
 * stays what the environment says and everything else is as if the shim were not there.
 */
#define _GNU_SOURCE
#include "base/state.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cosched/environment.h"
#include "status/attributes.h"
#include "status/comms.h"
#include "calls/do.h"
#include "wait/idle.h"
#include "calls/requests.h"
#include "status/shadow.h"

struct cosched_shim cosched_shim = {
    .link = {.bell = -1, .counters = &cosched_shim.link.own_counters}};

static struct cosched_environment environment;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static pthread_once_t fork_watched = PTHREAD_ONCE_INIT;
static char broken_why[512];

static void say(const char *format, va_list arguments) {
    char line[768];
    int head = snprintf(line, sizeof line, "cosched: pid %d: ", (int)getpid());
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    size_t length = (size_t)head + (body < 0 ? 0 : (size_t)body);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    /* One write, so that the ranks' lines do not mix. */
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}

void cosched_shim_say(const char *format, ...) {
    va_list arguments;
    if (!cosched_shim.verbose)
        return;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void cosched_shim_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

int cosched_shim_refuse(const char *what) {
    return cosched_shim_refuse_because(
        what, broken_why[0] != '\0' ? broken_why : "not possible here");
}

int cosched_shim_refuse_because(const char *what, const char *why) {
    cosched_shim_warn("%s: %s", what, why);
    return MPI_ERR_OTHER;
}

/* What runs without the shim runs with it: only where status bytes would be missing, which
 * the other ranks expect, is a library that lacks a call refused. */
static enum cosched_shim_mode choose_mode(bool takes_part) {
    int error = cosched_pmpi_load(broken_why, sizeof broken_why);
    if (error == 0)
        return takes_part ? COSCHED_SHIM_ACTIVE : COSCHED_SHIM_PASSIVE;
    if (error != -ENOSYS || cosched_shim_prefixes())
        return COSCHED_SHIM_BROKEN;
    if (takes_part)
        cosched_shim_warn("%s; the program runs on without it: name that library's own mpicc with "
                          "--mpicc", broken_why);
    return COSCHED_SHIM_PASSIVE;
}

static void start(void) {
    cosched_environment_read(&environment);
    cosched_shim.verbose = environment.verbose != 0;
    for (uint32_t i = 0; i < environment.warning_count; i++)
        cosched_shim_say("%s", environment.warnings[i]);
    cosched_shim.wait = environment.wait;
    bool takes_part = cosched_environment_takes_part(&environment) != 0;
    if (takes_part) {
        cosched_shim.copies = cosched_copies_safe;
        cosched_shim.carrier = (enum cosched_carrier)environment.task.carrier;
    }
    __atomic_store_n(&cosched_shim.mode, choose_mode(takes_part), __ATOMIC_RELEASE);
}

enum cosched_shim_mode cosched_shim_start(void) {
    pthread_once(&started, start);
    return cosched_shim.mode;
}

/* For the mpi4py wrapper, which finds this name and then leaves the work to the interposer. */
__attribute__((visibility("default"))) int cosched_interposer_active(void) {
    struct cosched_environment now;
    cosched_environment_read(&now);
    return cosched_environment_takes_part(&now);
}

static void forget_in_child(void) {
    cosched_abandon(&cosched_shim.link);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget_in_child); }

/* The user would wonder why nothing happens. */
static void warn_of_memory_wait(const char *reason) { cosched_shim_warn("%s", reason); }

static void attach(void) {
    struct cosched_registration *task = &environment.task;
    task->on_memory_wait = warn_of_memory_wait;
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &task->rank);
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &task->world);
    int error = cosched_attach(&cosched_shim.link, environment.socket_path, task,
                               COSCHED_ATTACH_TIMEOUT_MS);
    if (error == -ENOMEM && cosched_shim.link.reason[0] != '\0')
        cosched_shim_warn("%s", cosched_shim.link.reason); /* one task of a node gets it */
    if (error != 0) {
        cosched_shim_say("rank %d runs on its own: %s (%s)", task->rank, cosched_shim.link.reason,
                         environment.socket_path);
        return;
    }
    pthread_once(&fork_watched, watch_forks);
    cosched_shim_say("rank %d of %d registered as task %u of job %s on %s, status by %s", task->rank,
                     task->world, cosched_shim.link.slot, task->job, environment.node,
                     cosched_environment_carrier_name(task->carrier));
}

/* MPI deletes the attributes of MPI_COMM_SELF first thing in MPI_Finalize, by whatever
 * name and from whatever language that was called. */
static int leave(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    cosched_requests_forget();
    if (cosched_shim.carrier == COSCHED_CARRIER_SHADOW)
        cosched_shadow_close();
    cosched_comms_close();
    if (cosched_shim.link.counters->foreign != 0)
        cosched_shim_say("%llu messages came from peers without the shim",
                         (unsigned long long)cosched_shim.link.counters->foreign);
    cosched_detach(&cosched_shim.link);
    return MPI_SUCCESS;
}

/* One line a job, from MPI_Init on. */
static void tell_of_tool(void) {
    const char *tool = cosched_pmpi_bypassed;
    int rank = 0;
    if (tool == NULL)
        return;
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        cosched_shim_warn("%s, linked between the program and MPI, misses the calls that cosched "
                          "stands in for; LD_PRELOAD=%s cosched-run ... puts it in front",
                          tool, tool);
}

static void enter(void) {
    int key = MPI_KEYVAL_INVALID;
    tell_of_tool();
    cosched_idle_open();
    cosched_shim.copies = cosched_copies_choose();
    cosched_comms_open();
    if (cosched_pmpi.Comm_create_keyval(cosched_attribute_stays, leave, &key, NULL) == MPI_SUCCESS)
        cosched_pmpi.Comm_set_attr(MPI_COMM_SELF, key, NULL);
    if (environment.task.job == NULL)
        return; /* only its waits are ours */
    /* The ranks meet before they register: on one node of several a task may wait long for
     * memory, while the others would take it for a rank without the shim. */
    if (cosched_shim.carrier == COSCHED_CARRIER_SHADOW)
        cosched_shadow_open();
    attach();
}

/* What the program finds in errno is the library's doing. */
static int initialised(int rc) {
    int error = errno;
    if (rc == MPI_SUCCESS)
        enter();
    errno = error;
    return rc;
}

int cosched_do_Init(int *argc, char ***argv) {
    return initialised(cosched_pmpi.Init(argc, argv));
}

int cosched_do_Init_thread(int *argc, char ***argv, int required, int *provided) {
    return initialised(cosched_pmpi.Init_thread(argc, argv, required, provided));
}
