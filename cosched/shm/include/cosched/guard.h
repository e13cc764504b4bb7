/*
 * cosched/guard.h - lets a process survive a region that is truncated.
 *
 * A job's region belongs to the job's user. That user can truncate it, and so can root. An access
 * to a missing page then raises SIGBUS. The guard replaces the region by zeros: it is torn. A daemon
 * checks for that, instead of dying with all jobs of the node. A task lets go of the region, and
 * runs on as without a daemon (task.h).
 *
 * The handler acts only if the kernel reports an access to guarded memory. Any other SIGBUS goes
 * on to the handler that was there before, with its mask and its flags, or to the default. A
 * program that sets a handler after MPI_Init takes the place of this one. It is guarded only if its
 * handler calls the one before. Threads that block SIGBUS are not guarded: the kernel ends the
 * process. The handler costs nothing unless there is a SIGBUS.
 */
#ifndef COSCHED_GUARD_H
#define COSCHED_GUARD_H

#include <stdint.h>

/* cdef: begin */
enum cosched_guard_limits {
    COSCHED_GUARDED_MAX = 4096 /* mappings of one process */
};

/* Handles SIGBUS from now on. A second call does nothing. Returns 0 or -errno. */
int cosched_guard_install(void);

/* Guards a mapping. on_torn is called with `argument` once it is torn, inside the signal handler;
 * NULL: nothing. Returns 0, or -ENOSPC if there are too many. Not thread-safe. */
int cosched_guard_add(void *begin, uint64_t bytes, void (*on_torn)(void *argument), void *argument);

/* Stops guarding a mapping. To be called before it is unmapped. */
void cosched_guard_remove(void *begin);

/* Returns 1 if the mapping has been replaced by zeros. */
int cosched_guard_torn(void *begin);
/* cdef: end */

#endif
