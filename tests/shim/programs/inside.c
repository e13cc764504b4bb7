/*
 * inside - a Fortran binding that is a part of the MPI library, and a program that begins MPI
 * through it.
 *
 * With BINDING defined this is the binding. Its file is named libmca_*, so the interposer takes
 * it for a part of the library. Without BINDING it is the program, which fails if MPI did not
 * begin.
 */
#include <mpi.h>
#include <stddef.h>

void mpi_init_(int *error);

#ifdef BINDING
void mpi_init_(int *error) { *error = PMPI_Init(NULL, NULL); }
#else
int main(void) {
    int error = MPI_SUCCESS;
    mpi_init_(&error);
    if (error != MPI_SUCCESS)
        return 1;
    MPI_Finalize();
    return 0;
}
#endif
