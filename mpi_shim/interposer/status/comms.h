/*
 * comms.h - records for each communicator whether its messages carry the status byte, and which
 * ranks of MPI_COMM_WORLD its ranks are.
 *
 * Both sides of a message must agree on the byte without asking each other. The rule: a
 * communicator carries it if all its processes, local and remote, are in this process's
 * MPI_COMM_WORLD. Those were started together, with one environment. If one member sees a
 * stranger, all members do, and the stranger sees them as strangers too. This covers
 * MPI_Comm_spawn, connect, accept and join, and what is derived from them, without a wrapper
 * for any of these calls.
 *
 * A record is made once for each communicator. It is kept as an attribute, which ends with the
 * communicator, and by each request that needs it longer.
 */
#ifndef COSCHED_COMMS_H
#define COSCHED_COMMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pmpi.h"

/* The ranks that messages in a communicator come from and go to: its own, or of an
 * inter-communicator the remote ones. */
struct cosched_comm {
    long holders;
    bool carries;  /* its messages begin with a status byte, if the job's messages do */
    bool exempt;   /* it does not, and neither do its duplicates */
    bool is_world; /* its ranks are those of MPI_COMM_WORLD */
    int size;
    int me;      /* this process's rank in its own group */
    int world[]; /* if not is_world: rank in MPI_COMM_WORLD, or negative for a stranger */
};

/* Valid as long as the communicator. NULL: this process alone, or the library or the memory
 * fails. */
struct cosched_comm *cosched_comms_find(MPI_Comm comm);

/* Keeps a record beyond the communicator's end, and gives it back. NULL is allowed. */
struct cosched_comm *cosched_comms_hold(struct cosched_comm *record);
void cosched_comms_release(struct cosched_comm *record);

/* Returns the rank in MPI_COMM_WORLD. Negative: a stranger, or no rank of the communicator. */
static inline int cosched_comms_world_rank(const struct cosched_comm *record, int rank) {
    if (record == NULL || (unsigned)rank >= (unsigned)record->size)
        return -1;
    return record->is_world ? rank : record->world[rank];
}

/* Whether messages in comm begin with a status byte. */
bool cosched_comms_carry(MPI_Comm comm);

/* Exempts comm, and what is duplicated from it, from status bytes: for communicators in which
 * messages move by calls that the shim does not wrap. */
void cosched_comms_exempt(MPI_Comm comm);

/* Called after MPI_Init, and at the beginning of MPI_Finalize. */
void cosched_comms_open(void);
void cosched_comms_close(void);

/* Returns a communicator for work within this process. Its errors are returned, not handled. */
MPI_Comm cosched_comms_local(void);

/* Whether the shim has one of its own. A program that uses only sessions has none. */
bool cosched_comms_has_local(void);

/* Passes an error of the shim's own (or MPI_SUCCESS) to the error handler of comm, as the
 * library does with its errors. MPI_COMM_NULL: to the handler for calls without a communicator.
 * Returns the error. */
int cosched_comms_raise(MPI_Comm comm, int error);

/* The copy function of an attribute that stays with its communicator: duplicates do not get
 * it. Open MPI's own MPI_COMM_NULL_COPY_FN is in its library, which the shim must not need. */
int cosched_comms_stay(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag);

#endif
