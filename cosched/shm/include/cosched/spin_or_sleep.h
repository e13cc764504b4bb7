/*
 * cosched/spin_or_sleep.h - passes the time of a waiting task between two tests that found no
 * message: spins or sleeps.
 *
 * An unscheduled task sleeps about a millisecond between two tests, and wakes at once when it
 * is scheduled. This is the paper's "very brief period" in which an unscheduled task looks for
 * messages. A scheduled task does as COSCHED_WAIT asks; in a long wait it also naps while
 * another job waits for its CPU. With COSCHED_WAIT_BUSY a task never sleeps, as in the paper:
 * its class alone limits the CPU time of an unscheduled task.
 *
 * The interposer and the mpi4py wrapper call the same functions, so they wait alike and count
 * alike.
 */
#ifndef COSCHED_SPIN_OR_SLEEP_H
#define COSCHED_SPIN_OR_SLEEP_H

#include <stdint.h>

#include "task.h"

/* cdef: begin */
/* How a task passes the time between two tests (COSCHED_WAIT); all but BUSY: while scheduled. */
enum cosched_wait_kind {
    COSCHED_WAIT_SPIN = 0, /* tests again at once, as the MPI library does */
    COSCHED_WAIT_YIELD,    /* yields the CPU */
    COSCHED_WAIT_BLOCK,    /* spins for spin_ns, then sleeps between tests */
    COSCHED_WAIT_AUTO,     /* BLOCK while another process shares the CPU, otherwise SPIN */
    COSCHED_WAIT_BUSY      /* tests again at once, also while unscheduled */
};

struct cosched_wait_policy {
    uint32_t kind; /* enum cosched_wait_kind */
    uint32_t pad;
    uint64_t spin_ns; /* BLOCK, AUTO: how long a wait spins before it sleeps */
};

/* One wait in progress. Zero-initialise it at the start of each wait. */
struct cosched_wait {
    uint64_t since_ns;     /* CLOCK_MONOTONIC; 0 until the wait has lasted some microseconds */
    uint64_t contended_ns; /* since when another job has waited for this CPU; 0: not yet */
    uint32_t turns;        /* tests that found nothing */
    uint32_t tests;        /* tests since the last look at the clock */
};

/* Passes the time between two tests that found nothing. Returns 1 if it slept or yielded, 0 if
 * the caller can test again at once. */
int cosched_pass_time(struct cosched_link *link, const struct cosched_wait_policy *policy,
                      struct cosched_wait *wait);

/* Adds a finished wait to the counter `waited_ns`. Returns the time (CLOCK_MONOTONIC), or 0 if
 * the wait was over within microseconds: such a wait is not counted, because reading the clock
 * would cost a noticeable part of it. */
uint64_t cosched_count_wait(struct cosched_link *link, const struct cosched_wait *wait);

/* Sleeps until the job is scheduled, at most about a millisecond, and returns 1. Returns 0 at
 * once if the job is scheduled. */
int cosched_sleep_unscheduled(struct cosched_link *link);
/* cdef: end */

#endif
