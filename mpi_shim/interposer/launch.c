/*
 * launch.c - what happens before MPI_Init: a process that an MPI launcher has started says so
 * to the scheduler daemon, so that its job takes its turns from the first instruction on. A
 * Python program imports for seconds, a solver reads its input: beside a job whose turn it is
 * that would be a load that nobody schedules.
 *
 * Only the first process of a rank speaks: a program that the rank starts is in its class by
 * birth, and inherits the variable below. A shell that starts the rank's program need not
 * pass it on; then the daemon, which sees who has started whom, sends the second one away.
 *
 * It fails open: who is not heard registers in MPI_Init all the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cosched/environment.h"
#include "base/state.h"

#define ANNOUNCE_TIMEOUT_MS 500

enum { MARK_BYTES = COSCHED_NAME_BYTES + 16 };

/* JOB:PID, the process of a rank of this job that has spoken. */
#define LAUNCHED "COSCHED_LAUNCHED"

/* What launchers tell a rank, and nobody else: not themselves, nor a batch script. */
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

/* This process, as the mark has it: the same after it has become another program. */
static void write_mark(char mark[MARK_BYTES], const char *job) {
    snprintf(mark, MARK_BYTES, "%s:%d", job, (int)getpid());
}

static bool another_has_spoken(const char *own_mark, const char *job) {
    const char *mark = getenv(LAUNCHED);
    size_t length = strlen(job);
    return mark != NULL && strncmp(mark, job, length) == 0 && mark[length] == ':' &&
           strcmp(mark, own_mark) != 0;
}

static void announce(void) {
    struct cosched_environment environment;
    char mark[MARK_BYTES];
    char reason[COSCHED_REASON_BYTES];
    int32_t rank = number_in(ranks, sizeof ranks / sizeof *ranks, -1);
    if (rank < 0)
        return;
    cosched_environment_read(&environment); /* MPI_Init prints its warnings */
    struct cosched_registration *task = &environment.task;
    if (task->job == NULL)
        return;
    write_mark(mark, task->job);
    if (another_has_spoken(mark, task->job))
        return;
    task->rank = rank;
    task->world = number_in(worlds, sizeof worlds / sizeof *worlds, 0);
    cosched_shim.announced =
        cosched_announce(environment.socket_path, task, ANNOUNCE_TIMEOUT_MS, reason) == 0;
    /* Whatever the answer: a program that the rank starts must not try again. */
    (void)setenv(LAUNCHED, mark, 1);
}

/* C has errno 0 when main begins, and programs rely on it. */
__attribute__((constructor)) static void begin(void) {
    int error = errno;
    announce();
    errno = error;
}
