/* laps NAME STOP: ranks that exchange a number in each lap until the file STOP is there.
 *
 * Rank 0 keeps the number of laps in the file NAME. At the end it prints how many there were,
 * and whether each exchange was right. */

#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { WORK = 20000 };

/* Computes for a while; returns 0, which the compiler cannot foresee. */
static double work(void)
{
    volatile double x = 1.0;
    for (int i = 0; i < WORK; i++)
        x = x * 0.5 + 0.5;
    return x - 1.0;
}

int main(int argc, char **argv)
{
    int rank, size, right = 1, file = -1;
    long laps = 0;
    if (argc != 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        file = open(argv[1], O_CREAT | O_EXCL | O_WRONLY, 0644);
    /* The first sum is the check, the second is not 0 once all ranks are to end. */
    for (double own[2], all[2] = {0, 0}; all[1] == 0; laps++) {
        own[0] = work() + rank + 1;
        own[1] = rank == 0 && access(argv[2], F_OK) == 0;
        MPI_Allreduce(own, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        right &= all[0] == size * (size + 1) / 2.0;
        if (rank == 0)
            right &= pwrite(file, &laps, sizeof laps, 0) == sizeof laps;
    }
    if (rank == 0)
        printf("%s after %ld laps\n", right ? "right" : "wrong", laps);
    MPI_Finalize();
    return 0;
}
