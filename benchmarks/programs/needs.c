/* needs: iterations that each need one resource of the node, and then a message around all ranks.

Purpose. Jobs of different needs share the two halves of a node, and cosched looks at each alone. On an
emulated node (benchmarks/kernels/c/node.h, KERNEL_NODE) the need is for a memory or a disk of a stated
speed; without one a rank only computes.

    needs KIND ITERATIONS     KIND: cpu, stream, gups or io

Each iteration is marked. It streams 256 KiB, makes 8192 random accesses, moves 64 KiB of a file, or
computes for 20,000 units, about a nanosecond each.

Verification. Each rank adds the number of the iteration to a sum over all ranks; rank 0 compares the
result. */

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "../../cosched/malleable/native/include/cosched/mark.h"
#include "../kernels/c/kernel.h"

static uint64_t compute(uint64_t x, int units) {
    for (int i = 0; i < units; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x)); /* or the compiler may shorten the chain */
    }
    return x;
}

static int iterate(const char *kind) {
    static uint64_t state = 1;
    kernel_round_begin();
    if (strcmp(kind, "stream") == 0)
        kernel_streams(262144.0);
    else if (strcmp(kind, "gups") == 0)
        kernel_accesses(8192.0);
    else if (strcmp(kind, "io") == 0)
        kernel_moves(65536.0);
    else if (strcmp(kind, "cpu") != 0)
        return 0;
    state = compute(state, 20000);
    kernel_round_end();
    return 1;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *kind = argc == 3 ? argv[1] : "";
    const long iterations = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (iterations < 1 || !iterate(kind)) {
        if (rank == 0)
            fprintf(stderr, "usage: needs cpu|stream|gups|io ITERATIONS\n");
        MPI_Finalize();
        return 2;
    }
    kernel_node_open("needs");
    uint64_t sum = 0, all, mine;
    const double begin = MPI_Wtime();
    for (long iteration = 0; iteration < iterations; iteration++) {
        iterate(kind);
        cosched_mark();
        mine = (uint64_t)iteration;
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    const double seconds = MPI_Wtime() - begin;
    const uint64_t wanted =
        (uint64_t)ranks * (uint64_t)iterations * (uint64_t)(iterations - 1) / 2;
    if (rank == 0)
        printf("needs %s iterations %ld seconds %.3f verification: %s\n", kind, iterations, seconds,
               sum == wanted ? "success" : "failure");
    MPI_Finalize();
    return sum != wanted;
}
