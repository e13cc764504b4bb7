/*
 * idle.h - the shim's place inside the library's own waits.
 *
 * A library that yields the processor when a test found nothing calls sched_yield, which
 * the shim exports: so it gets a turn in the midst of any wait, be it for a message, in a
 * collective, in a one-sided call or in MPI_Finalize, without a change of the call itself
 * and at no cost where there is nothing to wait for.
 *
 * Open MPI does that in each wait once it is told to (opal_progress_set_yield_when_idle).
 * MPICH 5 does it in MPI_Recv, MPI_Send, MPI_Wait, MPI_Waitall and in what is made of them,
 * but not in MPI_Probe, MPI_Waitany, MPI_Waitsome, nor where the ranks of one node meet in
 * shared memory (barrier, reduce and bcast within a node). MPICH 4.0 never does.
 *
 * In such a turn the library may hold its locks: nothing here calls MPI.
 */
#ifndef COSCHED_IDLE_H
#define COSCHED_IDLE_H

#include <stdbool.h>

#include "wait/wait.h"

/* What this thread does inside the library. */
struct cosched_idle {
    struct cosched_wait wait; /* zero while it does not wait */
    bool tests;               /* it is in a call that does not block: no pause there */
    uint32_t turns;           /* how often the library offered the processor */
    uint32_t calls;           /* of the library that may wait */
};

extern _Thread_local struct cosched_idle cosched_idle;

/* After MPI_Init: finds out whether the library yields, and has it do so. */
void cosched_idle_open(void);

/* Whoever never waits our way hears here what its peers have told. */
void cosched_idle_listen(void);

/* Forgets a wait in a call that is not in the table, or whose own calls are not: the next one
 * is another, and no longer than it is. Without a look whether there was one: as often as not
 * there was, and a wrong guess of the processor costs more than to write. */
static inline void cosched_idle_forget(void) {
    cosched_idle.wait = (struct cosched_wait){0};
}

static inline void cosched_idle_enter(void) {
    cosched_idle_forget();
    if (__builtin_expect(++cosched_idle.calls % 64 == 0, 0))
        cosched_idle_listen();
}

static inline void cosched_idle_leave(void) {
    if (__builtin_expect(cosched_idle.wait.since_ns != 0, 0))
        cosched_wait_end(&cosched_idle.wait);
    cosched_idle.wait = (struct cosched_wait){0};
}

/* Makes a call of the library that may wait, and one that never does. */
#define COSCHED_LIBRARY_WAITS(rc, call)                                                            \
    do {                                                                                           \
        cosched_idle_enter();                                                                      \
        rc = call;                                                                                 \
        cosched_idle_leave();                                                                      \
    } while (0)

#define COSCHED_LIBRARY_TESTS(rc, call)                                                            \
    do {                                                                                           \
        cosched_idle.tests = true;                                                                 \
        rc = call;                                                                                 \
        cosched_idle.tests = false;                                                                \
    } while (0)

#endif
