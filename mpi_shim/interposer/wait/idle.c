#define _GNU_SOURCE
#include "wait/idle.h"

#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "status/shadow.h"

_Thread_local struct cosched_idle cosched_idle;

/* Whether the library calls sched_yield for us alone, and would else have gone on. */
static bool forbears;

/* After MPI_Init of a task: the library's yields are the shim's turns. */
static bool opened;

/* Of so many times that the library would yield, it does once, and the shim has its turn;
 * the others return at once. A yield costs as much as a message in shared memory takes, and
 * an eighth of them gives the CPU to whoever wants it as surely: MPICH 5 answers in two thirds
 * of its time that way. */
#define STRIDE 8u

void cosched_idle_listen(void) {
    if (cosched_shadow.on)
        cosched_shadow_waited(cosched_clock_ns(CLOCK_MONOTONIC));
}

static int yield_now(void) { return (int)syscall(SYS_sched_yield); }

static __attribute__((noinline)) int take_turn(const void *caller) {
    if (!cosched_pmpi_called_from(caller))
        return yield_now();
    if (!cosched_idle.tests && cosched_wait_turn(&cosched_idle.wait))
        return 0;
    return forbears ? 0 : yield_now();
}

/* In place of libc's. Others than the MPI library get what they asked for. */
__attribute__((visibility("default"))) int sched_yield(void) {
    const void *caller = __builtin_return_address(0);
    if (!__atomic_load_n(&opened, __ATOMIC_ACQUIRE))
        return yield_now();
    if (++cosched_idle.turns % STRIDE == 0)
        return take_turn(caller);
    return cosched_pmpi_called_from(caller) ? 0 : yield_now();
}

void cosched_idle_open(void) {
#ifdef OPEN_MPI
    if (cosched_pmpi_yield_when_idle == NULL)
        return;
    forbears = !cosched_pmpi_yield_when_idle(true);
    cosched_shim.idles = COSCHED_IDLES_ALWAYS;
#else
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, major = 0;
    cosched_pmpi.Get_library_version(text, &length);
    if (sscanf(text, "MPICH Version: %d", &major) != 1 || major < 5)
        return;
    cosched_shim.idles = COSCHED_IDLES_MOSTLY;
#endif
    __atomic_store_n(&opened, true, __ATOMIC_RELEASE);
}
