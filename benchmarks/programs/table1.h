/*
 * table1.h - the programs of Weissman et al. (2003), Table 1: their sizes, and what all of them share.
 * The same as benchmarks/table1.py, with the same options and the same answers.
 */
#ifndef TABLE1_H
#define TABLE1_H

#define _POSIX_C_SOURCE 200809L

#include <cosched/malleable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An instance of a program. */
struct problem {
    int32_t size;  /* rows of the grid or of the matrix, or sequences */
    int32_t ideal; /* nodes */
};

/* A run as the command line asks for it. */
struct run {
    int64_t size, count, done;
    int32_t ideal;
    const char *until; /* end as soon as this file exists; NULL: after `count` iterations */
    double pause_s;    /* in each iteration */
};

/* Returns the value of an option, such as "--size 24"; NULL without it. */
static inline const char *option(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

static inline double number(int argc, char **argv, const char *name, double usual) {
    const char *text = option(argc, argv, name);
    return text == NULL ? usual : strtod(text, NULL);
}

/* iterations: the usual number; 0: as many as the size. */
static inline struct run read_run(int argc, char **argv, const struct problem problems[4],
                                  int64_t iterations) {
    const int chosen = (int)number(argc, argv, "--problem", 1);
    const struct problem problem = problems[chosen < 1 || chosen > 4 ? 0 : chosen - 1];
    const double scaled = problem.size * number(argc, argv, "--scale", 1) + 0.5;
    struct run run = {.size = scaled < 2 ? 2 : (int64_t)scaled, .ideal = problem.ideal};
    run.size = (int64_t)number(argc, argv, "--size", (double)run.size);
    run.count = iterations != 0 ? iterations : run.size;
    run.count = (int64_t)number(argc, argv, "--iterations", (double)run.count);
    run.until = option(argc, argv, "--until");
    run.pause_s = number(argc, argv, "--pause", 0);
    return run;
}

/* Begins the next iteration, as cosched_job_next. */
static inline int next_step(struct run *run, struct cosched_job *job, int64_t *step) {
    const struct timespec pause = {(time_t)run->pause_s,
                                   (long)((run->pause_s - (double)(time_t)run->pause_s) * 1e9)};
    if (run->done > 0 && run->pause_s > 0)
        nanosleep(&pause, NULL);
    return cosched_job_next(job, run->until != NULL ? -1 : run->count, step);
}

/* Returns whether this iteration is carried out, the same in all ranks. */
static inline bool goes_on(struct run *run, struct cosched_job *job, int64_t step) {
    int stops = run->until != NULL && access(run->until, F_OK) == 0;
    if (run->until != NULL)
        MPI_Bcast(&stops, 1, MPI_INT, 0, cosched_job_comm(job));
    run->done = stops ? step : step + 1;
    return !stops;
}

/* The checksum of zlib. */
static inline uint32_t crc32_of(const uint8_t *data, size_t bytes) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
    }
    return ~crc;
}

/* Gathers the result, and prints the answer in rank 0. Returns the status of the process. */
static inline int end_run(struct run *run, struct cosched_job *job, const char *name,
                          struct cosched_block *result) {
    int status, is_first = 0;
    size_t bytes = (size_t)(run->size * result->row_bytes);
    uint8_t *whole = NULL;
    if (!cosched_job_left(job)) {
        int rank;
        MPI_Comm_rank(cosched_job_comm(job), &rank);
        is_first = rank == 0;
        whole = is_first ? malloc(bytes) : NULL;
    }
    is_first &= cosched_job_gather(job, result, whole) == 0;
    status = cosched_job_end(job);
    if (is_first)
        printf("%s size %lld iterations %lld answer %08x\n", name, (long long)run->size,
               (long long)run->done, crc32_of(whole, bytes));
    free(whole);
    free(result->data);
    MPI_Finalize();
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Returns a random number for each number (splitmix64). */
static inline uint64_t mixed(uint64_t number) {
    uint64_t z = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

#endif
