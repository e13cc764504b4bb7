/*
 * arrays.c - redistributes several arrays in each change, and checks each element; or uses the job
 * wrongly, in the way that its argument names.
 *
 *     arrays STOP_FILE
 *     arrays misuse NAME
 */
#define _GNU_SOURCE
#include <cosched/malleable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES, DOUBLES, EMPTY, WIDE, BLOCKS };

static const int64_t ROWS[BLOCKS] = {41, 1000, 0, 3};
/* A row of the last array is longer than a message. */
static const int64_t ROW_BYTES[BLOCKS] = {3, 8, 16, 9 << 20};

static uint8_t value_at(int kind, int64_t place) { return (uint8_t)((place * 31 + kind) % 251); }

static int check(const struct cosched_block *block, int kind) {
    const uint8_t *data = block->data;
    for (int64_t i = 0; i < block->rows * block->row_bytes; i++)
        if (data[i] != value_at(kind, block->first * block->row_bytes + i))
            return 1;
    return 0;
}

static uint8_t *whole_array(int kind, int rank) {
    uint8_t *whole = rank == 0 ? malloc((size_t)(ROWS[kind] * ROW_BYTES[kind]) + 1) : NULL;
    for (int64_t i = 0; whole != NULL && i < ROWS[kind] * ROW_BYTES[kind]; i++)
        whole[i] = value_at(kind, i);
    return whole;
}

static int rank_in(struct cosched_job *job) {
    int rank;
    MPI_Comm_rank(cosched_job_comm(job), &rank);
    return rank;
}

static void scatter_all(struct cosched_job *job, struct cosched_block blocks[BLOCKS]) {
    for (int i = 0; i < BLOCKS; i++) {
        uint8_t *whole = NULL;
        if (!cosched_job_joined(job) && i != EMPTY)
            whole = whole_array(i, rank_in(job));
        cosched_job_scatter(job, &blocks[i], whole, ROWS[i], ROW_BYTES[i]);
        free(whole);
    }
}

static int gather_all(struct cosched_job *job, struct cosched_block blocks[BLOCKS]) {
    int wrong = 0;
    for (int i = 0; i < BLOCKS; i++) {
        struct cosched_block all = {.rows = ROWS[i], .row_bytes = ROW_BYTES[i]};
        all.data = whole_array(i, rank_in(job));
        if (all.data != NULL)
            memset(all.data, 0, (size_t)(all.rows * all.row_bytes));
        cosched_job_gather(job, &blocks[i], all.data);
        wrong |= all.data != NULL && check(&all, i);
        free(all.data);
    }
    return wrong;
}

/* Whether the program does not end after an error on a communicator, other than by default. */
static int returns_errors(MPI_Comm comm) {
    MPI_Errhandler handler;
    int is_fatal;
    MPI_Comm_get_errhandler(comm, &handler);
    is_fatal = handler == MPI_ERRORS_ARE_FATAL;
    MPI_Errhandler_free(&handler);
    if (!is_fatal)
        fprintf(stderr, "errors of the job's communicator do not end the program\n");
    return !is_fatal;
}

static int run_arrays(const char *stop_file) {
    struct cosched_block blocks[BLOCKS];
    struct cosched_job *job;
    int64_t step, passed = 0, secret = 0;
    int wrong = 0, status, stops = 0, prints = 0;
    cosched_job_begin(&job, 1, 0);
    if (!cosched_job_joined(job) && rank_in(job) == 0)
        secret = 314;
    scatter_all(job, blocks);
    if (cosched_job_bcast(job, &secret, sizeof secret) == 0)
        wrong |= secret != 314;
    while (!stops && cosched_job_next(job, -1, &step) == 1) {
        if (cosched_job_resized(job)) {
            cosched_job_bcast(job, &passed, sizeof passed);
            if (cosched_job_redistribute(job, blocks, BLOCKS) != 0)
                break;
        }
        for (int i = 0; i < BLOCKS; i++)
            wrong |= check(&blocks[i], i);
        wrong |= passed != step;
        wrong |= returns_errors(cosched_job_comm(job));
        passed++;
        stops = access(stop_file, F_OK) == 0;
        MPI_Bcast(&stops, 1, MPI_INT, 0, cosched_job_comm(job));
        usleep(2000);
    }
    if (!cosched_job_left(job)) {
        wrong |= gather_all(job, blocks);
        prints = rank_in(job) == 0;
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i].data);
    status = cosched_job_end(job);
    if (prints && !wrong && status == 0)
        printf("arrays are as they were\n");
    if (wrong)
        fprintf(stderr, "an array or a communicator is wrong\n");
    return status != 0 || wrong;
}

/* Makes the calls of one misuse; the first wrong one fails, and the others do nothing. */
static void misuse(const char *name, struct cosched_job *job) {
    struct cosched_block blocks[2] = {{.row_bytes = 8}, {.row_bytes = 8}}, block;
    const int is_second = rank_in(job) == 1;
    int64_t step;
    if (strcmp(name, "negative-rows") == 0)
        cosched_job_scatter(job, &block, NULL, -1, 8);
    if (strcmp(name, "late-scatter") == 0 && cosched_job_next(job, 1, &step) == 1)
        cosched_job_scatter(job, &block, NULL, 1, 8);
    if (strcmp(name, "no-value") == 0)
        cosched_job_bcast(job, NULL, 8);
    if (strcmp(name, "twice") == 0) {
        struct cosched_job *another;
        cosched_job_begin(&another, 1, 0);
        cosched_job_end(another);
    }
    if (strcmp(name, "ask-none") == 0)
        cosched_job_ask(job, 0);
    if (strcmp(name, "disagree-in-row") == 0) {
        blocks[0].row_bytes += is_second;
        cosched_job_redistribute(job, blocks, 1);
    }
    if (strcmp(name, "disagree-in-number") == 0)
        cosched_job_redistribute(job, blocks, 1 + is_second);
    if (strcmp(name, "no-data") == 0) {
        blocks[0].rows = is_second;
        cosched_job_redistribute(job, blocks, 1);
    }
    if (strcmp(name, "too-many-rows") == 0) {
        blocks[0] = (struct cosched_block){.data = &blocks, .rows = INT64_MAX};
        cosched_job_redistribute(job, blocks, 1);
    }
}

static int run_misuse(const char *name) {
    struct cosched_job *job;
    struct cosched_block block;
    int64_t step;
    int status;
    if (strcmp(name, "before-init") != 0)
        MPI_Init(NULL, NULL);
    if (strcmp(name, "after-finalize") == 0)
        MPI_Finalize();
    status = cosched_job_begin(&job, strcmp(name, "zero") == 0 ? 0 : 4,
                               strcmp(name, "minimum-above-ideal") == 0 ? 2 : 0);
    if (status == 0)
        misuse(name, job);
    /* After an error no call does a thing. */
    cosched_job_scatter(job, &block, NULL, 1, 8);
    while (cosched_job_next(job, 3, &step) == 1)
        usleep(1000);
    if (strcmp(name, "nothing") == 0)
        printf("iterations of 1 ms: %d, waits: %d\n", cosched_job_exec_time(job) > 0.001,
               cosched_job_exec_time_comm(job) >= 0);
    status = cosched_job_end(job);
    if (strcmp(name, "before-init") != 0 && strcmp(name, "after-finalize") != 0)
        MPI_Finalize();
    return status == 0 ? 0 : 3;
}

int main(int argc, char **argv) {
    int status;
    if (argc == 3)
        return run_misuse(argv[2]);
    MPI_Init(&argc, &argv);
    status = run_arrays(argv[1]);
    MPI_Finalize();
    return status;
}
