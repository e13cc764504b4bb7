/* Does what its first argument names, and prints what the test expects. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void compute(void) {
    int sum = 0, part = 0, value = rank + 1;
    MPI_Comm half, node;
    int node_rank, node_size;
    for (int round = 0; round < 20; round++)
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Allreduce(&value, &part, 1, MPI_INT, MPI_SUM, half);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    printf("%d %d %d %d %d %d\n", rank, size, sum, part, node_rank, node_size);
    MPI_Comm_free(&node);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "compute";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    compute();
    fflush(stdout);
    if (!strcmp(what, "abort") && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(what, "exit") && rank == size - 1)
        _exit(0);
    if (!strcmp(what, "spawn")) {
        MPI_Comm child;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        int error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                                   MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
        printf("spawn %s\n", error == MPI_SUCCESS ? "worked" : "failed");
    }
    if (!strcmp(what, "abort") || !strcmp(what, "exit"))
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
