/*
 * cosched/spin_limit.h - computes how long a wait spins before it sleeps, from the waits before
 * it.
 *
 * A wait that spins to its end costs its length. A wait that sleeps costs the time that it spun
 * before, and a switch to another job and back. Without any knowledge the best limit is the
 * time of a switch: no wait then costs more than twice as much as with foresight. The lengths of
 * earlier waits allow a better limit, between zero and that one: the limit with which these
 * waits would have cost least. For them the factor of two holds as well (Karlin, Manasse, McGeoch
 * and Owicki, "Competitive randomized algorithms for nonuniform problems", 1994).
 */
#ifndef COSCHED_SPIN_LIMIT_H
#define COSCHED_SPIN_LIMIT_H

#include <stdint.h>

/* cdef: begin */
enum cosched_spin_limits {
    COSCHED_SPIN_BUCKETS = 9,      /* waits by length: below 1 us, 2 us, 4 us, ... */
    COSCHED_SPIN_SWITCH_NS = 100000 /* a switch to another job and back: the kernel's part, the
                                     * wake-up, and the refill of the caches */
};

/* The waits of one thread. Zero-initialised: none so far. */
struct cosched_spin_limit {
    uint32_t counts[9]; /* by length; the last one has all waits that are longer than a switch */
    uint32_t notes;     /* waits since the limit was chosen */
    uint32_t chosen;    /* 1: limit_ns is from waits */
    uint64_t limit_ns;
    uint64_t sums_ns[9]; /* the lengths of the counted waits */
};

/* Enters a wait that lasted wait_ns. Older waits count less and less. */
void cosched_spin_limit_note(struct cosched_spin_limit *seen, uint64_t wait_ns);

/* Returns how long the next wait spins before it sleeps. */
uint64_t cosched_spin_limit_ns(const struct cosched_spin_limit *seen);
/* cdef: end */

#endif
