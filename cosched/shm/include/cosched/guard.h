/*
 * cosched/guard.h - a daemon survives a region that its owner makes smaller.
 *
 * A job's region belongs to the job's user. If he truncates it, the next look at a page
 * that is gone raises SIGBUS. The guard then puts zeros in its place: the region is torn,
 * and the daemon learns of it when it asks, instead of dying with all the node's jobs.
 */
#ifndef COSCHED_GUARD_H
#define COSCHED_GUARD_H

#include <stdint.h>

/* cdef: begin */
enum cosched_guard_limits {
    COSCHED_GUARDED_MAX = 4096 /* mappings of one process */
};

/* Handles SIGBUS from now on; one outside guarded memory still ends the process.
 * 0 or -errno. */
int cosched_guard_install(void);

/* Guards a mapping. 0, or -ENOSPC when there are too many. Not from several threads. */
int cosched_guard_add(void *begin, uint64_t bytes);

/* Ends it; call before unmapping. */
void cosched_guard_remove(void *begin);

/* 1 if the mapping has been replaced by zeros. */
int cosched_guard_torn(void *begin);
/* cdef: end */

#endif
