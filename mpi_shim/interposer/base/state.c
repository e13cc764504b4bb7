#define _GNU_SOURCE
#include "base/state.h"

#include <errno.h>
#include <pthread.h>

#include "base/next.h"
#include "base/report.h"

struct cosched_state cosched_state = {
    .link = {.bell = -1, .counters = &cosched_state.link.own_counters}};
struct cosched_environment cosched_state_environment;

static char broken_why[512];

/* A process without the shim's MPI is no rank of it: its calls go on as without the shim. A library
 * that lacks a call is refused only where the other ranks expect status bytes in this rank's
 * messages. Otherwise the program runs as it does without the shim. */
static enum cosched_state_mode choose_mode(bool takes_part) {
    int error = cosched_pmpi_load(broken_why, sizeof broken_why);
    if (error == 0)
        return takes_part ? COSCHED_STATE_ACTIVE : COSCHED_STATE_PASSIVE;
    if (error != -ENOSYS) {
        if (error == -ENOEXEC && takes_part)
            cosched_report_warn("%s; the program runs on without it", broken_why);
        cosched_next_find();
        return COSCHED_STATE_ASIDE;
    }
    if (cosched_state_uses_prefix())
        return COSCHED_STATE_BROKEN;
    if (takes_part)
        cosched_report_warn("%s; the program runs on without it: name that library's own mpicc "
                            "with --mpicc",
                            broken_why);
    return COSCHED_STATE_PASSIVE;
}

static void start(void) {
    struct cosched_environment *environment = &cosched_state_environment;
    bool takes_part;
    cosched_environment_read(environment);
    cosched_report_set_verbose(environment->verbose != 0);
    for (uint32_t i = 0; i < environment->warning_count; i++)
        cosched_report_info("%s", environment->warnings[i]);
    cosched_state.wait = environment->wait;
    takes_part = cosched_environment_takes_part(environment) != 0;
    if (takes_part)
        cosched_state.carrier = (enum cosched_carrier)environment->task.carrier;
    __atomic_store_n(&cosched_state.mode, choose_mode(takes_part), __ATOMIC_RELEASE);
}

enum cosched_state_mode cosched_state_start(void) {
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    pthread_once(&started, start);
    return cosched_state.mode;
}

int cosched_state_refuse(const char *call) {
    return cosched_report_refuse(call, broken_why[0] != '\0' ? broken_why : "not possible here");
}

/* The mpi4py wrapper looks for this name, and leaves its work to the interposer if it is 1. */
__attribute__((visibility("default"))) int cosched_interposer_active(void) {
    struct cosched_environment now;
    cosched_environment_read(&now);
    return cosched_environment_takes_part(&now);
}

/* Programs look for this name (cosched/mark.h). Counts an iteration of this task. */
__attribute__((visibility("default"))) void cosched_interposer_mark(void) {
    if (cosched_state_mode() == COSCHED_STATE_ACTIVE)
        cosched_task_count(&cosched_state.link.counters->marks, 1);
}

/* A malleable job looks for this name. Returns the counter of the time in which this task has
 * waited in MPI, or NULL if it does not count. */
__attribute__((visibility("default"))) const uint64_t *cosched_interposer_waited_ns(void) {
    const int is_active = cosched_state_mode() == COSCHED_STATE_ACTIVE;
    return is_active ? &cosched_state.link.counters->waited_ns : NULL;
}
