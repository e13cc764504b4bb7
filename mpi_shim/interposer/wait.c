#define _GNU_SOURCE
#include "wait.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

/* The kernel adds its timer slack, 50 us for most: shorter would not be. */
#define NAP_NS 20000

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static bool library_yields;

/* MPICH 5 calls sched_yield each time round in MPI_Recv and MPI_Wait (not in MPI_Probe, and
 * not in MPI_Test); MPICH 4.0 never does. Open MPI yields, when it is told to, inside its
 * progress engine, which MPI_Test enters just as well. */
static void ask_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, major = 0;
    cosched_pmpi.Get_library_version(text, &length);
    library_yields = sscanf(text, "MPICH Version: %d", &major) == 1 && major >= 5;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Spin first: a message that is under way comes sooner than a sleeper wakes up. */
static void spin_then_nap(struct cosched_wait *wait) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (cosched_shim.wait.spin_ns != 0) {
        uint64_t now = now_ns();
        if (wait->since_ns == 0)
            wait->since_ns = now;
        if (now - wait->since_ns < cosched_shim.wait.spin_ns)
            return;
    }
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    cosched_shim_count(&cosched_shim.counters->naps, 1);
}

void cosched_wait_turn(struct cosched_wait *wait, bool yields) {
    if (!wait->began) {
        wait->began = true;
        pthread_once(&asked, ask_library);
        cosched_shim_count(&cosched_shim.counters->waits, 1);
    }
    if (cosched_linger(&cosched_shim.link, &wait->spell) != 0)
        return;
    switch (cosched_shim.wait.kind) {
    case COSCHED_WAIT_SPIN:
        if (yields && library_yields)
            sched_yield();
        break;
    case COSCHED_WAIT_YIELD:
        sched_yield();
        break;
    case COSCHED_WAIT_BLOCK:
        spin_then_nap(wait);
        break;
    }
}

int cosched_wait_request(MPI_Request *request, MPI_Status *status) {
    struct cosched_wait wait = {0};
    if (!cosched_shim_waits())
        return cosched_pmpi.Wait(request, status);
    for (;;) {
        int flag = 0;
        int rc = cosched_pmpi.Test(request, &flag, status);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        cosched_wait_turn(&wait, true);
    }
}
