/*
 * cosched/ring.h - passes requests of tasks to the daemon by a ring: many producers, one
 * consumer, no waiting; a full ring loses requests.
 *
 * A cell is one 64-bit word, so a single compare-and-swap publishes a request. A producer that
 * is killed at any instruction leaves either an empty cell or a whole request, never a cell that
 * is claimed and not filled.
 *
 *   empty at position p:  (p / CELLS) << 1         the lap number prevents the ABA problem
 *   full:                 (payload << 1) | 1       payload below 2^63
 *
 * A producer replaces the empty word at the tail by its payload and then moves the tail. A
 * producer that finds the tail behind moves it on. The consumer empties the head cell for the
 * next lap. If the ring is full, the request is dropped and counted: requests are hints, and a
 * task never waits for a daemon.
 *
 * The consumer relies on the cell words alone: `head` is its own. A task that overwrites `tail`
 * loses the requests of its own job and harms no other job.
 */
#ifndef COSCHED_RING_H
#define COSCHED_RING_H

#include <errno.h>

#include "layout.h"

static inline uint64_t cosched_ring_empty(uint64_t position) {
    return (position / COSCHED_RING_CELLS) << 1;
}

/* Payload: request in bits 0-7, slot in 8-23, low 32 bits of the epoch in 24-55. */
static inline uint64_t cosched_request_pack(uint32_t request, uint32_t slot, uint64_t epoch) {
    return (uint64_t)(request & 0xffu) | ((uint64_t)(slot & 0xffffu) << 8) |
           ((epoch & UINT64_C(0xffffffff)) << 24);
}

/* Returns 0, or -ENOBUFS if the ring is full or too contended (counted in `dropped`). */
static inline int cosched_ring_post(struct cosched_ring *ring, uint64_t payload) {
    for (int attempt = 0; attempt < 2 * COSCHED_RING_CELLS; attempt++) {
        uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
        uint64_t *cell = &ring->cells[tail % COSCHED_RING_CELLS];
        uint64_t expected = cosched_ring_empty(tail);
        uint64_t next = tail;
        if ((int64_t)(tail - head) >= COSCHED_RING_CELLS)
            break; /* a whole lap is in the ring: full */
        if (__atomic_compare_exchange_n(cell, &expected, (payload << 1) | 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            __atomic_compare_exchange_n(&ring->tail, &next, tail + 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
            return 0;
        }
        /* The cell is not empty for this lap. The head was read before the cell, so the request
         * of the last lap had left it: the position is taken, and the tail may move past it. */
        __atomic_compare_exchange_n(&ring->tail, &next, tail + 1, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&ring->dropped, 1, __ATOMIC_RELAXED);
    return -ENOBUFS;
}

/* Returns 1 and sets *payload, or returns 0 if the ring is empty. For the consumer only. */
static inline int cosched_ring_take(struct cosched_ring *ring, uint64_t *payload) {
    uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    uint64_t *cell = &ring->cells[head % COSCHED_RING_CELLS];
    uint64_t word = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    if ((word & 1) == 0)
        return 0;
    *payload = word >> 1;
    __atomic_store_n(cell, cosched_ring_empty(head + COSCHED_RING_CELLS), __ATOMIC_RELEASE);
    __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
    return 1;
}

#endif
