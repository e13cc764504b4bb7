/*
 * library_yields.h - decides how a rank waits: inside the library's own waits, or in a loop of
 * tests.
 *
 * The library's blocking calls spin. An unscheduled task sleeps for a moment instead
 * (cosched/spin_or_sleep.h): it leaves the CPU to the scheduled job, and looks for messages a
 * thousand times a second. A scheduled task spins as the library would. With COSCHED_WAIT it
 * yields, or spins for a while and then sleeps, to leave the CPU to other processes. A busy task
 * spins whether it is scheduled or not.
 *
 * A library that yields the CPU after a test that found nothing calls sched_yield, which the
 * shim exports. So the shim acts in the middle of any wait: for a message, in a collective, in
 * a one-sided call or in MPI_Finalize. The call itself is not changed, and a call that does not
 * wait costs nothing.
 *
 * Open MPI yields in each wait once it is configured so (opal_progress_set_yield_when_idle).
 * MPICH 5 yields in MPI_Recv, MPI_Send, MPI_Wait, MPI_Waitall and in what is made of them. It
 * does not yield in MPI_Probe, MPI_Waitany, MPI_Waitsome, nor where the ranks of one node meet
 * in shared memory (barrier, reduce and bcast within a node). MPICH 4.0 never yields.
 * Where the library does not yield, the shim makes a blocking call from its non-blocking form and
 * a loop of tests.
 *
 * During sched_yield the library may hold its locks: nothing that runs there calls MPI.
 */
#ifndef COSCHED_LIBRARY_YIELDS_H
#define COSCHED_LIBRARY_YIELDS_H

#include "base/state.h"

/* Calls cosched_pass_time for this process: passes the time after a test that found nothing.
 * Returns whether it gave up the CPU. */
bool cosched_wait_pass_time(struct cosched_wait *wait);

/* Counts the time that passed. Call it after the last test. */
void cosched_wait_end(struct cosched_wait *wait);

/* Sets what is called with CLOCK_MONOTONIC after each wait of some microseconds, and after some
 * calls that did not wait. NULL: nothing. */
void cosched_wait_set_hook(void (*hook)(uint64_t now_ns));

/* Calls the hook, if there is one. */
void cosched_wait_call_hook(void);

/* This thread's state inside the library. */
struct cosched_library_wait {
    struct cosched_wait wait; /* zero while it does not wait */
    bool tests;               /* in a call that does not block, which must not pause */
    uint32_t yields;          /* how often the library called sched_yield */
    uint32_t calls;           /* how many calls were made that may wait */
};

extern _Thread_local struct cosched_library_wait cosched_library_wait;

/* Finds out whether the library yields, and configures it so. Call it after MPI_Init. */
void cosched_wait_open(void);

/* MPI_Wait, on a request of the shim's own or of the user's. */
int cosched_wait_for(MPI_Request *request, MPI_Status *status);

/* Whether the shim replaces the library's wait in a call in which the library yields only if
 * its kind is at least `least`. While a task is alone on its CPUs the library waits. If
 * another job arrives during such a wait, this one wait spins to its end. Accepted. */
static inline bool cosched_wait_is_ours(enum cosched_yields least) {
    return __builtin_expect(cosched_state.yields < least &&
                                (cosched_state.wait.kind != COSCHED_WAIT_SPIN ||
                                 cosched_state_is_contended()),
                            0);
}

/* Forgets the last wait, in a call that is not in the table, or that the library made itself.
 * It writes without testing first: a mispredicted branch costs more than the write. */
static inline void cosched_wait_forget(void) {
    cosched_library_wait.wait = (struct cosched_wait){0};
}

/* Before a call of the library that may wait. The hook runs now and then also in a task whose
 * waits never reach it. */
static inline void cosched_wait_enter(void) {
    cosched_wait_forget();
    if (__builtin_expect(++cosched_library_wait.calls % 64 == 0, 0))
        cosched_wait_call_hook();
}

static inline void cosched_wait_leave(void) {
    if (__builtin_expect(cosched_library_wait.wait.since_ns != 0, 0))
        cosched_wait_end(&cosched_library_wait.wait);
    cosched_library_wait.wait = (struct cosched_wait){0};
}

/* Makes a call of the library that may wait. */
#define COSCHED_LIBRARY_WAITS(rc, call)                                                            \
    do {                                                                                           \
        cosched_wait_enter();                                                                      \
        rc = call;                                                                                 \
        cosched_wait_leave();                                                                      \
    } while (0)

/* Repeats a test until it fails or `done`, and passes the time between. */
#define COSCHED_SHIM_WAITS(rc, test, done)                                                         \
    do {                                                                                           \
        struct cosched_wait wait = {0};                                                            \
        while ((rc = test) == MPI_SUCCESS && !(done))                                              \
            cosched_wait_pass_time(&wait);                                                         \
        cosched_wait_end(&wait);                                                                   \
    } while (0)

/* Waits as cosched_wait_is_ours decides: by `block` of the library, or by tests of the shim. */
#define COSCHED_EITHER_WAITS(least, rc, block, test, done)                                         \
    do {                                                                                           \
        if (cosched_wait_is_ours(least))                                                           \
            COSCHED_SHIM_WAITS(rc, test, done);                                                    \
        else                                                                                       \
            COSCHED_LIBRARY_WAITS(rc, block);                                                      \
    } while (0)

/* Makes a call of the library that never waits. */
#define COSCHED_LIBRARY_TESTS(rc, call)                                                            \
    do {                                                                                           \
        cosched_library_wait.tests = true;                                                                 \
        rc = call;                                                                                 \
        cosched_library_wait.tests = false;                                                                \
    } while (0)

#endif
