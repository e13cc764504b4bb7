/*
 * cosched/join.h - joins the ranks of a job whose status travels beside the messages
 * (COSCHED_STATUS=shadow): they get a communicator of the shims.
 *
 * To make one is a collective call, which must not begin if a rank has no shim: the library would
 * wait for that rank, and so would the program's own collective calls. So the ranks agree first,
 * by names that they publish (MPI_Publish_name):
 *
 * - Each rank publishes its own name. Rank 0 looks for all names until its limit, and then
 *   publishes the verdict. The other ranks follow the verdict.
 * - A rank that does not find the name of rank 0 within its limit withdraws its own name, and
 *   looks once more. If rank 0 is there now, it waits for the verdict. Otherwise it goes on
 *   alone: rank 0 can no longer find its name, so the verdict will be "some".
 *
 * Names are unique to the job and its namespace. Without a name service that reaches all ranks
 * they cannot agree; then COSCHED_JOIN decides (environment.h). If a rank has no shim then, the
 * job hangs when it makes communicators. The verdict's port is "all" or "some", that of a rank's
 * name "here".
 *
 * Joining takes two steps: to make the communicator, and to find out whether each rank has the
 * memory that it needs. Either step may still be under way when the limit passes. At the end the
 * ranks try to finish it once more. All ranks make the same calls in the same order.
 *
 * The rules are here for both shims. Each provides the MPI calls (mpi_calls.h), so ranks with the
 * interposer and ranks with the mpi4py wrapper understand each other.
 */
#ifndef COSCHED_JOIN_H
#define COSCHED_JOIN_H

#include <stdint.h>

#include "environment.h"
#include "mpi_calls.h"
#include "task.h"

/* cdef: begin */
enum cosched_join_limits {
    COSCHED_SHADOW_TAG = 1,          /* tag of the messages that carry a status */
    COSCHED_SHADOW_LISTEN_MS = 1000, /* a scheduled task reads its peers' status so often */
    COSCHED_JOIN_MS = 10000,         /* how long a rank waits for the others to join */
    COSCHED_JOIN_LAUNCHED_MS = 60000, /* the same if the daemon schedules the job already: the
                                       * others may be unscheduled on their nodes */
    COSCHED_JOIN_LAST_MS = 1000,     /* how long a rank that gave up waits again at the end */
    COSCHED_JOIN_NAME_BYTES = 512
};

/* A limit on the time that this process runs while it waits. Time in which it was stopped or
 * did not get the CPU does not count, since the others may wait for the same reason. */
struct cosched_join_limit {
    uint64_t left_ns;
    uint64_t last_ns; /* CLOCK_MONOTONIC of the last look */
};

/* limit_ms: UINT64_MAX for no limit. */
void cosched_join_limit_start(struct cosched_join_limit *limit, uint64_t limit_ms);

/* Call it after each test that found nothing. Returns 1 once the time is over. */
int cosched_join_limit_is_over(struct cosched_join_limit *limit);

enum cosched_join_stage {
    COSCHED_JOIN_OUTSIDE,  /* the communicator cannot be used */
    COSCHED_JOIN_ENTERING, /* it is being made */
    COSCHED_JOIN_AGREEING, /* on whether each rank is equipped */
    COSCHED_JOIN_INSIDE    /* every rank has joined */
};

/* One rank among the others. Zero-initialise it. */
struct cosched_join {
    /* Set by the shim. */
    const struct cosched_mpi_calls *mpi;
    void *shim; /* the first argument of these calls */
    const struct cosched_environment *environment;
    struct cosched_link *link;
    uint64_t patience_ms; /* how long this rank waits for the others */
    int32_t rank;         /* in MPI_COMM_WORLD */
    int32_t world;        /* size of MPI_COMM_WORLD */
    uint32_t spawned;     /* 1: other ranks started these (MPI_Comm_spawn) */
    int32_t equipped;     /* 1: this rank has the memory that it needs. Once joined: all have */
    /* Set by the functions below. */
    uint32_t stage; /* enum cosched_join_stage */
    int32_t due;    /* status bytes that were sent to this rank */
};

/* Returns how long a rank waits for the others. announced: 1 if a daemon has scheduled the job
 * since this process began. The wrapper announces nothing: no rank of its job is scheduled
 * before it has joined, so none is kept from joining. */
uint64_t cosched_join_patience_ms(int announced);

/* Joins the other ranks, after MPI_Init. Collective. Returns 1 if every rank has joined and is
 * equipped, so that the status may travel. Otherwise it returns 0, and one rank prints why. */
int cosched_join_open(struct cosched_join *join);

/* At the end, collective: returns whether every rank has joined by now. */
int cosched_join_stop(struct cosched_join *join);

/* After that, collective: receives all status bytes that were sent, and frees the communicator.
 * Gives up at the limit. */
void cosched_join_close(struct cosched_join *join, struct cosched_join_limit *limit);

/* Waits until the call that was begun last is complete. Returns 0 if the limit passes before, or
 * after an error. */
int cosched_join_completes(const struct cosched_join *join, struct cosched_join_limit *limit);

/* Ranks that a collective call may wait for: a rank sends its status to them before the call, and
 * looks at theirs after it. They are the ranks at distances of powers of two, since most
 * collectives are made of such steps, and the opposite rank of a remote group. Returns the rank
 * of partner `index` in a group of `size`, or -1 after the last one. me: this rank in its own
 * group. Partner 0 is the opposite rank, in the rank's own group the rank itself. A rank may come
 * twice. */
int32_t cosched_join_partner(int32_t size, int32_t me, uint32_t index);

/* Returns 1 if a name that one rank publishes reaches the others, as far as the environment
 * shows. Returns 0 if srun serves the PMI itself: the ranks do not find each other's names there. */
int cosched_join_names_reach_all(void);
/* cdef: end */

#endif
