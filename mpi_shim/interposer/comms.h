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

#include "pmpi.h"

/* Whether messages in comm begin with a status byte. */
bool cosched_comms_carry(MPI_Comm comm);

/* A communicator to name where MPI wants one for work within this process. */
MPI_Comm cosched_comms_local(void);

/* Exempts comm, and what is duplicated from it: for kinds of communicator in which
 * messages move by calls that the shim does not wrap. */
void cosched_comms_exempt(MPI_Comm comm);

#endif
