/*
 * next.h - finds the definitions of MPI's calls behind the shim's own.
 *
 * Not every process with the preload is a rank of the MPI that the shim was built for. A
 * program may have a serial stand-in for MPI, another MPI, or a weak symbol and no MPI at all.
 * Its calls go on to the definition that it has without the shim.
 *
 * A handle may be wider there than in this MPI. An entry passes such a call on before it does
 * anything else, so that compilers make it a jump and leave the arguments in their registers.
 */
#ifndef COSCHED_NEXT_H
#define COSCHED_NEXT_H

#include "base/pmpi.h"

/* By the names MPI_x and PMPI_x. Filled by cosched_next_find; other members stay NULL. */
extern struct cosched_pmpi cosched_next_mpi;
extern struct cosched_pmpi cosched_next_pmpi;

/* Looks for the definitions. Without one a call does nothing and succeeds; the first one is
 * reported. */
void cosched_next_find(void);

#endif
