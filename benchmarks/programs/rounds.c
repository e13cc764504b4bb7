/* rounds SECONDS: computes for this time, in rounds of equal work, and marks each round.
 *
 * Rank 0 prints "rounds N seconds S": its rounds, and the time that they took. Work that is
 * counted, not timed, shows each moment in which the program did not run. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cosched/mark.h>

/* Some tenths of a millisecond. */
enum { STEPS = 200000 };

/* Each step needs the result of the one before, so a compiler cannot shorten them. */
static uint64_t compute(uint64_t x)
{
    for (int32_t step = 0; step < STEPS; step++)
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return x;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const double seconds = argc == 2 ? strtod(argv[1], NULL) : 0.0;
    if (seconds <= 0.0) {
        fprintf(stderr, "usage: rounds SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    uint64_t x = (uint64_t)rank, rounds = 0;
    const double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < seconds) {
        x = compute(x);
        cosched_mark();
        rounds++;
    }
    const double took = MPI_Wtime() - begin;
    if (rank == 0)
        printf("rounds %llu seconds %.6f\n", (unsigned long long)rounds, took);
    MPI_Finalize();
    return x == 1 ? EXIT_FAILURE : EXIT_SUCCESS; /* the result is used */
}
