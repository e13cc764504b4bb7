#define _GNU_SOURCE
#include "idle.h"

#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local struct cosched_idle cosched_idle;

/* Whether the library would give the processor away by itself. */
static bool yields_itself;

static int yield_now(void) { return (int)syscall(SYS_sched_yield); }

/* In place of libc's. Others than the MPI library get what they asked for. */
__attribute__((visibility("default"))) int sched_yield(void) {
    bool passed = false;
    if (__atomic_load_n(&cosched_shim.mode, __ATOMIC_ACQUIRE) != COSCHED_SHIM_ACTIVE ||
        !cosched_pmpi_called_from(__builtin_return_address(0)))
        return yield_now();
    if (!cosched_idle.tests)
        passed = cosched_wait_turn(&cosched_idle.wait);
    return passed || !yields_itself ? 0 : yield_now();
}

void cosched_idle_open(void) {
#ifdef OPEN_MPI
    if (cosched_pmpi_yield_when_idle == NULL)
        return;
    yields_itself = cosched_pmpi_yield_when_idle(true);
    cosched_shim.idles = COSCHED_IDLES_ALWAYS;
#else
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, major = 0;
    cosched_pmpi.Get_library_version(text, &length);
    if (sscanf(text, "MPICH Version: %d", &major) != 1 || major < 5)
        return;
    yields_itself = true;
    cosched_shim.idles = COSCHED_IDLES_MOSTLY;
#endif
}
