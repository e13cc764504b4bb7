/*
 * halves.c - the half of an MPI library that has the names without a P, where the other half is
 * a library of its own: what no tool has tells it from one.
 */
#include <mpi.h>

int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }

int MPI_T_init_thread(int required, int *provided) {
    return PMPI_T_init_thread(required, provided);
}
