/*
 * cosched/daemon.h - the daemons' side of the regions: what needs atomics, a
 * futex or a timer descriptor and so cannot be written in Python.
 */
#ifndef COSCHED_DAEMON_H
#define COSCHED_DAEMON_H

#include <stdint.h>

#include "layout.h"

/* cdef: begin */
/* Marks a new region of the given kind and size ready for others to attach. */
void cosched_header_publish(struct cosched_header *header, uint32_t kind, uint64_t bytes);

/* 0, or -EPROTO (magic, kind or size), -EPROTONOSUPPORT (ABI), -EAGAIN (not ready yet). */
int cosched_header_check(const struct cosched_header *header, uint32_t kind, uint64_t bytes);

void cosched_beat(struct cosched_heartbeat *heartbeat);

/* Stores (epoch << 1) | scheduled and wakes the waiters that sleep on it. */
void cosched_status_publish(struct cosched_status *status, uint64_t epoch, int scheduled);
/* Tells a scheduled job whether another one waits for its CPUs. */
void cosched_status_contend(struct cosched_status *status, int contended);
uint64_t cosched_status_read(const struct cosched_status *status);

/* 1 with the request taken apart, 0 when the ring is empty. */
int cosched_request_take(struct cosched_ring *ring, uint32_t *request, uint32_t *slot,
                         uint64_t *epoch);
/* 0 or -ENOBUFS. */
int cosched_request_post(struct cosched_ring *ring, uint32_t request, uint32_t slot, uint64_t epoch);

/* Scheduler daemon: new orders for the timer daemon. */
void cosched_orders_give(struct cosched_timer_orders *orders, uint64_t slice_ns,
                         uint64_t deadline_ns, uint32_t align, uint32_t idle);

/* Timer daemon: a consistent copy of the orders. */
void cosched_orders_read(const struct cosched_timer_orders *orders,
                         struct cosched_timer_orders *copy);

/* A timer on CLOCK_REALTIME (realtime) or CLOCK_MONOTONIC: its descriptor or -errno. */
int cosched_timer_open(int realtime);

/* Sets the timer to an absolute time; 0 disarms it. A timer on CLOCK_REALTIME also
 * becomes readable when that clock is set. 0 or -errno. */
int cosched_timer_set(int fd, uint64_t at_ns);

/* After the descriptor became readable: 1 it expired, 0 it did not (yet), -ECANCELED
 * the clock was set: reckon anew, or another -errno. */
int cosched_timer_expired(int fd);
/* cdef: end */

#endif
