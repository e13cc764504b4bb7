/*
 * shadow.h - sends the status beside the messages (the carrier "shadow").
 *
 * Nothing is added to a message. A task whose status has changed sends it to each peer before
 * the next message to that peer: one byte in a communicator of the shim's own. A scheduled
 * receiver does not look. An unscheduled receiver reads the status bytes, and so has for each
 * peer the status of its last message. A peer that has sent no status counts as scheduled, as
 * a task without a daemon does.
 *
 * The paper's byte gives the status with each message (section 2.2.2). The shadow covers
 * collectives and one-sided calls, too. Before one of them a task sends its status to the ranks
 * that it may wait for, its partners (cosched_join_partner).
 *
 * A message may overtake the status that was sent just before it. Then the message is judged by
 * the status before, and the next one by the new status. Accepted.
 */
#ifndef COSCHED_SHADOW_H
#define COSCHED_SHADOW_H

#include "base/state.h"
#include "status/comms.h"

struct cosched_shadow {
    bool on; /* every rank has joined */
    int size;
    MPI_Comm comm; /* the communicator of the shims (together.h) */
    /* One entry a rank of MPI_COMM_WORLD: 1 scheduled, 0 not. With several threads a peer may
     * get a status one message late, or two in the wrong order. The next one corrects it. */
    unsigned char *sent;     /* this task's status, as the peer has it */
    unsigned char *received; /* the peer's status, as this task has it */
    int outdated;            /* to how many peers the last status sent was "unscheduled" */
    int *status_sent;        /* how many status bytes went to each rank */
    int bytes_received;      /* how many this rank has received from all */
};

extern struct cosched_shadow cosched_shadow;

/* After MPI_Init: finds the other ranks. Returns whether there is memory for their status. */
bool cosched_shadow_prepare(void);

/* Once every rank has joined: sends and reads statuses from now on. */
void cosched_shadow_start(void);

/* At the beginning of MPI_Finalize: sends no more. */
void cosched_shadow_stop(void);

/* Reads the status bytes that have arrived. Returns whether that worked. */
bool cosched_shadow_read(void);

/* In the end: frees the memory. */
void cosched_shadow_forget(void);

/* The rare paths behind the inline functions below. */
#define RARE __attribute__((cold))

/* Sends this task's status to a rank of MPI_COMM_WORLD, if it has changed since the last time.
 * A negative rank is no peer. */
RARE void cosched_shadow_send(int world_rank);
RARE void cosched_shadow_send_to(MPI_Comm comm, int dest);
RARE void cosched_shadow_send_to_partners(const struct cosched_comm *record);

/* Reads the status bytes, and traps a message from this rank if its task is scheduled. */
RARE void cosched_shadow_trap(int world_rank);
RARE void cosched_shadow_trap_from(MPI_Comm comm, int source);
RARE void cosched_shadow_trap_from_partners(const struct cosched_comm *record);
#undef RARE

/* Whether a peer may lack this task's status. Mostly the task is scheduled, and all its peers
 * have that. */
static inline bool cosched_shadow_may_differ(void) {
    return !cosched_state_is_scheduled() ||
           __atomic_load_n(&cosched_shadow.outdated, __ATOMIC_RELAXED) != 0;
}

/* Before a persistent request to this rank is started. */
static inline void cosched_shadow_before_start(int world_rank) {
    if (cosched_shadow_may_differ())
        cosched_shadow_send(world_rank);
}

/* Before a message to `dest` is sent. Returns whether its status travels at all. */
static inline bool cosched_shadow_before_send(MPI_Comm comm, int dest) {
    if (!cosched_shadow.on || dest < 0)
        return false;
    if (cosched_shadow_may_differ())
        cosched_shadow_send_to(comm, dest);
    return true;
}

/* After a message from `source` was received. */
static inline void cosched_shadow_after_receive(MPI_Comm comm, int source) {
    if (cosched_shadow.on && !cosched_state_is_scheduled())
        cosched_shadow_trap_from(comm, source);
}

/* Before and after a collective, or a one-sided call that waits. */
static inline void cosched_shadow_before_collective(MPI_Comm comm) {
    cosched_task_count(&cosched_state.link.counters->collectives, 1);
    if (cosched_shadow.on && cosched_shadow_may_differ())
        cosched_shadow_send_to_partners(cosched_comms_find(comm));
}

static inline void cosched_shadow_after_collective(MPI_Comm comm) {
    if (cosched_shadow.on && !cosched_state_is_scheduled())
        cosched_shadow_trap_from_partners(cosched_comms_find(comm));
}

#endif
