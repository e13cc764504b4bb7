/*
 * cosched/sharing.h - finds whether another process shares this thread's CPU now.
 *
 * The scheduler daemon reports whether another job waits for the CPU. Without a daemon the
 * kernel shows it: a thread that spins without a pause shares its CPU if the kernel takes the
 * CPU from it again and again (involuntary context switches). A thread that sleeps does not
 * lose its CPU in this way. The verdict "shared" is therefore kept for a second and then tested
 * again: a task that sleeps in its waits spins for some milliseconds each second.
 */
#ifndef COSCHED_SHARING_H
#define COSCHED_SHARING_H

#include <stdint.h>

#include "task.h"

/* cdef: begin */
/* The observations of one thread. Zero-initialised: none so far. */
struct cosched_sharing {
    uint64_t from_ns;  /* start of the window in which switches are counted */
    uint64_t switches; /* involuntary context switches at its start */
    uint64_t until_ns; /* the CPU counts as shared until then; 0: it does not */
};

/* Enters one observation: the time (CLOCK_MONOTONIC) and the thread's involuntary context
 * switches. Returns 1 if the CPU counts as shared. */
int cosched_sharing_observe(struct cosched_sharing *seen, uint64_t now_ns, uint64_t switches);

/* Returns 1 if another process shares this thread's CPU. Call it in each turn of a wait, with
 * the number of the turn. Only the spinning of waits is observed: time between two waits does
 * not count. */
int cosched_sharing_verdict(const struct cosched_link *link, uint32_t turn);
/* cdef: end */

#endif
