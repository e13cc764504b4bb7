/* A broadcast to all ranks, again and again for the seconds that the first argument has. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, goes = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double end = MPI_Wtime() + atof(argv[1]);
    while (goes) {
        goes = MPI_Wtime() < end;
        MPI_Bcast(&goes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("a ring of %d has ended\n", ranks);
    MPI_Finalize();
    return 0;
}
