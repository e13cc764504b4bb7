/*
 * waiting_program.c - a malleable program that makes its job, and ends each iteration, once a file is
 * there.
 *
 * usage: waiting_program FOLDER
 */
#define _POSIX_C_SOURCE 200809L

#include <cosched/malleable.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 12, LOOK_NS = 5000000, STEP_NS = 20000000 };

static const char *folder;

static void nap(long ns) {
    const struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* Returns the path of a file in the folder. It is valid until the next call. */
static const char *path_of(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int is_there(const char *name) { return access(path_of(name), F_OK) == 0; }

static void touch(const char *name) {
    const int file = open(path_of(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (file >= 0)
        close(file);
}

static void wait_for(const char *name) {
    while (!is_there(name))
        nap(LOOK_NS);
}

/* Prints the sum of all rows, in rank 0. */
static void print_sum(struct cosched_job *job, const struct cosched_block *block) {
    double sum = 0, total = 0;
    const double *rows = block->data;
    int rank, size;
    MPI_Comm_rank(cosched_job_comm(job), &rank);
    MPI_Comm_size(cosched_job_comm(job), &size);
    for (int64_t i = 0; i < block->rows; i++)
        sum += rows[i];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, cosched_job_comm(job));
    if (rank == 0)
        printf("%d ranks, sum %.0f\n", size, total);
}

int main(int argc, char **argv) {
    double rows[ROWS];
    struct cosched_block block;
    struct cosched_job *job;
    int64_t step;
    int status;

    if (argc != 2)
        return 2;
    folder = argv[1];
    for (int i = 0; i < ROWS; i++)
        rows[i] = i;
    MPI_Init(&argc, &argv);
    touch("began");
    wait_for("make");
    cosched_job_begin(&job, 2, 5);
    cosched_job_scatter(job, &block, rows, ROWS, sizeof *rows);
    cosched_job_ask(job, 4);
    while (cosched_job_next(job, -1, &step) == 1) {
        int stops = is_there("stop");
        if (cosched_job_resized(job) && cosched_job_redistribute(job, &block, 1) != 0)
            break;
        MPI_Bcast(&stops, 1, MPI_INT, 0, cosched_job_comm(job));
        if (stops)
            break;
        if (step == 2)
            touch("in-loop");
        if (step > 1)
            wait_for("go");
        nap(STEP_NS);
    }
    if (!cosched_job_left(job))
        print_sum(job, &block);
    status = cosched_job_end(job);
    free(block.data);
    MPI_Finalize();
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
