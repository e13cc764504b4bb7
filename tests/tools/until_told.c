/* Runs on all ranks until the file of the first argument is there for each of them. Then
 * each rank prints "RANK: told". */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    MPI_Init(&argc, &argv);
    int rank, told = 0, all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (!all) {
        told = access(argv[1], F_OK) == 0;
        MPI_Allreduce(&told, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        usleep(1000);
    }
    MPI_Finalize();
    printf("%d: told\n", rank);
    return 0;
}
