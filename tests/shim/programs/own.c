/*
 * Messages that only the MPI library receives, as its I/O layer has them, and a program that
 * makes it wait for twenty of them, one after the other.
 *
 * With LIBRARY defined this is the library's part: named libmca_*, the shim takes it for one.
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
    say("received");
    return finish();
}
#endif
