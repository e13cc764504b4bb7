/*
 * cosched/roll.h - calls the roll of a job: finds on which of its nodes a daemon coschedules
 * it.
 *
 * Each rank gives an answer. If one is not present, rank 0 gathers all answers and prints one
 * line. The ranks first find the least of their votes, in the communicator of the shims (join.h).
 * If that is COSCHED_VOTE_GATHER, they gather the answers at rank 0. There are two roll calls:
 * after the ranks have registered in MPI_Init, and at the beginning of MPI_Finalize. Only a
 * node that the job has lost since is absent at the second one.
 *
 * Without that communicator rank 0 reports its own node alone.
 */
#ifndef COSCHED_ROLL_H
#define COSCHED_ROLL_H

#include <stdint.h>

#include "join.h"

/* cdef: begin */
enum cosched_roll_limits {
    COSCHED_ROLL_NODE_BYTES = 63,
    COSCHED_ROLL_LINE_BYTES = 512,
    COSCHED_ROLL_END_S = 30 /* MPI_Abort may return before the launcher ends the process */
};

/* A rank's vote. The ranks take the least of all. */
enum cosched_vote {
    COSCHED_VOTE_SILENT = 0, /* rank 0 lacks the memory for the answers: no line */
    COSCHED_VOTE_GATHER = 1, /* this rank is not present */
    COSCHED_VOTE_PRESENT = 2
};

/* A rank's answer, as it travels: bytes alone. */
struct cosched_answer {
    uint8_t presence; /* enum cosched_presence */
    char node[63];    /* its end may be cut off */
};

/* One roll call. It may still be under way when the limit of MPI_Init passes, and then ends at the
 * end: all ranks make the same calls in the same order. */
enum cosched_roll_stage {
    COSCHED_ROLL_NOT_YET,
    COSCHED_ROLL_VOTING,
    COSCHED_ROLL_GATHERING,
    COSCHED_ROLL_OVER
};

struct cosched_roll_call {
    uint32_t stage; /* enum cosched_roll_stage */
    int32_t vote;   /* enum cosched_vote; in the end the least of all */
    struct cosched_answer own;
    struct cosched_answer *answers; /* at rank 0: one for each rank */
};

/* The roll calls of a rank. Zero-initialise it, and set `join`. */
struct cosched_roll {
    struct cosched_join *join;
    struct cosched_roll_call at_start;
    struct cosched_roll_call at_end;
};

/* After the registration, or when a task begins to wait for memory: this rank's presence (enum
 * cosched_presence). Collective; a second call does nothing. With COSCHED_REQUIRE=all it ends
 * the job if a node is absent. */
void cosched_roll_call(struct cosched_roll *roll, uint32_t presence);

/* At the beginning of MPI_Finalize, collective: the second roll call, and the end of the shims'
 * communicator. If the others take no part for limit_ms (UINT64_MAX: no limit), it gives up. */
void cosched_roll_close(struct cosched_roll *roll, uint64_t limit_ms);

/* Writes the answer of a task. presence: enum cosched_presence. */
void cosched_roll_answer(struct cosched_answer *answer, const char *node, uint32_t presence);

/* Writes one line, without its end, on what `count` ranks have answered. */
void cosched_roll_line(char line[512], const struct cosched_answer *answers, uint64_t count);

/* Waits until the other end of a pipe has read all that was written, at most two seconds. A
 * launcher drops what it has not read when MPI_Abort ends the job. Returns at once for anything
 * but a pipe. */
void cosched_roll_await_reader(int descriptor);
/* cdef: end */

#endif
