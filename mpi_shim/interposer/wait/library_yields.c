#define _GNU_SOURCE
#include "wait/library_yields.h"

#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cosched/clock.h"

_Thread_local struct cosched_library_wait cosched_library_wait;

/* Whether the library calls sched_yield only because the shim configured it so. */
static bool yields_for_us;

/* Whether MPI_Init is over, so that the library's yields are ours to handle. */
static bool is_open;

static void (*after_wait)(uint64_t now_ns);

/* One in so many yields of the library is a real one, in which the shim may act. The others
 * return at once. A yield costs as much as a message in shared memory, and an eighth of them
 * gives up the CPU as surely: MPICH 5 answers in two thirds of its time that way. */
#define STRIDE 8u

bool cosched_wait_pass_time(struct cosched_wait *wait) {
    return cosched_pass_time(&cosched_state.link, &cosched_state.wait, wait) != 0;
}

static void call_hook(uint64_t now_ns) {
    void (*hook)(uint64_t) = __atomic_load_n(&after_wait, __ATOMIC_ACQUIRE);
    if (hook != NULL)
        hook(now_ns);
}

void cosched_wait_end(struct cosched_wait *wait) {
    uint64_t now = cosched_count_wait(&cosched_state.link, wait);
    if (now != 0)
        call_hook(now);
}

void cosched_wait_set_hook(void (*hook)(uint64_t now_ns)) {
    __atomic_store_n(&after_wait, hook, __ATOMIC_RELEASE);
}

void cosched_wait_call_hook(void) {
    if (__atomic_load_n(&after_wait, __ATOMIC_RELAXED) != NULL)
        call_hook(cosched_clock_ns(CLOCK_MONOTONIC));
}

static int yield_now(void) { return (int)syscall(SYS_sched_yield); }

static __attribute__((noinline)) int handle_yield(const void *caller) {
    if (!cosched_pmpi_called_from(caller))
        return yield_now();
    if (!cosched_library_wait.tests && cosched_wait_pass_time(&cosched_library_wait.wait))
        return 0;
    return yields_for_us ? 0 : yield_now();
}

/* Replaces libc's function. Callers other than the MPI library get what they asked for. */
__attribute__((visibility("default"))) int sched_yield(void) {
    const void *caller = __builtin_return_address(0);
    if (!__atomic_load_n(&is_open, __ATOMIC_ACQUIRE))
        return yield_now();
    if (++cosched_library_wait.yields % STRIDE == 0)
        return handle_yield(caller);
    return cosched_pmpi_called_from(caller) ? 0 : yield_now();
}

void cosched_wait_open(void) {
#ifdef OPEN_MPI
    if (cosched_pmpi_yield_when_idle == NULL)
        return;
    yields_for_us = !cosched_pmpi_yield_when_idle(true);
    cosched_state.yields = COSCHED_YIELDS_ALWAYS;
#else
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, major = 0;
    cosched_pmpi.Get_library_version(text, &length);
    if (sscanf(text, "MPICH Version: %d", &major) != 1 || major < 5)
        return;
    cosched_state.yields = COSCHED_YIELDS_MOSTLY;
#endif
    __atomic_store_n(&is_open, true, __ATOMIC_RELEASE);
}

int cosched_wait_for(MPI_Request *request, MPI_Status *status) {
    int rc, flag = 0;
    COSCHED_EITHER_WAITS(COSCHED_YIELDS_MOSTLY, rc, cosched_pmpi.Wait(request, status),
                         cosched_pmpi.Test(request, &flag, status), flag);
    return rc;
}
