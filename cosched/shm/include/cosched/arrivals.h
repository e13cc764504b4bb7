/*
 * cosched/arrivals.h - sleeps until data arrives on one of the process's connections.
 *
 * The MPI library has the connections to other nodes and reads them when it is called. A task
 * that sleeps between two calls wakes up as soon as one of them can be read, or has room again
 * for a message that is being sent. Messages within the node come through shared memory, and
 * other networks have no descriptors: for these the limit of the sleep counts alone.
 */
#ifndef COSCHED_ARRIVALS_H
#define COSCHED_ARRIVALS_H

#include <stdint.h>

/* cdef: begin */
/* The connections of one process. Zero-initialised: none are watched. */
struct cosched_arrivals {
    int32_t epoll;        /* watches the connections; 0: not made yet, -1: it cannot be used */
    int32_t proof;        /* a descriptor that only this epoll watches: the program may close
                           * descriptors and open others under their numbers */
    uint32_t connections; /* how many were found */
    uint32_t busy;        /* 1: a thread looks for connections */
    uint64_t look_ns;     /* CLOCK_MONOTONIC: look for new connections then */
    uint64_t interval_ns; /* the time from the last look to that one */
};

/* Sleeps until data arrives, at most limit_ns. Returns 1 if data arrived, 0 if the time is over,
 * or -errno if it cannot sleep so. */
int cosched_arrivals_sleep(struct cosched_arrivals *arrivals, uint64_t limit_ns);

/* Closes the descriptors. */
void cosched_arrivals_close(struct cosched_arrivals *arrivals);
/* cdef: end */

#endif
