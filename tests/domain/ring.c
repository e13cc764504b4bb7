/* Sends a number around the ring of ranks; rank 0 prints the sum of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int token = rank, next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < size; i++)
        MPI_Sendrecv_replace(&token, 1, MPI_INT, next, 0, last, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    if (token != rank)
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (argc > 1)
        usleep((useconds_t)(atof(argv[1]) * 1e6));
    if (rank == 0)
        printf("%d ranks, sum %d\n", size, sum);
    MPI_Finalize();
    return 0;
}
