/*
 * shadow.h - the sender's status out of band.
 *
 * Nothing is added to a message. A task whose status has changed tells so to each peer
 * before the next message that it sends there: one byte in a communicator of the shim's
 * own. Whoever receives a message while scheduled does not look; whoever is unscheduled
 * reads what it was told and knows of each peer what its status was when it last sent.
 * Before anybody tells otherwise, he is taken for scheduled, as a task without a daemon is.
 *
 * The paper's byte says the same of each single message (section 2.2.2). This one says it
 * of collectives and one-sided calls, too: who enters one tells those it may be waiting for,
 * the ranks at a distance of a power of two, which is how collectives are made, and of a
 * remote group the rank opposite.
 *
 * A message may overtake what was told just before it: then it is judged by the status
 * before, and the next one by the new status. Accepted.
 */
#ifndef COSCHED_SHADOW_H
#define COSCHED_SHADOW_H

#include "status/peers.h"
#include "base/state.h"

struct cosched_shadow {
    bool on; /* every rank has joined */
    int size;
    MPI_Comm comm;
    /* One entry a rank of MPI_COMM_WORLD: 1 scheduled, 0 not. Threads may race for them: a
     * peer is told one message late, or hears of a switch and of the next one in the wrong
     * order; it is set right by the one after. */
    unsigned char *told;
    unsigned char *heard;
    int behind; /* how many of them were last told that this task is not scheduled */
};

extern struct cosched_shadow cosched_shadow;

/* After MPI_Init, collective: every rank of MPI_COMM_WORLD joins. Ranks without the shim
 * never do; then, after a deadline, the others go on without it. Open MPI does not get over
 * that: it hangs when such a job makes communicators. If one rank has too little memory for
 * it, no rank uses it. */
void cosched_shadow_open(void);

/* At the beginning of MPI_Finalize, collective: what was told is received, so that nothing
 * is left over. */
void cosched_shadow_close(void);

/* After a wait of some microseconds and after some calls, with CLOCK_MONOTONIC: now and then
 * reads what it was told, since a task that is always scheduled has no other reason to. */
void cosched_shadow_waited(uint64_t now_ns);

/* The rare paths behind the calls below, which is what the compiler is told. */
#define RARE __attribute__((cold))
RARE void cosched_shadow_tell(int world_rank);
RARE void cosched_shadow_tell_dest(MPI_Comm comm, int dest);
RARE void cosched_shadow_tell_partners(const struct cosched_peers *peers);
RARE void cosched_shadow_trap(int world_rank);
RARE void cosched_shadow_trap_source(MPI_Comm comm, int source);
RARE void cosched_shadow_trap_partners(const struct cosched_peers *peers);
#undef RARE

/* Whether there may be anybody to tell: mostly the task is scheduled, and everybody knows. */
static inline bool cosched_shadow_has_news(void) {
    return !cosched_shim_scheduled() ||
           __atomic_load_n(&cosched_shadow.behind, __ATOMIC_RELAXED) != 0;
}

static inline void cosched_shadow_tells(int world_rank) {
    if (cosched_shadow_has_news())
        cosched_shadow_tell(world_rank);
}

/* Before a message to `dest` leaves. Whether its status travels at all. */
static inline bool cosched_shadow_sends(MPI_Comm comm, int dest) {
    if (!cosched_shadow.on || dest < 0)
        return false;
    if (cosched_shadow_has_news())
        cosched_shadow_tell_dest(comm, dest);
    return true;
}

/* A message from `source` has arrived. */
static inline void cosched_shadow_received(MPI_Comm comm, int source) {
    if (cosched_shadow.on && !cosched_shim_scheduled())
        cosched_shadow_trap_source(comm, source);
}

/* Before and after a call for which all the ranks of a communicator meet. */
static inline void cosched_shadow_meets(MPI_Comm comm) {
    if (cosched_shadow.on && cosched_shadow_has_news())
        cosched_shadow_tell_partners(cosched_peers_of(comm));
}

static inline void cosched_shadow_met(MPI_Comm comm) {
    if (cosched_shadow.on && !cosched_shim_scheduled())
        cosched_shadow_trap_partners(cosched_peers_of(comm));
}

#endif
