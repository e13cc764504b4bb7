/*
 * state.h - what one process of a job knows about itself: whether it takes part, how its
 * status travels, and its link to the scheduler daemon.
 */
#ifndef COSCHED_STATE_H
#define COSCHED_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cosched/task.h"
#include "cosched/waiting.h"
#include "status/copies.h"
#include "base/pmpi.h"

enum cosched_shim_mode {
    COSCHED_SHIM_UNKNOWN = 0, /* no MPI call so far */
    COSCHED_SHIM_BROKEN,      /* the MPI library underneath cannot be used */
    COSCHED_SHIM_PASSIVE,     /* takes no part: every call goes straight through */
    COSCHED_SHIM_ACTIVE
};

/* In which of its waits the library yields, so that the shim gets its turns (idle.h). */
enum cosched_idles { COSCHED_IDLES_NEVER = 0, COSCHED_IDLES_MOSTLY, COSCHED_IDLES_ALWAYS };

struct cosched_shim {
    enum cosched_shim_mode mode;
    /* From the environment alone, never from whether a daemon answered: all ranks of a
     * job must agree on it, since it changes what travels. */
    enum cosched_carrier carrier;
    bool verbose;
    bool announced; /* to a daemon of this node, when the process began */
    struct cosched_wait_policy wait;
    enum cosched_idles idles;
    struct cosched_copies copies;
    struct cosched_link link;
};

extern struct cosched_shim cosched_shim;

/* Finds the MPI library and reads the environment, once; returns the mode. */
enum cosched_shim_mode cosched_shim_start(void);

/* One line on stderr, with COSCHED_VERBOSE=1 alone. */
void cosched_shim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr, for what a user must know. */
void cosched_shim_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A call that cannot be served: one line on stderr, and the error for the caller. */
int cosched_shim_refuse(const char *what);
int cosched_shim_refuse_because(const char *what, const char *why);

static inline enum cosched_shim_mode cosched_shim_mode(void) {
    enum cosched_shim_mode mode = __atomic_load_n(&cosched_shim.mode, __ATOMIC_ACQUIRE);
    return __builtin_expect(mode != COSCHED_SHIM_UNKNOWN, 1) ? mode : cosched_shim_start();
}

/* As cosched_is_scheduled and cosched_is_contended, for the path of each message. */
static inline int cosched_shim_scheduled(void) {
    return cosched_region_scheduled(cosched_link_region(&cosched_shim.link));
}

static inline bool cosched_shim_contended(void) {
    return cosched_region_contended(cosched_link_region(&cosched_shim.link)) != 0;
}

static inline bool cosched_shim_prefixes(void) {
    return __builtin_expect(cosched_shim.carrier == COSCHED_CARRIER_PREFIX, 0);
}

/* Whether the shim waits in place of a blocking call, in which the library yields only if
 * its kind is at least `least`. A task alone on its CPUs leaves the wait to the library; if
 * company comes in its midst, that one wait spins to its end. Accepted: the next does not. */
static inline bool cosched_shim_waits(enum cosched_idles least) {
    return __builtin_expect(cosched_shim.idles < least &&
                                (cosched_shim.wait.kind != COSCHED_WAIT_SPIN ||
                                 cosched_shim_contended()),
                            0);
}

#endif
