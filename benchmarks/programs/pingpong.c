/*
 * pingpong - half round trips of blocking messages, in many short batches.
 *
 *     pingpong [--batches N] [--batch-us T] BYTES...
 *
 * Two ranks, each on a processor of its own where they share a node. For each size N
 * batches of about T microseconds; rank 0 prints a line a batch: the size, and the half
 * round trip in nanoseconds. The reader takes the medians.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 7, CALIBRATION = 30, MAX_BATCHES = 10000 };

static void take_a_processor(int rank_on_node) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    int wanted = rank_on_node % CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static int rank_on_node(void) {
    MPI_Comm node;
    int rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
}

/* Seconds of `count` round trips. */
static double bounce(char *buffer, int bytes, int count, int rank) {
    double began = MPI_Wtime();
    for (int i = 0; i < count; i++)
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
        }
    return MPI_Wtime() - began;
}

static int calibrated(char *buffer, int bytes, int rank, double batch_s) {
    bounce(buffer, bytes, CALIBRATION, rank);
    double trip = bounce(buffer, bytes, CALIBRATION, rank) / CALIBRATION;
    int count = trip > 0 && batch_s / trip > 1 ? (int)(batch_s / trip) : 1;
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return count;
}

int main(int argc, char **argv) {
    static double half_ns[MAX_BATCHES];
    int batches = 60, rank, size, at;
    double batch_s = 2e-3;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (at = 1; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2)
        if (strcmp(argv[at], "--batches") == 0)
            batches = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--batch-us") == 0)
            batch_s = atof(argv[at + 1]) * 1e-6;
    if (size != 2 || at >= argc || batches < 1 || batches > MAX_BATCHES) {
        if (rank == 0)
            fprintf(stderr, "pingpong: 2 ranks, 1 to %d batches, and sizes\n", MAX_BATCHES);
        MPI_Finalize();
        return 2;
    }
    take_a_processor(rank_on_node());
    for (; at < argc; at++) {
        int bytes = atoi(argv[at]);
        char *buffer = aligned_alloc(4096, ((size_t)bytes + 4096) / 4096 * 4096);
        if (buffer == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        memset(buffer, rank, (size_t)bytes);
        int count = calibrated(buffer, bytes, rank, batch_s);
        for (int i = 0; i < batches; i++)
            half_ns[i] = bounce(buffer, bytes, count, rank) / count / 2 * 1e9;
        for (int i = 0; i < batches && rank == 0; i++)
            printf("%d %.1f\n", bytes, half_ns[i]);
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
