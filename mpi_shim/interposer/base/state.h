/*
 * state.h - holds the state of the shim in this process: whether it takes part, how the task's
 * status travels, how the task waits, and its link to the scheduler daemon.
 */
#ifndef COSCHED_STATE_H
#define COSCHED_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pmpi.h"
#include "cosched/environment.h"
#include "cosched/spin_or_sleep.h"
#include "cosched/task.h"

enum cosched_state_mode {
    COSCHED_STATE_UNKNOWN = 0, /* no MPI call so far */
    COSCHED_STATE_BROKEN,      /* the MPI library cannot be used */
    COSCHED_STATE_ASIDE,       /* not a rank of this MPI: every call goes to the next definition */
    COSCHED_STATE_PASSIVE,     /* takes no part: every call goes to the library unchanged */
    COSCHED_STATE_ACTIVE
};

/* In which of its waits the library yields the CPU, which lets the shim act (library_yields.h). */
enum cosched_yields { COSCHED_YIELDS_NEVER = 0, COSCHED_YIELDS_MOSTLY, COSCHED_YIELDS_ALWAYS };

struct cosched_state {
    enum cosched_state_mode mode;
    /* Set by the environment alone, whether a daemon answers or not: it changes what travels,
     * so all ranks of a job must agree. */
    enum cosched_carrier carrier;
    bool announced; /* a daemon of this node was informed when the process began */
    struct cosched_wait_policy wait;
    enum cosched_yields yields;
    struct cosched_link link;
};

extern struct cosched_state cosched_state;

/* The COSCHED_* variables, as they were at the first MPI call. */
extern struct cosched_environment cosched_state_environment;

/* Finds the MPI library and reads the environment, once. Returns the mode. */
enum cosched_state_mode cosched_state_start(void);

/* Reports that a call cannot be served by this library. Returns MPI's error. */
int cosched_state_refuse(const char *call);

static inline enum cosched_state_mode cosched_state_mode(void) {
    enum cosched_state_mode mode = __atomic_load_n(&cosched_state.mode, __ATOMIC_ACQUIRE);
    return __builtin_expect(mode != COSCHED_STATE_UNKNOWN, 1) ? mode : cosched_state_start();
}

/* The same as cosched_is_scheduled and cosched_is_contended, inline: each message asks. */
static inline int cosched_state_is_scheduled(void) {
    return cosched_region_scheduled(cosched_link_region(&cosched_state.link));
}

static inline bool cosched_state_is_contended(void) {
    return cosched_region_contended(cosched_link_region(&cosched_state.link)) != 0;
}

/* Whether status bytes travel in front of the messages. */
static inline bool cosched_state_uses_prefix(void) {
    return __builtin_expect(cosched_state.carrier == COSCHED_CARRIER_PREFIX, 0);
}

#endif
