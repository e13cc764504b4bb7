#define _GNU_SOURCE
#include "cosched/sharing.h"

#include <sys/resource.h>

#include "cosched/clock.h"

/* One turn in so many reads the clock. */
#define TURNS_PER_LOOK 64u

/* The CPU counts as shared if the kernel took it away SWITCHES_IF_SHARED times within WINDOW_NS.
 * Kernel threads alone take it away once now and then. */
#define WINDOW_NS UINT64_C(30000000)
#define SWITCHES_IF_SHARED 2

/* How long the verdict "shared" is kept. */
#define KEPT_NS UINT64_C(1000000000)

int cosched_sharing_observe(struct cosched_sharing *seen, uint64_t now_ns, uint64_t switches) {
    if (now_ns < seen->until_ns)
        return 1;
    if (seen->until_ns == 0 && now_ns - seen->from_ns <= WINDOW_NS) {
        if (switches - seen->switches < SWITCHES_IF_SHARED)
            return 0;
        seen->until_ns = now_ns + KEPT_NS;
        return 1;
    }
    *seen = (struct cosched_sharing){.from_ns = now_ns, .switches = switches};
    return 0;
}

int cosched_sharing_verdict(const struct cosched_link *link, uint32_t turn) {
    static _Thread_local struct cosched_sharing seen;
    struct rusage used;
    uint64_t now;
    if (cosched_is_attended(link))
        return cosched_is_contended(link);
    if (turn % TURNS_PER_LOOK != 0)
        return seen.until_ns != 0;
    now = cosched_clock_ns(CLOCK_MONOTONIC_COARSE);
    if (now < seen.until_ns)
        return 1;
    getrusage(RUSAGE_THREAD, &used);
    return cosched_sharing_observe(&seen, now, (uint64_t)used.ru_nivcsw);
}
