/*
 * peers.h - who the ranks of a communicator are in MPI_COMM_WORLD.
 *
 * Asked of the library once for each communicator; kept as an attribute, so that it ends
 * with it, and by whoever holds it longer.
 */
#ifndef COSCHED_PEERS_H
#define COSCHED_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pmpi.h"

/* Those that messages in a communicator come from and go to: its ranks, or, of an
 * inter-communicator, the remote ones. */
struct cosched_peers {
    long holders;
    int size;
    int me;        /* this process's rank in its own group */
    bool is_world; /* ranks are those of MPI_COMM_WORLD */
    int world[];   /* else: rank in MPI_COMM_WORLD, or negative for a stranger */
};

/* Valid as long as the communicator. NULL: nobody but this process, or not to be found. */
struct cosched_peers *cosched_peers_of(MPI_Comm comm);

/* Rank in MPI_COMM_WORLD, or negative: a stranger, or no rank at all. */
static inline int cosched_peers_rank(const struct cosched_peers *peers, int rank) {
    if (peers == NULL || (unsigned)rank >= (unsigned)peers->size)
        return -1;
    return peers->is_world ? rank : peers->world[rank];
}

/* Keeps it beyond the communicator's end, and lets it go. NULL is allowed. */
struct cosched_peers *cosched_peers_hold(struct cosched_peers *peers);
void cosched_peers_release(struct cosched_peers *peers);

#endif
