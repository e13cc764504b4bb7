/*
 * arrays.c - distributes the arrays of a job in blocks of rows, and moves them when it changes its size.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "before_loop.h"
#include "blocks.h"
#include "job.h"

/* Moves rows between blocks of one array. Collective. */
static int move_one(struct cosched_job *job, const struct cosched_block *block, int32_t after,
                    struct cosched_move *move, const char *call) {
    char why[COSCHED_WHY_BYTES] = "";
    const MPI_Comm comm = job->worlds.comm;
    uint32_t *order = calloc((size_t)after, sizeof *order);
    int error;
    if (order == NULL)
        return cosched_job_misuse(job, call, "no memory");
    for (int32_t i = 0; i < after; i++)
        order[i] = (uint32_t)i;
    error = cosched_blocks_agree(comm, block, 1, order, after, move, why);
    free(order);
    if (error != 0)
        return cosched_job_fail(job, error, call, why);
    return 0;
}

static const char SCATTER_CALL[] = "cosched_job_scatter";

int cosched_job_scatter(struct cosched_job *job, struct cosched_block *block, const void *whole,
                        int64_t rows, int64_t row_bytes) {
    struct cosched_before_loop made = {COSCHED_SCATTER, row_bytes};
    struct cosched_block all = {.row_bytes = row_bytes};
    struct cosched_move *move;
    int32_t has_data = whole != NULL;
    int error;
    memset(block, 0, sizeof *block); /* in each case, so that the program may loop over its rows */
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (job->joined) {
        error = cosched_before_loop_take(job, SCATTER_CALL, &made, NULL);
        block->row_bytes = made.bytes;
        return error;
    }
    if (job->looped)
        return cosched_job_misuse(job, SCATTER_CALL, "call it before the loop: ranks that join need it");
    if (rows < 0 || row_bytes < 0)
        return cosched_job_misuse(job, SCATTER_CALL, "an array has 0 rows or more, of 0 bytes or more");
    if ((error = cosched_before_loop_keep(job, &made, NULL)) != 0)
        return error;
    MPI_Bcast(&has_data, 1, MPI_INT32_T, 0, job->worlds.comm);
    /* Only the addresses of rows that exist are read: without data there are none to move. */
    all.data = (void *)(uintptr_t)(whole != NULL ? whole : block);
    all.rows = cosched_rank_of(job->worlds.comm) == 0 ? rows : 0;
    move = calloc(1, sizeof *move);
    if (move == NULL)
        return cosched_job_misuse(job, SCATTER_CALL, "no memory");
    error = move_one(job, &all, cosched_size_of(job->worlds.comm), move, SCATTER_CALL);
    if (error == 0) {
        if (has_data)
            cosched_blocks_move(move, whole);
        else
            memset(move->fresh, 0, (size_t)(cosched_blocks_wanted(move) * move->row_bytes));
        cosched_blocks_replace(block, move);
    }
    cosched_blocks_free(move, 1);
    return error;
}

/* --- moving ----------------------------------------------------------------------------------- */

int cosched_job_gather(struct cosched_job *job, const struct cosched_block *block, void *whole) {
    static const char call[] = "cosched_job_gather";
    struct cosched_move *move;
    int error;
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (job->changing)
        return cosched_job_misuse(job, call, "the job was resized: call cosched_job_redistribute before");
    move = calloc(1, sizeof *move);
    if (move == NULL)
        return cosched_job_misuse(job, call, "no memory");
    move->fresh = cosched_rank_of(job->worlds.comm) == 0 ? whole : NULL;
    error = move_one(job, block, 1, move, call);
    if (error == 0)
        cosched_blocks_move(move, block->data);
    if (move->fresh == whole)
        move->fresh = NULL; /* the caller's */
    cosched_blocks_free(move, 1);
    return error;
}

/* Moves all arrays; the ranks of the union are those of `order` afterwards. */
static int move_all(struct cosched_job *job, struct cosched_block *blocks, int32_t count,
                    uint64_t *moved_bytes) {
    static const char call[] = "cosched_job_redistribute";
    const struct cosched_plan *plan = &job->one.welcome.plan;
    const MPI_Comm comm = job->changing ? job->one.comm : job->worlds.comm;
    const int32_t after = job->changing ? (int32_t)plan->after : cosched_size_of(comm);
    char why[COSCHED_WHY_BYTES] = "";
    struct cosched_move *moves = calloc((size_t)count + 1, sizeof *moves);
    uint32_t *same = calloc((size_t)after, sizeof *same);
    int error;
    if (moves == NULL || same == NULL) {
        free(moves);
        free(same);
        return cosched_job_misuse(job, call, "no memory");
    }
    for (int32_t i = 0; i < after; i++)
        same[i] = (uint32_t)i;
    for (int32_t i = 0; i < count; i++)
        moves[i].own = &blocks[i];
    error = cosched_blocks_agree(comm, blocks, count, job->changing ? plan->order : same, after,
                                 moves, why);
    if (job->changing)
        cosched_job_take_phase(job, &job->one.welcome.times.start_ns);
    for (int32_t i = 0; i < count && error == 0; i++) {
        cosched_blocks_move(&moves[i], blocks[i].data);
        *moved_bytes += cosched_blocks_moved_bytes(&moves[i]);
        cosched_blocks_replace(&blocks[i], &moves[i]);
    }
    cosched_blocks_free(moves, count);
    free(same);
    return error == 0 ? 0 : cosched_job_fail(job, error, call, why);
}

int cosched_job_redistribute(struct cosched_job *job, struct cosched_block *blocks,
                             int32_t count) {
    uint64_t moved_bytes = 0;
    int error;
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (count < 0 || (count > 0 && blocks == NULL))
        return cosched_job_misuse(job, "cosched_job_redistribute", "there are no blocks");
    error = move_all(job, blocks, count, &moved_bytes);
    return error != 0 ? error : cosched_job_finish(job, moved_bytes);
}
