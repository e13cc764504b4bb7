#define _GNU_SOURCE
#include "wait/wait.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "wait/idle.h"
#include "status/shadow.h"
#include "wait/sharing.h"

/* The kernel adds its timer slack, 50 us for most: shorter would not be. */
#define NAP_NS 20000

/* A wait that is over after fewer turns is not worth a look at the clock, unless it begins
 * with a sleep: two looks cost a fifth of a message in shared memory. How long so many turns
 * take depends on the library and its transport, so after a wait that was over in a
 * microsecond the next one may take more of them. */
#define TURNS_BEFORE_CLOCK 4u
#define TURNS_IF_SHORT 16u
#define SHORT_NS 1000u

static _Thread_local uint32_t turns_before_clock = TURNS_BEFORE_CLOCK;

/* Spin first: a message that is under way comes sooner than a sleeper wakes up. */
static bool spin_then_nap(const struct cosched_wait *wait) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (cosched_shim.wait.spin_ns != 0 &&
        (wait->since_ns == 0 ||
         cosched_clock_ns(CLOCK_MONOTONIC) - wait->since_ns < cosched_shim.wait.spin_ns))
        return false;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    cosched_shim_count(&cosched_shim.counters->naps, 1);
    return true;
}

bool cosched_wait_turn(struct cosched_wait *wait) {
    if (!wait->began) {
        wait->began = true;
        cosched_shim_count(&cosched_shim.counters->waits, 1);
    }
    wait->turns++;
    if (wait->since_ns == 0 && (wait->turns == turns_before_clock ||
                                !cosched_is_scheduled(&cosched_shim.link)))
        wait->since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    if (cosched_linger(&cosched_shim.link, &wait->spell) != 0)
        return true;
    switch (cosched_shim.wait.kind) {
    case COSCHED_WAIT_SPIN:
        return false;
    case COSCHED_WAIT_YIELD:
        syscall(SYS_sched_yield);
        return true;
    case COSCHED_WAIT_AUTO:
        return cosched_sharing(wait->turns) && spin_then_nap(wait);
    case COSCHED_WAIT_BLOCK:
        return spin_then_nap(wait);
    }
    return false;
}

void cosched_wait_end(struct cosched_wait *wait) {
    uint64_t now;
    if (wait->since_ns == 0)
        return;
    now = cosched_clock_ns(CLOCK_MONOTONIC);
    turns_before_clock = now - wait->since_ns < SHORT_NS ? TURNS_IF_SHORT : TURNS_BEFORE_CLOCK;
    cosched_shim_count(&cosched_shim.counters->waited_ns, now - wait->since_ns);
    cosched_shadow_waited(now);
}

int cosched_wait_request(MPI_Request *request, MPI_Status *status) {
    struct cosched_wait wait = {0};
    int rc, flag = 0;
    if (!cosched_shim_waits(COSCHED_IDLES_MOSTLY))
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.Wait(request, status));
    else {
        for (;;) {
            rc = cosched_pmpi.Test(request, &flag, status);
            if (rc != MPI_SUCCESS || flag)
                break;
            cosched_wait_turn(&wait);
        }
        cosched_wait_end(&wait);
    }
    return rc;
}
