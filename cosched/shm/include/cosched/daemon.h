/*
 * cosched/daemon.h - gives the daemons their side of the regions, as far as Python cannot have
 * it: atomics, a futex, a timer descriptor.
 */
#ifndef COSCHED_DAEMON_H
#define COSCHED_DAEMON_H

#include <stdint.h>

#include "layout.h"

/* cdef: begin */
/* Marks a new region of the given kind and size ready for others to attach. */
void cosched_header_publish(struct cosched_header *header, uint32_t kind, uint64_t bytes);

/* Checks a region that was attached. Returns 0, -EPROTO (magic, kind or size),
 * -EPROTONOSUPPORT (ABI) or -EAGAIN (not ready yet). */
int cosched_header_check(const struct cosched_header *header, uint32_t kind, uint64_t bytes);

/* Sets the heartbeat to now. */
void cosched_beat(struct cosched_heartbeat *heartbeat);

/* Stores (epoch << 1) | scheduled and wakes the tasks that sleep on it. */
void cosched_status_publish(struct cosched_status *status, uint64_t epoch, int scheduled);

/* Stores whether another job waits for this job's CPUs. */
void cosched_status_contend(struct cosched_status *status, int contended);

/* Returns (epoch << 1) | scheduled. */
uint64_t cosched_status_read(const struct cosched_status *status);

/* Takes a request from the ring. Returns 1, or 0 if the ring is empty. */
int cosched_request_take(struct cosched_ring *ring, uint32_t *request, uint32_t *slot,
                         uint64_t *epoch);

/* Puts a request into the ring. Returns 0 or -ENOBUFS. */
int cosched_request_post(struct cosched_ring *ring, uint32_t request, uint32_t slot,
                         uint64_t epoch);

/* Writes orders for the timer daemon. For the scheduler daemon. */
void cosched_orders_give(struct cosched_timer_orders *orders, uint64_t slice_ns,
                         uint64_t deadline_ns, uint32_t align, uint32_t idle);

/* Copies the orders. If the writer died half-way, the copy's generation is odd. For the timer
 * daemon. */
void cosched_orders_read(const struct cosched_timer_orders *orders,
                         struct cosched_timer_orders *copy);

/* Opens a timer on CLOCK_REALTIME (realtime) or CLOCK_MONOTONIC. Returns its descriptor or
 * -errno. */
int cosched_timer_open(int realtime);

/* Sets the timer to an absolute time; 0 disarms it. A timer on CLOCK_REALTIME also becomes
 * readable when that clock is set. Returns 0 or -errno. */
int cosched_timer_set(int fd, uint64_t at_ns);

/* Reads a timer whose descriptor is readable. Returns 1 if it expired and 0 if it did not.
 * Returns -ECANCELED if the clock was set: compute the time again. Otherwise -errno. */
int cosched_timer_expired(int fd);
/* cdef: end */

#endif
