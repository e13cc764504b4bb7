/*
 * comms.h - over which communicators the status byte travels.
 *
 * Both sides must agree without asking each other. The rule: a communicator carries it if
 * all its processes, local and remote, are in this process's MPI_COMM_WORLD, since those
 * were started together, with one environment. If one member sees a stranger, so do all of
 * the stranger's peers and the stranger itself. That covers MPI_Comm_spawn, connect, accept
 * and join, and whatever is derived from them, without a wrapper for any of these calls.
 */
#ifndef COSCHED_COMMS_H
#define COSCHED_COMMS_H

#include <stdbool.h>

#include "base/pmpi.h"

/* Whether messages in comm begin with a status byte. */
bool cosched_comms_carry(MPI_Comm comm);

/* After MPI_Init, and at the beginning of MPI_Finalize. */
void cosched_comms_open(void);
void cosched_comms_close(void);

/* A communicator to name where MPI wants one for work within this process. What is wrong
 * with that work is returned, and nobody else hears of it. */
MPI_Comm cosched_comms_local(void);

/* Whether there is one of the shim's own: not in a program that has sessions alone. */
bool cosched_comms_has_local(void);

/* What the shim found wrong (MPI_SUCCESS: nothing) goes to the error handler of comm, as the
 * library's own errors did before they were returned; MPI_COMM_NULL: to the one that is for
 * calls without a communicator. Returns the error. */
int cosched_comms_raise(MPI_Comm comm, int error);

/* Exempts comm, and what is duplicated from it: for kinds of communicator in which
 * messages move by calls that the shim does not wrap. */
void cosched_comms_exempt(MPI_Comm comm);

#endif
