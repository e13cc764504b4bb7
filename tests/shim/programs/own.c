/*
 * own - messages that only the MPI library receives, like those of its I/O layer, and a program
 * in which the library waits for twenty of them, one after the other.
 *
 * With LIBRARY defined this is the library's part. Its file is named libmca_*, so the shim takes
 * it for a part of the library.
 */
#ifdef LIBRARY
#include <mpi.h>

void own_receive(int *value) {
    if (PMPI_Recv(value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        *value = -1;
}
#else
#include <unistd.h>

#include "check.h"

void own_receive(int *value);

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 0; i < 20; i++) {
        int value = i;
        if (rank == 0) {
            usleep(20000);
            MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        } else
            own_receive(&value);
        CHECK(value == i, "got %d for %d", value, i);
    }
    print_line("received");
    return finish();
}
#endif
