#include "cosched/spin_limit.h"

/* The limit is chosen again after so many waits. Then each count is halved, so that a program
 * that enters another phase gets another limit within some rounds. */
#define NOTES_PER_CHOICE 64u

_Static_assert(COSCHED_SPIN_BUCKETS == 9, "the literals in the cffi part follow the constant");

/* The upper edge of a bucket. The last limit is the time of a switch. */
static uint64_t edge_ns(uint32_t bucket) {
    uint64_t edge = UINT64_C(1000) << bucket;
    return edge < COSCHED_SPIN_SWITCH_NS ? edge : COSCHED_SPIN_SWITCH_NS;
}

static uint32_t bucket_of(uint64_t wait_ns) {
    uint32_t bucket = 0;
    while (bucket < COSCHED_SPIN_BUCKETS - 1 && wait_ns > edge_ns(bucket))
        bucket++;
    return bucket;
}

/* The waits of the buckets below `spun` end while they spin. The others spin up to the edge below
 * and then cost a switch. Returns the cost of all. */
static uint64_t cost_ns(const struct cosched_spin_limit *seen, uint32_t spun) {
    uint64_t limit = spun == 0 ? 0 : edge_ns(spun - 1);
    uint64_t cost = 0;
    for (uint32_t i = 0; i < COSCHED_SPIN_BUCKETS; i++)
        cost += i < spun ? seen->sums_ns[i] : seen->counts[i] * (limit + COSCHED_SPIN_SWITCH_NS);
    return cost;
}

static void choose(struct cosched_spin_limit *seen) {
    uint32_t best = 0;
    for (uint32_t spun = 1; spun < COSCHED_SPIN_BUCKETS; spun++)
        if (cost_ns(seen, spun) < cost_ns(seen, best))
            best = spun;
    seen->limit_ns = best == 0 ? 0 : edge_ns(best - 1);
    seen->chosen = 1;
    seen->notes = 0;
    for (uint32_t i = 0; i < COSCHED_SPIN_BUCKETS; i++) {
        seen->counts[i] /= 2;
        seen->sums_ns[i] /= 2;
    }
}

void cosched_spin_limit_note(struct cosched_spin_limit *seen, uint64_t wait_ns) {
    uint32_t bucket = bucket_of(wait_ns);
    seen->counts[bucket]++;
    seen->sums_ns[bucket] += wait_ns < UINT32_MAX ? wait_ns : UINT32_MAX;
    if (++seen->notes == NOTES_PER_CHOICE)
        choose(seen);
}

uint64_t cosched_spin_limit_ns(const struct cosched_spin_limit *seen) {
    return seen->chosen ? seen->limit_ns : COSCHED_SPIN_SWITCH_NS;
}
