/*
 * boundaries.c - measures a boundary without a change: prints, for each round, the time of an empty
 * iteration of a malleable job, in ns. The same as boundaries.py.
 *
 *     boundaries ROUNDS
 */
#define _POSIX_C_SOURCE 200809L

#include <cosched/malleable.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ITERATIONS = 100000 };

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv) {
    const int64_t rounds = argc > 1 ? strtoll(argv[1], NULL, 10) : 1;
    struct cosched_job *job;
    int64_t step, since_ns = 0;
    int status;

    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, 1);
    for (int64_t i = 0; i <= rounds * ITERATIONS && cosched_job_next(job, -1, &step) == 1; i++) {
        if (i % ITERATIONS != 0)
            continue;
        if (i > 0)
            printf("%.1f\n", (double)(now_ns() - since_ns) / ITERATIONS);
        since_ns = now_ns();
    }
    status = cosched_job_end(job);
    MPI_Finalize();
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
