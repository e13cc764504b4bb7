/*
 * cosched/guard.h - lets a daemon survive a region that its owner truncates.
 *
 * A job's region belongs to the job's user, who can truncate it. An access to a missing page
 * then raises SIGBUS. The guard replaces the region by zeros: it is torn. The daemon checks for
 * that, instead of dying with all jobs of the node.
 */
#ifndef COSCHED_GUARD_H
#define COSCHED_GUARD_H

#include <stdint.h>

/* cdef: begin */
enum cosched_guard_limits {
    COSCHED_GUARDED_MAX = 4096 /* mappings of one process */
};

/* Handles SIGBUS from now on. A SIGBUS outside guarded memory still ends the process. Returns 0
 * or -errno. */
int cosched_guard_install(void);

/* Guards a mapping. Returns 0, or -ENOSPC if there are too many. Not thread-safe. */
int cosched_guard_add(void *begin, uint64_t bytes);

/* Stops guarding a mapping. To be called before it is unmapped. */
void cosched_guard_remove(void *begin);

/* Returns 1 if the mapping has been replaced by zeros. */
int cosched_guard_torn(void *begin);
/* cdef: end */

#endif
