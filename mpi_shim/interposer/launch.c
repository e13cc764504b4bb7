/*
 * launch.c - reports before MPI_Init to the scheduler daemon that an MPI launcher has started
 * this process, so that its job is scheduled from the first instruction on. A Python program
 * imports for seconds, and a solver reads its input. Without the report that would be load that
 * no scheduler controls, beside the scheduled job.
 *
 * Only the first process of a rank reports. A program that the rank starts is in the rank's
 * class from birth, and inherits the variable below. A shell that starts the rank's program may
 * not pass the variable on. Then the daemon, which sees the parents, rejects the second report.
 *
 * A launcher reports, too, and each of its daemons on other nodes: so its job is scheduled before
 * it has a rank. cosched-run, or the lab's agent on another node, sets COSCHED_LAUNCHER for the
 * first process alone.
 *
 * It fails open: a task without a daemon's answer registers in MPI_Init all the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/state.h"
#include "cosched/environment.h"

#define ANNOUNCE_TIMEOUT_MS 500

enum { MARK_BYTES = COSCHED_NAME_BYTES + 16 };

/* JOB:PID, the process of a rank of this job that has reported. */
#define LAUNCHED "COSCHED_LAUNCHED"

/* Set for a process that starts ranks. */
#define LAUNCHER "COSCHED_LAUNCHER"

/* Variables that launchers set for a rank, but not for themselves or for a batch script. */
static const char *const ranks[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
static const char *const worlds[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"};

static int32_t number_in(const char *const *names, size_t count, int32_t otherwise) {
    for (size_t i = 0; i < count; i++) {
        const char *text = getenv(names[i]);
        uint64_t number = 0;
        if (text != NULL && cosched_environment_number(text, &number) == 0 &&
            number <= INT32_MAX)
            return (int32_t)number;
    }
    return otherwise;
}

/* Writes this process's mark, which stays the same when it executes another program. */
static void write_mark(char mark[MARK_BYTES], const char *job) {
    snprintf(mark, MARK_BYTES, "%s:%d", job, (int)getpid());
}

static bool another_has_reported(const char *own_mark, const char *job) {
    const char *mark = getenv(LAUNCHED);
    size_t length = strlen(job);
    return mark != NULL && strncmp(mark, job, length) == 0 && mark[length] == ':' &&
           strcmp(mark, own_mark) != 0;
}

/* Reports that this process starts ranks. The processes that it starts do not report. */
static void announce_launcher(void) {
    struct cosched_environment environment;
    (void)unsetenv(LAUNCHER);
    cosched_environment_read(&environment);
    if (environment.task.job != NULL)
        (void)cosched_announce_launcher(environment.socket_path, &environment.task);
}

static void announce(void) {
    struct cosched_environment environment;
    char mark[MARK_BYTES];
    char reason[COSCHED_REASON_BYTES];
    int32_t rank = number_in(ranks, sizeof ranks / sizeof *ranks, -1);
    if (rank < 0 && getenv(LAUNCHER) != NULL)
        announce_launcher();
    if (rank < 0)
        return;
    cosched_environment_read(&environment); /* MPI_Init prints its warnings */
    struct cosched_registration *task = &environment.task;
    if (task->job == NULL)
        return;
    write_mark(mark, task->job);
    if (another_has_reported(mark, task->job))
        return;
    task->rank = rank;
    task->world = number_in(worlds, sizeof worlds / sizeof *worlds, 0);
    int error = cosched_announce(environment.socket_path, task, ANNOUNCE_TIMEOUT_MS, reason);
    /* A daemon that answers late schedules the job all the same. */
    cosched_state.announced = error == 0 || error == -ETIMEDOUT;
    /* A program that the rank starts must not try again, also after a failure. */
    (void)setenv(LAUNCHED, mark, 1);
}

/* C programs rely on errno being 0 when main begins. */
__attribute__((constructor)) static void begin(void) {
    int error = errno;
    announce();
    errno = error;
}

/* A program with gcc's address sanitizer ends at its start if another library comes before the
 * sanitizer's own. That library asks this function for options. A function of that name in the
 * program replaces it. */
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "verify_asan_link_order=0";
}
