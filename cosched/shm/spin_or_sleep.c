#define _GNU_SOURCE
#include "cosched/spin_or_sleep.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "cosched/futex.h"
#include "cosched/sharing.h"
#include "cosched/spin_limit.h"

/* How long an unscheduled task sleeps between two tests. */
#define PAUSE_NS 1000000L

/* A scheduled task whose CPU another job waits for spins as long as its earlier waits suggest
 * (spin_limit.h), and then naps. Data on a connection ends a nap. A message in shared memory
 * does not: it waits for CONTENDED_NAP_NS, or for an eighth of the wait if that is longer. The
 * task reads the clock once in TESTS_PER_LOOK tests. */
#define CONTENDED_NAP_NS 100000L
#define NAP_PART 8u
#define TESTS_PER_LOOK 4u

/* A nap under COSCHED_WAIT. The kernel adds its timer slack, 50 us for most processes, so a
 * shorter nap would take as long. */
#define POLICY_NAP_NS 20000L

/* Two readings of the clock cost a fifth of a message in shared memory. A wait therefore reads
 * it first after some turns, or when it begins with a sleep. The time of a turn depends on the
 * MPI library: if a wait ended within SHORT_NS after that reading, the next one may take more
 * turns. */
#define TURNS_BEFORE_CLOCK 4u
#define TURNS_AFTER_SHORT_WAIT 16u
#define SHORT_NS 1000u

static _Thread_local uint32_t turns_before_clock = TURNS_BEFORE_CLOCK;

static _Thread_local struct cosched_spin_limit spin_limit;

/* Sleeps until the status word changes, at most limit_ns. Returns the time that passed. */
static uint64_t sleep_on_status(struct cosched_job_region *region, uint64_t word, long limit_ns) {
    const struct timespec limit = {.tv_nsec = limit_ns};
    const int error = errno; /* the program's: it must not see that the sleep timed out */
    uint64_t before = cosched_clock_ns(CLOCK_MONOTONIC);
    cosched_futex_wait(&region->status.word, word, &limit);
    errno = error;
    return cosched_clock_ns(CLOCK_MONOTONIC) - before;
}

static int pause_in(struct cosched_link *link, struct cosched_job_region *region) {
    uint64_t word = __atomic_load_n(&region->status.word, __ATOMIC_ACQUIRE);
    if ((word & 1) != 0 || cosched_is_stale(region))
        return 0;
    __atomic_store_n(&link->looked, 1, __ATOMIC_RELAXED);
    cosched_task_count(&link->counters->paused_ns, sleep_on_status(region, word, PAUSE_NS));
    cosched_task_count(&link->counters->pauses, 1);
    return 1;
}

int cosched_sleep_unscheduled(struct cosched_link *link) {
    struct cosched_job_region *region = cosched_link_region(link);
    return region != NULL && pause_in(link, region);
}

/* Sleeps until data arrives. Without connections that can be watched, it sleeps for the time of
 * the shortest nap. */
static void nap(struct cosched_link *link, struct cosched_job_region *region, uint64_t word,
                uint64_t waited_ns) {
    uint64_t limit_ns = CONTENDED_NAP_NS;
    if (link->arrivals.connections != 0 && waited_ns / NAP_PART > limit_ns)
        limit_ns = waited_ns / NAP_PART < PAUSE_NS ? waited_ns / NAP_PART : PAUSE_NS;
    if (cosched_arrivals_sleep(&link->arrivals, limit_ns) < 0)
        (void)sleep_on_status(region, word, CONTENDED_NAP_NS);
}

/* Sleeps if the task is unscheduled, or if it has waited long while another job waits for its
 * CPU: then its peer is not running, and the other job can use the CPU. */
static int leave_cpu(struct cosched_link *link, struct cosched_wait *wait) {
    struct cosched_job_region *region = cosched_link_region(link);
    if (region == NULL)
        return 0;
    if (pause_in(link, region)) {
        wait->contended_ns = 0; /* once scheduled, it spins again */
        return 1;
    }
    if (++wait->tests % TESTS_PER_LOOK != 0 || !cosched_region_contended(region))
        return 0;
    uint64_t now = cosched_clock_ns(CLOCK_MONOTONIC);
    if (wait->contended_ns == 0)
        wait->contended_ns = now;
    if (wait->since_ns == 0)
        wait->since_ns = now;
    if (now - wait->contended_ns < cosched_spin_limit_ns(&spin_limit))
        return 0;
    uint64_t word = __atomic_load_n(&region->status.word, __ATOMIC_ACQUIRE);
    if ((word & 1) == 0 || cosched_is_stale(region))
        return 0;
    wait->tests = TESTS_PER_LOOK - 1; /* from now on one test between two naps */
    nap(link, region, word, now - wait->contended_ns);
    cosched_task_count(&link->counters->naps, 1);
    return 1;
}

/* Spins first: a message that is under way arrives sooner than a sleeping task wakes up. */
static int spin_then_nap(struct cosched_link *link, uint64_t spin_ns,
                         const struct cosched_wait *wait) {
    const struct timespec nap = {.tv_nsec = POLICY_NAP_NS};
    const int error = errno; /* the program's */
    if (spin_ns != 0 && (wait->since_ns == 0 ||
                         cosched_clock_ns(CLOCK_MONOTONIC) - wait->since_ns < spin_ns))
        return 0;
    /* The bare call is no point at which the thread can be cancelled: the library may hold its
     * locks. */
    (void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL);
    errno = error;
    cosched_task_count(&link->counters->naps, 1);
    return 1;
}

int cosched_pass_time(struct cosched_link *link, const struct cosched_wait_policy *policy,
                      struct cosched_wait *wait) {
    if (wait->turns++ == 0)
        cosched_task_count(&link->counters->waits, 1);
    if (wait->since_ns == 0 &&
        (wait->turns == turns_before_clock || !cosched_is_scheduled(link)))
        wait->since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    if (policy->kind != COSCHED_WAIT_BUSY && leave_cpu(link, wait))
        return 1;
    switch (policy->kind) {
    case COSCHED_WAIT_YIELD:
        /* Not sched_yield(): the interposer replaces it. */
        (void)syscall(SYS_sched_yield);
        return 1;
    case COSCHED_WAIT_AUTO:
        return cosched_sharing_verdict(link, wait->turns) &&
               spin_then_nap(link, policy->spin_ns, wait);
    case COSCHED_WAIT_BLOCK:
        return spin_then_nap(link, policy->spin_ns, wait);
    default:
        return 0;
    }
}

uint64_t cosched_count_wait(struct cosched_link *link, const struct cosched_wait *wait) {
    uint64_t now;
    if (wait->since_ns == 0) {
        if (cosched_is_contended(link))
            cosched_spin_limit_note(&spin_limit, 0);
        return 0;
    }
    now = cosched_clock_ns(CLOCK_MONOTONIC);
    turns_before_clock =
        now - wait->since_ns < SHORT_NS ? TURNS_AFTER_SHORT_WAIT : TURNS_BEFORE_CLOCK;
    cosched_task_count(&link->counters->waited_ns, now - wait->since_ns);
    if (wait->contended_ns != 0)
        cosched_spin_limit_note(&spin_limit, now - wait->contended_ns);
    return now;
}
