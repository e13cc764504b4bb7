/*
 * change.h - reads a change of a job's size, as it stands in the page of each node. It is the same as
 * cosched/core/cluster/resizing/change.py.
 */
#ifndef COSCHED_MALLEABLE_CHANGE_H
#define COSCHED_MALLEABLE_CHANGE_H

#include <stdint.h>

/* cdef: begin */
enum { COSCHED_HOST_BYTES = 256 };

/* Where a rank runs. */
struct cosched_spot {
    uint32_t place; /* of its node in the job */
    char host[256]; /* as MPI_Comm_spawn takes it; empty: any node */
};

/* Ranks that come to a node. */
struct cosched_arrival {
    struct cosched_spot spot;
    uint32_t ranks; /* how many */
};

/* A committed change: some nodes leave, and some ranks come. */
struct cosched_change {
    uint64_t generation; /* of the order */
    uint32_t leaving_count;
    uint32_t arriving_count;
    uint32_t *leaving; /* places of nodes, all of whose ranks leave */
    struct cosched_arrival *arriving; /* in the order of their ranks */
};

/* Reads MessagePack. Returns 0, -EBADMSG: it is no change, -ENOMEM. The caller frees the change. */
int cosched_change_decode(struct cosched_change *change, const uint8_t *data, uint64_t bytes);

void cosched_change_free(struct cosched_change *change);
/* cdef: end */

_Static_assert(COSCHED_HOST_BYTES == 256, "the literals in the cffi part follow the constant");

#endif
