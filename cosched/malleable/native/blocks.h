/*
 * blocks.h - moves arrays that are cut into blocks of whole rows, one block a rank. The same as
 * cosched/malleable/blocks.py, for rows that lie one behind the other.
 */
#ifndef COSCHED_MALLEABLE_BLOCKS_H
#define COSCHED_MALLEABLE_BLOCKS_H

#include "cosched/malleable.h"
#include "plan.h"

/* A move of one array, the same in all ranks of a communicator. Rank r has the rows before[r] to
 * before[r + 1] - 1 before it, and after[r] to after_end[r] - 1 after it. */
struct cosched_move {
    MPI_Comm comm;
    int32_t size; /* ranks of the communicator */
    int32_t rank;
    int64_t row_bytes;
    int64_t *before, *after, *after_end;
    struct cosched_block *own; /* this rank's, if the move may replace it; NULL: it stays as it is */
    void *fresh;               /* from malloc: room for this rank's rows after it; may be own->data */
    MPI_Request *receives;     /* room for all of them */
};

/* Agrees on the moves of arrays whose blocks the ranks have, to the ranks of `order`. Collective. Returns
 * 0, or the same -errno in all ranks, with one line: blocks do not fit together, or a rank has no memory.
 * The caller frees the moves in any case. moves: `count` of them, filled with zeros; the caller may have
 * set `own` or `fresh`. An error may leave own->data in another place, with the same rows. */
int cosched_blocks_agree(MPI_Comm comm, const struct cosched_block *blocks, int32_t count,
                         const uint32_t *order, int32_t after, struct cosched_move *moves,
                         char why[COSCHED_WHY_BYTES]);

void cosched_blocks_free(struct cosched_move *moves, int32_t count);

/* Returns the rows that this rank has after a move. */
int64_t cosched_blocks_wanted(const struct cosched_move *move);

/* Carries a move out, into `fresh`. Collective. old: this rank's rows before it. */
void cosched_blocks_move(const struct cosched_move *move, const void *old);

/* Gives a block the rows that a move has brought, and frees its old ones. */
void cosched_blocks_replace(struct cosched_block *block, struct cosched_move *move);

/* Returns the bytes that go from one process to another. */
uint64_t cosched_blocks_moved_bytes(const struct cosched_move *move);

#endif
