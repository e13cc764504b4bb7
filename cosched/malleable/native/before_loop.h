/*
 * before_loop.h - records the calls before the loop. A rank that joins makes the same calls, and gets what
 * the others got.
 */
#ifndef COSCHED_MALLEABLE_BEFORE_LOOP_H
#define COSCHED_MALLEABLE_BEFORE_LOOP_H

#include <stdint.h>

#include "job.h"

/* A call before the loop, as a rank that joins gets it; the bytes of a bcast follow. */
struct cosched_before_loop {
    enum { COSCHED_SCATTER = 1, COSCHED_BCAST = 2 } call;
    int64_t bytes; /* size of a row, or of the value */
};

/* Records a call. value: its bytes; NULL for a scatter. Collective. Returns 0 or an error. */
int cosched_before_loop_keep(struct cosched_job *job, const struct cosched_before_loop *made,
                             const void *value);

/* Returns, in a rank that joined, what the others got from the same call. Refuses another call than
 * the recorded one. value: its bytes; NULL for a scatter. */
int cosched_before_loop_take(struct cosched_job *job, const char *call,
                             struct cosched_before_loop *made, void *value);

#endif
