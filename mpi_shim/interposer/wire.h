/*
 * wire.h - a user's message as it travels: one status byte, then the user's data.
 *
 * Three shapes, chosen by the side that holds the buffer; on the wire they are the same
 * bytes, so that any send can match any receive:
 *
 *   PLAIN    the user's own arguments: the message carries no status byte
 *   BOUNCED  a contiguous copy {byte, data}, sent as MPI_BYTE. One memcpy, no datatype to
 *            make: the cheapest for small messages.
 *   TYPED    a datatype {byte, count x type} with absolute addresses, sent from MPI_BOTTOM.
 *            Works for any datatype and copies nothing, but making the type costs as much
 *            as sending a small message, and some transports pack it slowly.
 *
 * The capacity of a receive grows by one byte as well, so that what is too long for the
 * user's buffer is too long for this one.
 */
#ifndef COSCHED_WIRE_H
#define COSCHED_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "pmpi.h"
#include "shim.h"

/* Largest message that a blocking call bounces through its own stack. */
#define COSCHED_WIRE_ROOM 16384

/* Largest contiguous message that is bounced at all. MPICH's UCX transport packs what is
 * not contiguous piece by piece, which costs more than a copy at every size measured;
 * Open MPI sends a large typed message as fast as a plain one. */
#ifdef OPEN_MPI
#define COSCHED_WIRE_BOUNCE_MAX 16384
#else
#define COSCHED_WIRE_BOUNCE_MAX (4 << 20)
#endif

/* Room on the stack of a blocking call. The status byte goes before a cache line, so that
 * the copy of the user's data is aligned. */
struct cosched_wire_room {
    _Alignas(64) unsigned char bytes[64 + COSCHED_WIRE_ROOM];
};

enum cosched_wire_shape { COSCHED_WIRE_PLAIN = 0, COSCHED_WIRE_BOUNCED, COSCHED_WIRE_TYPED };

struct cosched_wire {
    /* What the PMPI call is given. */
    void *data;
    cosched_count count;
    MPI_Datatype type;
    /* Where things are. */
    void *user;           /* BOUNCED: the user's buffer */
    size_t bytes;         /* the user's bytes; of a receive, its capacity */
    unsigned char *block; /* BOUNCED: the copy, status byte first */
    void *heap;           /* what release() frees, or NULL */
    unsigned char byte;   /* the status byte of a TYPED one: the wire must not move */
    unsigned char shape;
};

/* The user's arguments unchanged. */
static inline void cosched_wire_plain(struct cosched_wire *wire, const void *buf,
                                      cosched_count count, MPI_Datatype type) {
    wire->data = (void *)(uintptr_t)buf;
    wire->count = count;
    wire->type = type;
    wire->heap = NULL;
    wire->shape = COSCHED_WIRE_PLAIN;
}

/* A message to send (out), room to receive one (in), or a message of a persistent request
 * (out_again). With `room` NULL a copy is on the heap and outlives the call. MPI_SUCCESS, or
 * MPI's error with nothing to release. What MPI itself is going to refuse (a negative count,
 * a null datatype) stays PLAIN, so that the error is the library's own. */
int cosched_wire_out(struct cosched_wire *wire, struct cosched_wire_room *room, const void *buf,
                     cosched_count count, MPI_Datatype type);
int cosched_wire_out_again(struct cosched_wire *wire, const void *buf, cosched_count count,
                           MPI_Datatype type);
int cosched_wire_in(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                    cosched_count count, MPI_Datatype type);

/* Room that is TYPED whatever the datatype: where the library delivers without telling how
 * much it was. */
int cosched_wire_in_place(struct cosched_wire *wire, void *buf, cosched_count count,
                          MPI_Datatype type);

/* Before each start of a persistent request: the task's status and the user's data of this
 * moment. */
void cosched_wire_load(struct cosched_wire *wire);

/* Whether a receive that ended with this error brought a message: it did, or too long a one. */
bool cosched_wire_arrived(int error);

/* After a receive completed: hands the data to the user, reads the status byte, and takes it
 * off the status. */
void cosched_wire_deliver(struct cosched_wire *wire, MPI_Status *status);

/* Takes the status byte off the status of a message that was only probed, or delivered
 * before. */
void cosched_wire_trim(MPI_Status *status);

/* Frees the copy or the datatype. A pending call keeps its datatype alive, not its copy. */
void cosched_wire_release(struct cosched_wire *wire);

/* The user's bytes in count x type if they lie in memory one after the other, in the order
 * in which they travel: a predefined type without gaps. Otherwise -1. */
long long cosched_wire_flat_bytes(cosched_count count, MPI_Datatype type);

#endif
