/*
 * cosched/roll.h - the roll call of a job: on which of its nodes a daemon coschedules it.
 *
 * Each rank gives an answer. If one is not present, rank 0 gathers all answers and prints one
 * line. The interposer and the mpi4py wrapper call these functions, and make the MPI calls
 * themselves, in the communicator of the shims: MPI_Iallreduce (MPI_MIN) of a vote. If it is
 * COSCHED_VOTE_GATHER, MPI_Igather of the answers at rank 0 follows. There are two roll calls:
 * after the ranks have registered in MPI_Init, and at the beginning of MPI_Finalize. Only a
 * node whose daemon has ended since is absent at the second one.
 *
 * Without that communicator (join.h) rank 0 reports its own node alone.
 */
#ifndef COSCHED_ROLL_H
#define COSCHED_ROLL_H

#include <stdint.h>

#include "task.h"

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

/* Writes the answer of a task. presence: enum cosched_presence. */
void cosched_roll_answer(struct cosched_answer *answer, const char *node, uint32_t presence);

/* Writes one line, without its end, on what `count` ranks have answered. */
void cosched_roll_line(char line[512], const struct cosched_answer *answers, uint64_t count);

/* Returns the presence of a task that is about to end: that of its link, or COSCHED_LEFT if the
 * daemon has gone since and no other has taken over. It waits up to two seconds for one. */
uint32_t cosched_roll_presence_at_end(const struct cosched_link *link);

/* Waits until the other end of a pipe has read all that was written, at most two seconds. A
 * launcher drops what it has not read when MPI_Abort ends the job. Returns at once for anything
 * but a pipe. */
void cosched_roll_await_reader(int descriptor);
/* cdef: end */

#endif
