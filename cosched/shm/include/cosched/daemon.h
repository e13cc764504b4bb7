/*
 * cosched/daemon.h - the daemons' side of the regions: what needs atomics or a futex
 * and therefore cannot be written in Python.
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

/* Nanoseconds since the last beat. */
uint64_t cosched_beat_age_ns(const struct cosched_heartbeat *heartbeat);

/* Stores (epoch << 1) | scheduled and wakes the waiters that sleep on it. */
void cosched_status_publish(struct cosched_status *status, uint64_t epoch, int scheduled);
uint64_t cosched_status_read(const struct cosched_status *status);

/* 1 with the request taken apart, 0 when the ring is empty. */
int cosched_request_take(struct cosched_ring *ring, uint32_t *request, uint32_t *slot,
                         uint64_t *epoch);
/* 0 or -ENOBUFS. */
int cosched_request_post(struct cosched_ring *ring, uint32_t request, uint32_t slot, uint64_t epoch);

/* Scheduler daemon: new orders for the timer daemon, which is woken to read them. */
void cosched_orders_give(struct cosched_timer_orders *orders, uint64_t slice_ns,
                         uint64_t deadline_ns, uint32_t align, uint32_t idle);

/* Timer daemon: sleeps until the absolute time (CLOCK_REALTIME if realtime, else
 * CLOCK_MONOTONIC; 0: no limit) or until the orders' generation differs from the one
 * given. 0: the time came; 1: new orders or a signal. */
int cosched_orders_wait(struct cosched_timer_orders *orders, uint32_t generation,
                        uint64_t until_ns, int realtime);
uint32_t cosched_orders_generation(const struct cosched_timer_orders *orders);
/* cdef: end */

#endif
