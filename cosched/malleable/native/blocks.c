#include "blocks.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A message has at most so many bytes. */
#define PIECE_BYTES INT64_C(4194304)
/* A smaller block has no room for a huge page. */
#define HUGE_PAGE_BYTES 2097152u
/* Sends of a rank that are under way at once. */
enum { SENDS_AT_ONCE = 4, TAG = 1 };

/* What a rank reports of one of its blocks. */
struct shown {
    int64_t rows; /* -1: the block is wrong */
    int64_t row_bytes;
};

struct range {
    int64_t start, stop;
};

static struct range common(struct range one, struct range other) {
    struct range found = {one.start > other.start ? one.start : other.start,
                          one.stop < other.stop ? one.stop : other.stop};
    if (found.stop < found.start)
        found.stop = found.start;
    return found;
}

static struct range before_of(const struct cosched_move *move, int32_t rank) {
    return (struct range){move->before[rank], move->before[rank + 1]};
}

static struct range after_of(const struct cosched_move *move, int32_t rank) {
    return (struct range){move->after[rank], move->after_end[rank]};
}

/* The rows that a rank sends to a peer or gets from it, as bytes of the whole array. */
static struct range bytes_between(const struct cosched_move *move, int32_t from, int32_t to) {
    struct range rows = common(before_of(move, from), after_of(move, to));
    return (struct range){rows.start * move->row_bytes, rows.stop * move->row_bytes};
}

static int64_t piece_at(struct range bytes, int64_t at) {
    return bytes.stop - at < PIECE_BYTES ? bytes.stop - at : PIECE_BYTES;
}

/* Bytes of a block, named by their place in the whole array. */
static uint8_t *byte_at(const void *block, int64_t first_row, const struct cosched_move *move,
                        int64_t at) {
    return (uint8_t *)(uintptr_t)block + (at - first_row * move->row_bytes);
}

static int64_t count_pieces(const struct cosched_move *move) {
    int64_t pieces = 0;
    for (int32_t peer = 0; peer < move->size; peer++) {
        const struct range bytes = bytes_between(move, peer, move->rank);
        if (peer != move->rank)
            pieces += (bytes.stop - bytes.start + PIECE_BYTES - 1) / PIECE_BYTES;
    }
    return pieces;
}

/* --- agreeing --------------------------------------------------------------------------------- */

static struct shown show(const struct cosched_block *block) {
    struct shown shown = {block->rows, block->row_bytes};
    if (block->rows < 0 || block->row_bytes < 0 || (block->rows > 0 && block->data == NULL) ||
        (block->row_bytes > 0 && block->rows > INT64_MAX / block->row_bytes))
        shown.rows = -1;
    return shown;
}

/* Fills the rows of each rank. The ranks of `order` get blocks that differ by one row at most. */
static void fill(struct cosched_move *move, const uint32_t *order, int32_t after) {
    const int64_t total = move->before[move->size];
    int64_t next = 0;
    for (int32_t i = 0; i < after; i++) {
        move->after[order[i]] = next;
        next += total / after + (i < total % after);
        move->after_end[order[i]] = next;
    }
}

static int too_large(int32_t number, char *why) {
    snprintf(why, COSCHED_WHY_BYTES, "array %d: all ranks together have too many rows", number);
    return -EOVERFLOW;
}

static int agree_on_one(struct cosched_move *move, const struct shown *shown, int32_t stride,
                        int32_t number, char *why) {
    int32_t first = -1;
    for (int32_t rank = 0; rank < move->size; rank++) {
        const struct shown each = shown[(int64_t)rank * stride];
        if (each.rows < 0) {
            snprintf(why, COSCHED_WHY_BYTES, "array %d: the block of rank %d is not valid",
                     number, rank);
            return -EINVAL;
        }
        if (first < 0 && (each.rows > 0 || each.row_bytes > 0))
            first = rank;
        if (first >= 0 && (each.rows > 0 || each.row_bytes > 0) &&
            each.row_bytes != shown[(int64_t)first * stride].row_bytes) {
            snprintf(why, COSCHED_WHY_BYTES,
                     "array %d: a row has %lld bytes in rank %d, but %lld in rank %d", number,
                     (long long)each.row_bytes, rank,
                     (long long)shown[(int64_t)first * stride].row_bytes, first);
            return -EINVAL;
        }
        if (each.rows > INT64_MAX - move->before[rank])
            return too_large(number, why);
        move->before[rank + 1] = move->before[rank] + each.rows;
    }
    move->row_bytes = first < 0 ? 0 : shown[(int64_t)first * stride].row_bytes;
    if (move->row_bytes > 0 && move->before[move->size] > INT64_MAX / move->row_bytes)
        return too_large(number, why);
    return 0;
}

static int make_move(struct cosched_move *move, MPI_Comm comm) {
    move->comm = comm;
    MPI_Comm_size(comm, &move->size);
    MPI_Comm_rank(comm, &move->rank);
    move->before = calloc((size_t)move->size + 1, sizeof *move->before);
    move->after = calloc((size_t)move->size, sizeof *move->after);
    move->after_end = calloc((size_t)move->size, sizeof *move->after_end);
    return move->before && move->after && move->after_end ? 0 : -ENOMEM;
}

/* All ranks have the same number of arrays, and memory for the next step. */
static int agree_on_count(MPI_Comm comm, int32_t count, int32_t ready, char *why) {
    int32_t mine[3] = {count, -count, ready}, least[3];
    MPI_Allreduce(mine, least, 3, MPI_INT32_T, MPI_MIN, comm);
    if (least[0] != -least[1]) {
        snprintf(why, COSCHED_WHY_BYTES, "%d arrays in a rank, but %d in another one", least[0],
                 -least[1]);
        return -EINVAL;
    }
    if (least[2] == 0) {
        snprintf(why, COSCHED_WHY_BYTES, "a rank has no memory to move its arrays");
        return -ENOMEM;
    }
    return 0;
}

/* Asks the kernel for huge pages: the first write to each of many small ones costs more than the copy.
 * The outer pages belong to the advice, so that realloc can still move the block without a copy. */
static void prefer_huge_pages(void *block) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), bytes = malloc_usable_size(block);
    const uintptr_t first = (uintptr_t)block & ~(page - 1);
    const uintptr_t end = ((uintptr_t)block + bytes + page - 1) & ~(page - 1);
    if (bytes >= HUGE_PAGE_BYTES)
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* it is advice only */
}

/* Returns whether this rank has the same first row before and after a move. Then the rows that it keeps
 * stay in their places. The rows that it sends or gets lie behind them. */
static bool stays(const struct cosched_move *move) {
    const struct range before = before_of(move, move->rank), after = after_of(move, move->rank);
    return before.start == after.start && before.stop > before.start && after.stop > after.start;
}

/* Returns memory for this rank's rows after a move: its own block, if that can stay. */
static void *take_block(const struct cosched_move *move) {
    const int64_t bytes = cosched_blocks_wanted(move) * move->row_bytes;
    const bool in_place = move->own != NULL && stays(move);
    const struct range before = before_of(move, move->rank);
    void *block;
    if (in_place && bytes <= (before.stop - before.start) * move->row_bytes)
        return move->own->data;
    block = realloc(in_place ? move->own->data : NULL, (size_t)bytes + 1);
    if (block == NULL)
        return NULL;
    prefer_huge_pages(block);
    if (in_place)
        move->own->data = block;
    return block;
}

static bool is_in_place(const struct cosched_move *move) {
    return move->own != NULL && move->fresh == move->own->data;
}

static bool take_memory(struct cosched_move *move) {
    if (move->fresh == NULL)
        move->fresh = take_block(move);
    move->receives = calloc((size_t)count_pieces(move) + 1, sizeof *move->receives);
    return move->fresh != NULL && move->receives != NULL;
}

int cosched_blocks_agree(MPI_Comm comm, const struct cosched_block *blocks, int32_t count,
                         const uint32_t *order, int32_t after, struct cosched_move *moves,
                         char why[COSCHED_WHY_BYTES]) {
    struct shown *mine = calloc((size_t)count + 1, sizeof *mine), *all;
    int32_t size, ready;
    int error;
    MPI_Comm_size(comm, &size);
    all = calloc((size_t)count * (size_t)size + 1, sizeof *all);
    ready = mine != NULL && all != NULL;
    for (int32_t i = 0; i < count; i++) {
        ready &= make_move(&moves[i], comm) == 0;
        if (ready)
            mine[i] = show(&blocks[i]);
    }
    error = agree_on_count(comm, count, ready, why);
    if (error == 0) {
        const int bytes = (int)((uint64_t)count * sizeof *mine);
        MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm);
    }
    for (int32_t i = 0; i < count && error == 0; i++) {
        error = agree_on_one(&moves[i], all + i, count, i, why);
        if (error == 0)
            fill(&moves[i], order, after);
    }
    free(mine);
    free(all);
    if (error != 0)
        return error;
    ready = 1;
    for (int32_t i = 0; i < count; i++)
        ready &= take_memory(&moves[i]);
    return agree_on_count(comm, count, ready, why);
}

void cosched_blocks_free(struct cosched_move *moves, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        free(moves[i].before);
        free(moves[i].after);
        free(moves[i].after_end);
        if (!is_in_place(&moves[i]))
            free(moves[i].fresh);
        free(moves[i].receives);
    }
    free(moves);
}

int64_t cosched_blocks_wanted(const struct cosched_move *move) {
    return move->after_end[move->rank] - move->after[move->rank];
}

uint64_t cosched_blocks_moved_bytes(const struct cosched_move *move) {
    int64_t kept = 0;
    for (int32_t rank = 0; rank < move->size; rank++) {
        const struct range both = common(before_of(move, rank), after_of(move, rank));
        kept += both.stop - both.start;
    }
    return (uint64_t)(move->before[move->size] - kept) * (uint64_t)move->row_bytes;
}

/* --- moving ----------------------------------------------------------------------------------- */

static int post_receives(const struct cosched_move *move) {
    int posted = 0;
    for (int32_t peer = 0; peer < move->size; peer++) {
        const struct range bytes = bytes_between(move, peer, move->rank);
        if (peer == move->rank)
            continue;
        for (int64_t at = bytes.start; at < bytes.stop; at += PIECE_BYTES)
            MPI_Irecv(byte_at(move->fresh, move->after[move->rank], move, at),
                      (int)piece_at(bytes, at), MPI_BYTE, peer, TAG, move->comm,
                      &move->receives[posted++]);
    }
    return posted;
}

/* Each rank has posted its receives, or will without waiting for a send, so the bound on sends at once
 * cannot block. */
static void send_all(const struct cosched_move *move, const void *old) {
    MPI_Request under_way[SENDS_AT_ONCE];
    int next = 0;
    for (int i = 0; i < SENDS_AT_ONCE; i++)
        under_way[i] = MPI_REQUEST_NULL;
    for (int32_t peer = 0; peer < move->size; peer++) {
        const struct range bytes = bytes_between(move, move->rank, peer);
        if (peer == move->rank)
            continue;
        for (int64_t at = bytes.start; at < bytes.stop; at += PIECE_BYTES) {
            if (under_way[next] != MPI_REQUEST_NULL)
                MPI_Waitany(SENDS_AT_ONCE, under_way, &next, MPI_STATUS_IGNORE);
            MPI_Isend(byte_at(old, move->before[move->rank], move, at),
                      (int)piece_at(bytes, at), MPI_BYTE, peer, TAG, move->comm,
                      &under_way[next]);
            next = (next + 1) % SENDS_AT_ONCE;
        }
    }
    MPI_Waitall(SENDS_AT_ONCE, under_way, MPI_STATUSES_IGNORE);
}

void cosched_blocks_move(const struct cosched_move *move, const void *old) {
    const struct range kept = bytes_between(move, move->rank, move->rank);
    const int posted = post_receives(move);
    if (kept.stop > kept.start && !is_in_place(move))
        memcpy(byte_at(move->fresh, move->after[move->rank], move, kept.start),
               byte_at(old, move->before[move->rank], move, kept.start),
               (size_t)(kept.stop - kept.start));
    send_all(move, old);
    MPI_Waitall(posted, move->receives, MPI_STATUSES_IGNORE);
}

void cosched_blocks_replace(struct cosched_block *block, struct cosched_move *move) {
    const int64_t rows = cosched_blocks_wanted(move);
    void *smaller = NULL;
    if (!is_in_place(move))
        free(block->data);
    else if (rows < block->rows)
        smaller = realloc(block->data, (size_t)(rows * move->row_bytes) + 1);
    block->data = smaller != NULL ? smaller : move->fresh;
    move->fresh = NULL;
    block->rows = rows;
    block->first = move->after[move->rank];
    block->row_bytes = move->row_bytes;
}
