#include "cosched/malleable.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blocks.h"
#include "cosched/clock.h"
#include "boundaries.h"
#include "prediction.h"
#include "worlds.h"

#define NODES_MOST 1048576

/* A call before the loop, as a rank that joins gets it; the bytes of a bcast follow. */
struct prepared {
    enum { SCATTER = 1, BCAST = 2 } call;
    int64_t bytes; /* of a row, or of the value */
};

struct cosched_job {
    int status;       /* 0, COSCHED_LEFT, or the first error */
    bool all_have_it; /* all ranks have the error, so that they can still end together */
    bool joined, looped, resized, changing;
    int32_t minimum, ideal;
    cosched_predict predict; /* NULL: the program predicts nothing */
    void *predict_data;
    int64_t next_step;
    struct cosched_link link;
    struct cosched_worlds worlds;
    struct cosched_union one; /* of the change under way, if `changing` */
    uint64_t since_ns;        /* when the present phase of it began */
    struct cosched_bytes prepared;
    uint64_t taken; /* bytes of `prepared` that a rank that joined has used */
};

static int32_t rank_of(MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

static int32_t size_of(MPI_Comm comm) {
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Notes the first error of a job, and writes its line in rank 0. All ranks have it, unless the program
 * differs between them. */
static int fail(struct cosched_job *job, int error, const char *call, const char *why) {
    int ready = 0, finalized = 0;
    job->status = error;
    job->all_have_it = true;
    MPI_Initialized(&ready);
    MPI_Finalized(&finalized);
    if (!ready || finalized || rank_of(MPI_COMM_WORLD) == 0)
        fprintf(stderr, "cosched: %s: %s\n", call, why);
    return error;
}

static int misuse(struct cosched_job *job, const char *call, const char *why) {
    fail(job, -EINVAL, call, why);
    job->all_have_it = false;
    return -EINVAL;
}

static const char BEGIN_CALL[] = "cosched_job_begin";

/* --- the begin -------------------------------------------------------------------------------- */

static int check(struct cosched_job *job, int32_t minimum, int32_t ideal) {
    char why[COSCHED_WHY_BYTES] = "";
    int ready, finalized;
    MPI_Initialized(&ready);
    MPI_Finalized(&finalized);
    if (minimum < 1 || minimum > NODES_MOST)
        snprintf(why, sizeof why, "minimum %d: is not a number of nodes from 1 to %d", minimum,
                 NODES_MOST);
    else if (ideal < 0 || ideal > NODES_MOST)
        snprintf(why, sizeof why, "ideal %d: is not a number of nodes from 1 to %d", ideal,
                 NODES_MOST);
    else if (ideal != 0 && ideal < minimum)
        snprintf(why, sizeof why, "minimum %d is more than ideal %d", minimum, ideal);
    else if (finalized)
        snprintf(why, sizeof why, "MPI has been finalized: begin the job before that");
    else if (!ready)
        snprintf(why, sizeof why, "MPI is not initialized: call MPI_Init before");
    else
        return 0;
    return misuse(job, BEGIN_CALL, why);
}

static void take_phase(struct cosched_job *job, uint64_t *phase_ns) {
    const uint64_t now_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    *phase_ns = now_ns - job->since_ns;
    job->since_ns = now_ns;
}

/* Writes what the program predicts. It is not asked again once that was wrong. */
static void predict(struct cosched_job *job) {
    struct cosched_page_prediction prediction = {.count = 0};
    char why[COSCHED_WHY_BYTES];
    if (job->predict != NULL &&
        cosched_prediction_ask(&prediction, job->predict, job->predict_data, job->minimum,
                               job->ideal, why, sizeof why) != 0) {
        fprintf(stderr, "cosched: the program's prediction is ignored: %s\n", why);
        job->predict = NULL;
        prediction.count = 0;
    }
    cosched_link_predict(&job->link, &prediction);
}

static void want(struct cosched_job *job) {
    if (rank_of(job->worlds.comm) != 0)
        return;
    cosched_link_want(&job->link, job->minimum, job->ideal);
    predict(job);
}

/* Begins to move data. */
static void enter(struct cosched_job *job) {
    struct cosched_welcome *welcome = &job->one.welcome;
    job->changing = true;
    take_phase(job, &welcome->times.connect_ns);
    if (job->one.after == MPI_COMM_NULL)
        cosched_link_begin_last_change(&job->link);
    else
        cosched_link_enter(&job->link, welcome->step, rank_of(job->one.after));
}

static int join(struct cosched_job *job) {
    char why[COSCHED_WHY_BYTES] = "a rank that joins a job has no page of its node's agent";
    const int error = cosched_link_open(&job->link, why);
    struct cosched_spot spot;
    const bool can = error == 0 && job->link.has_agent;
    if (can)
        spot = cosched_link_spot(&job->link);
    job->since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    if (cosched_worlds_join(&job->worlds, can ? &spot : NULL, &job->one, why) != 0) {
        cosched_link_leave(&job->link); /* the job reports it */
        return job->status = COSCHED_LEFT;
    }
    job->next_step = job->one.welcome.step;
    job->prepared = job->one.welcome.prepared;
    job->one.welcome.prepared = (struct cosched_bytes){NULL, 0};
    enter(job);
    return 0;
}

/* Fills the ranks of a job that begins; false if a rank has no memory for them, or no page. */
static bool fill_ranks(struct cosched_job *job) {
    struct cosched_worlds *worlds = &job->worlds;
    const int32_t size = size_of(worlds->comm);
    int32_t ready = job->link.has_agent, all_ready;
    struct cosched_rank mine, *ranks = NULL;
    memset(&mine, 0, sizeof mine);
    if (ready) {
        mine.spot = cosched_link_spot(&job->link);
        ranks = calloc((size_t)size, sizeof *ranks);
        ready = ranks != NULL;
    }
    MPI_Allreduce(&ready, &all_ready, 1, MPI_INT32_T, MPI_MIN, worlds->comm);
    if (!all_ready) {
        free(ranks);
        return false;
    }
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, ranks, sizeof mine, MPI_BYTE, worlds->comm);
    worlds->ranks = ranks;
    worlds->count = (uint32_t)size;
    return true;
}

/* Without the pages of all nodes the job keeps its size. */
static int begin(struct cosched_job *job) {
    char why[COSCHED_WHY_BYTES] = "";
    MPI_Comm_dup(MPI_COMM_WORLD, &job->worlds.comm);
    if (cosched_link_open(&job->link, why) != 0)
        fprintf(stderr, "cosched: the job keeps its size: %s\n", why);
    if (!fill_ranks(job) && cosched_link_without_agent(&job->link) != 0)
        return misuse(job, BEGIN_CALL, "no memory");
    cosched_link_enter(&job->link, 0, rank_of(job->worlds.comm));
    return 0;
}

int cosched_job_begin(struct cosched_job **made, int32_t minimum, int32_t ideal) {
    static bool has_begun; /* a process has one job, as it has one MPI_Init */
    struct cosched_job *job = calloc(1, sizeof *job);
    int error;
    *made = job;
    if (job == NULL)
        return -ENOMEM;
    job->worlds.comm = MPI_COMM_NULL;
    job->minimum = minimum;
    job->ideal = ideal;
    if ((error = check(job, minimum, ideal)) != 0)
        return error;
    if (has_begun)
        return misuse(job, BEGIN_CALL, "this program has begun its job already: use that one");
    has_begun = true;
    job->joined = cosched_worlds_own_generation() > 0;
    error = job->joined ? join(job) : begin(job);
    if (error == 0 && !job->joined)
        want(job);
    return error;
}

/* --- facts ------------------------------------------------------------------------------------ */

MPI_Comm cosched_job_comm(const struct cosched_job *job) {
    if (job == NULL || job->status == COSCHED_LEFT)
        return MPI_COMM_NULL;
    return job->changing && job->one.after != MPI_COMM_NULL ? job->one.after : job->worlds.comm;
}

MPI_Fint cosched_job_comm_f(const struct cosched_job *job) {
    return MPI_Comm_c2f(cosched_job_comm(job));
}

bool cosched_job_resized(const struct cosched_job *job) { return job != NULL && job->resized; }

bool cosched_job_joined(const struct cosched_job *job) { return job != NULL && job->joined; }

bool cosched_job_left(const struct cosched_job *job) {
    return job != NULL && job->status == COSCHED_LEFT;
}

double cosched_job_exec_time(const struct cosched_job *job) {
    return job == NULL ? -1.0 : cosched_link_exec_time(&job->link);
}

double cosched_job_exec_time_comm(const struct cosched_job *job) {
    return job == NULL ? -1.0 : cosched_link_exec_time_comm(&job->link);
}

int cosched_job_ask(struct cosched_job *job, int32_t nodes) {
    char why[COSCHED_WHY_BYTES];
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (nodes < 1 || nodes > NODES_MOST) {
        snprintf(why, sizeof why, "%d is not a number of nodes from 1 to %d", nodes, NODES_MOST);
        return misuse(job, "cosched_job_ask", why);
    }
    if (rank_of(cosched_job_comm(job)) == 0)
        cosched_link_ask(&job->link, nodes);
    return 0;
}

int cosched_job_predict(struct cosched_job *job, cosched_predict function, void *data) {
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    job->predict = function;
    job->predict_data = data;
    if (!job->changing && rank_of(job->worlds.comm) == 0)
        predict(job);
    return 0;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Reports that the job goes on as it is. No next order may be written before all ranks have read this
 * one. */
static void refuse(struct cosched_job *job, uint64_t generation,
                   const struct cosched_times *times, const char *why) {
    const MPI_Comm comm = job->worlds.comm;
    MPI_Barrier(comm);
    if (rank_of(comm) == 0)
        cosched_link_report(&job->link, generation, size_of(comm), times, 0, why);
}

/* Carries out the order up to the union; if it fails, the job goes on as it is. */
static void change_size(struct cosched_job *job, int64_t step) {
    char why[COSCHED_WHY_BYTES] = "the order is not a change of a job's size";
    struct cosched_welcome *welcome = &job->one.welcome;
    struct cosched_change change;
    MPI_Comm bond = MPI_COMM_NULL;
    int error;
    memset(&job->one, 0, sizeof job->one);
    welcome->times.wait_ns = job->link.waited_ns;
    welcome->step = step;
    job->since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    error = cosched_link_change(&job->link, &change);
    welcome->generation = change.generation;
    if (error == 0)
        error = cosched_plan_make(&welcome->plan, job->worlds.ranks, job->worlds.count, &change,
                                  why);
    if (error == 0)
        error = cosched_worlds_spawn(&job->worlds, &welcome->plan, change.generation, &bond, why);
    if (error == 0) {
        take_phase(job, &welcome->times.spawn_ns);
        welcome->prepared = job->prepared;
        error = cosched_worlds_unite(&job->worlds, bond, &job->one, why);
        welcome->prepared = (struct cosched_bytes){NULL, 0}; /* the job has it */
    }
    if (error == 0) {
        enter(job);
        job->resized = true;
    } else {
        refuse(job, welcome->generation, &welcome->times, why);
        cosched_welcome_free(welcome);
    }
    cosched_change_free(&change);
}

int cosched_job_next(struct cosched_job *job, int64_t count, int64_t *step) {
    if (job == NULL || job->status < 0)
        return job == NULL ? -EINVAL : job->status;
    if (job->status == COSCHED_LEFT)
        return 0;
    if (job->changing && job->looped)
        return misuse(job, "cosched_job_next",
                      "the job was resized: call cosched_job_redistribute in that iteration");
    *step = job->next_step;
    if (job->joined && !job->looped) { /* the others come to this boundary */
        job->resized = true;
    } else if (count >= 0 && job->next_step >= count) {
        cosched_link_end_loop(&job->link);
        return 0;
    } else {
        job->resized = false;
        if (cosched_link_stops_at(&job->link, job->next_step))
            change_size(job, job->next_step);
    }
    job->looped = true;
    job->next_step++;
    return 1;
}

/* --- calls before the loop -------------------------------------------------------------------- */

static int keep(struct cosched_job *job, const struct prepared *prepared, const void *value) {
    const uint64_t more = sizeof *prepared + (value == NULL ? 0 : (uint64_t)prepared->bytes);
    int32_t ready, all_ready;
    uint8_t *larger = realloc(job->prepared.data, job->prepared.count + more);
    if (larger != NULL)
        job->prepared.data = larger;
    ready = larger != NULL;
    MPI_Allreduce(&ready, &all_ready, 1, MPI_INT32_T, MPI_MIN, job->worlds.comm);
    if (!all_ready)
        return fail(job, -ENOMEM, "malleable job", "a rank has no memory for a value");
    memcpy(larger + job->prepared.count, prepared, sizeof *prepared);
    if (value != NULL)
        memcpy(larger + job->prepared.count + sizeof *prepared, value, (size_t)prepared->bytes);
    job->prepared.count += more;
    return 0;
}

/* Returns what the others got from the same call before the loop. value: its bytes; NULL for a
 * scatter. */
static int take(struct cosched_job *job, const char *call, struct prepared *prepared,
                void *value) {
    struct prepared found = {0};
    if (job->prepared.count - job->taken >= sizeof found)
        memcpy(&found, job->prepared.data + job->taken, sizeof found);
    if (found.call != prepared->call || (value != NULL && found.bytes != prepared->bytes))
        return misuse(job, call, "the calls before the loop differ in a rank that joined");
    job->taken += sizeof found;
    if (value != NULL) {
        memcpy(value, job->prepared.data + job->taken, (size_t)found.bytes);
        job->taken += (uint64_t)found.bytes;
    }
    *prepared = found;
    return 0;
}

int cosched_job_bcast(struct cosched_job *job, void *value, int64_t bytes) {
    struct prepared prepared = {BCAST, bytes};
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (bytes < 0 || (bytes > 0 && value == NULL))
        return misuse(job, "cosched_job_bcast", "there is no value");
    if (!job->looped && job->joined)
        return take(job, "cosched_job_bcast", &prepared, value);
    cosched_worlds_bcast(job->changing ? job->one.comm : job->worlds.comm, value,
                         (uint64_t)bytes);
    return job->looped ? 0 : keep(job, &prepared, value);
}

/* Replaces the block of this rank. */
static void replace(struct cosched_block *block, struct cosched_move *move) {
    free(block->data);
    block->data = move->fresh;
    move->fresh = NULL;
    block->rows = cosched_blocks_wanted(move);
    block->first = move->after[move->rank];
    block->row_bytes = move->row_bytes;
}

/* Moves rows between blocks of one array. Collective. */
static int move_one(struct cosched_job *job, const struct cosched_block *block, int32_t after,
                    struct cosched_move *move, const char *call) {
    char why[COSCHED_WHY_BYTES] = "";
    const MPI_Comm comm = job->worlds.comm;
    uint32_t *order = calloc((size_t)after, sizeof *order);
    int error;
    if (order == NULL)
        return misuse(job, call, "no memory");
    for (int32_t i = 0; i < after; i++)
        order[i] = (uint32_t)i;
    error = cosched_blocks_agree(comm, block, 1, order, after, move, why);
    free(order);
    if (error != 0)
        return fail(job, error, call, why);
    return 0;
}

static const char SCATTER_CALL[] = "cosched_job_scatter";

int cosched_job_scatter(struct cosched_job *job, struct cosched_block *block, const void *whole,
                        int64_t rows, int64_t row_bytes) {
    struct prepared prepared = {SCATTER, row_bytes};
    struct cosched_block all = {.row_bytes = row_bytes};
    struct cosched_move *move;
    int32_t has_data = whole != NULL;
    int error;
    memset(block, 0, sizeof *block); /* in each case, so that the program may loop over its rows */
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (job->joined) {
        error = take(job, SCATTER_CALL, &prepared, NULL);
        block->row_bytes = prepared.bytes;
        return error;
    }
    if (job->looped)
        return misuse(job, SCATTER_CALL, "call it before the loop: ranks that join need it");
    if (rows < 0 || row_bytes < 0)
        return misuse(job, SCATTER_CALL, "an array has 0 rows or more, of 0 bytes or more");
    if ((error = keep(job, &prepared, NULL)) != 0)
        return error;
    MPI_Bcast(&has_data, 1, MPI_INT32_T, 0, job->worlds.comm);
    /* Only the addresses of rows that exist are read: without data there are none to move. */
    all.data = (void *)(uintptr_t)(whole != NULL ? whole : block);
    all.rows = rank_of(job->worlds.comm) == 0 ? rows : 0;
    move = calloc(1, sizeof *move);
    if (move == NULL)
        return misuse(job, SCATTER_CALL, "no memory");
    error = move_one(job, &all, size_of(job->worlds.comm), move, SCATTER_CALL);
    if (error == 0) {
        if (has_data)
            cosched_blocks_move(move, whole);
        else
            memset(move->fresh, 0, (size_t)(cosched_blocks_wanted(move) * move->row_bytes));
        replace(block, move);
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
        return misuse(job, call, "the job was resized: call cosched_job_redistribute before");
    move = calloc(1, sizeof *move);
    if (move == NULL)
        return misuse(job, call, "no memory");
    move->fresh = rank_of(job->worlds.comm) == 0 ? whole : NULL;
    error = move_one(job, block, 1, move, call);
    if (error == 0)
        cosched_blocks_move(move, block->data);
    if (move->fresh == whole)
        move->fresh = NULL; /* the caller's */
    cosched_blocks_free(move, 1);
    return error;
}

/* Ends the change under way. Collective over the union. Returns 0, or COSCHED_LEFT in a rank that
 * ends. */
static int finish(struct cosched_job *job, uint64_t moved_bytes) {
    struct cosched_times *times = &job->one.welcome.times, found;
    const uint64_t generation = job->one.welcome.generation;
    const bool leaves = job->one.after == MPI_COMM_NULL;
    if (!job->changing)
        return 0;
    take_phase(job, &times->move_ns);
    found = *times;
    cosched_worlds_settle(&job->worlds, &job->one);
    take_phase(job, &found.resume_ns);
    job->changing = false;
    if (leaves) {
        cosched_link_leave(&job->link);
        return job->status = COSCHED_LEFT;
    }
    if (rank_of(job->worlds.comm) == 0)
        cosched_link_report(&job->link, generation, size_of(job->worlds.comm), &found,
                            moved_bytes, NULL);
    want(job);
    return 0;
}

/* Moves all arrays; the ranks of the union are those of `order` afterwards. */
static int move_all(struct cosched_job *job, struct cosched_block *blocks, int32_t count,
                    uint64_t *moved_bytes) {
    static const char call[] = "cosched_job_redistribute";
    const struct cosched_plan *plan = &job->one.welcome.plan;
    const MPI_Comm comm = job->changing ? job->one.comm : job->worlds.comm;
    const int32_t after = job->changing ? (int32_t)plan->after : size_of(comm);
    char why[COSCHED_WHY_BYTES] = "";
    struct cosched_move *moves = calloc((size_t)count + 1, sizeof *moves);
    uint32_t *same = calloc((size_t)after, sizeof *same);
    int error;
    if (moves == NULL || same == NULL) {
        free(moves);
        free(same);
        return misuse(job, call, "no memory");
    }
    for (int32_t i = 0; i < after; i++)
        same[i] = (uint32_t)i;
    error = cosched_blocks_agree(comm, blocks, count, job->changing ? plan->order : same, after,
                                 moves, why);
    if (job->changing)
        take_phase(job, &job->one.welcome.times.start_ns);
    for (int32_t i = 0; i < count && error == 0; i++) {
        cosched_blocks_move(&moves[i], blocks[i].data);
        *moved_bytes += cosched_blocks_moved_bytes(&moves[i]);
        replace(&blocks[i], &moves[i]);
    }
    cosched_blocks_free(moves, count);
    free(same);
    return error == 0 ? 0 : fail(job, error, call, why);
}

int cosched_job_redistribute(struct cosched_job *job, struct cosched_block *blocks,
                             int32_t count) {
    uint64_t moved_bytes = 0;
    int error;
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (count < 0 || (count > 0 && blocks == NULL))
        return misuse(job, "cosched_job_redistribute", "there are no blocks");
    error = move_all(job, blocks, count, &moved_bytes);
    return error != 0 ? error : finish(job, moved_bytes);
}

/* --- the end ---------------------------------------------------------------------------------- */

int cosched_job_end(struct cosched_job *job) {
    int status;
    if (job == NULL)
        return -EINVAL;
    if (job->status == 0 || (job->status < 0 && job->all_have_it)) {
        const int failed = job->status;
        job->status = 0;
        if (finish(job, 0) == 0)
            cosched_worlds_close(&job->worlds);
        job->status = failed;
    }
    status = job->status < 0 ? job->status : 0;
    cosched_link_end_loop(&job->link);
    cosched_welcome_free(&job->one.welcome);
    cosched_worlds_free(&job->worlds);
    free(job->prepared.data);
    free(job);
    return status;
}
