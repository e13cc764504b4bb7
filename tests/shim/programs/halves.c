/*
 * halves.c - one half of an MPI library in two: the half with the names without a P. It has calls
 * that no profiling tool has.
 */
#include <mpi.h>

int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }

int MPI_T_init_thread(int required, int *provided) {
    return PMPI_T_init_thread(required, provided);
}
