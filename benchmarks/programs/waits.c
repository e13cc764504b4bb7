/*
 * waits - a job that waits for messages, and one that fills its waits.
 *
 *     waits wait GAP_US COUNT     two ranks
 *     waits fill                  one rank
 *
 * wait: rank 1 computes for GAP_US microseconds and then sends a message; rank 0 waits for
 * it, COUNT times. The nodes share one clock. Rank 0 prints the median time from a message's
 * departure to its end of the wait, in microseconds, and the part of the time for which rank
 * 0 had a CPU.
 *
 * fill: computes until it gets SIGTERM, and prints the part of the time for which it had a
 * CPU. It prints "begins" first.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t ended;

static void end(int number) {
    (void)number;
    ended = 1;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static int wait_for_messages(int rank, double gap, int count) {
    double *late = malloc(sizeof *late * (size_t)count), sent = 0;
    double began = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (late == NULL)
        return 1;
    for (int i = 0; i < count; i++)
        if (rank == 1) {
            double until = seconds(CLOCK_MONOTONIC) + gap;
            while ((sent = seconds(CLOCK_MONOTONIC)) < until)
                continue;
            MPI_Send(&sent, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&sent, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            late[i] = seconds(CLOCK_MONOTONIC) - sent;
        }
    if (rank == 0) {
        used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
        qsort(late, (size_t)count, sizeof *late, by_size);
        printf("%.1f %.4f\n", 1e6 * late[count / 2], used / (seconds(CLOCK_MONOTONIC) - began));
    }
    free(late);
    return 0;
}

static int fill(void) {
    double began = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    signal(SIGTERM, end);
    printf("begins\n");
    fflush(stdout);
    while (!ended)
        continue;
    used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%.4f\n", used / (seconds(CLOCK_MONOTONIC) - began));
    return 0;
}

int main(int argc, char **argv) {
    int rank, size, status = 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 4 && strcmp(argv[1], "wait") == 0 && size == 2 && atoi(argv[3]) > 0)
        status = wait_for_messages(rank, 1e-6 * atof(argv[2]), atoi(argv[3]));
    else if (argc == 2 && strcmp(argv[1], "fill") == 0 && size == 1)
        status = fill();
    else if (rank == 0)
        fprintf(stderr, "usage: waits wait GAP_US COUNT (2 ranks), or waits fill (1 rank)\n");
    MPI_Finalize();
    return status;
}
