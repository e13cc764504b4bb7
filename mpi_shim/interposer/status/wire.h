/*
 * wire.h - lays out a user's message as it travels: one status byte, then the user's data.
 *
 * There are three shapes. The side that holds the buffer chooses. On the wire they are the same
 * bytes, so any send can match any receive:
 *
 *   PLAIN    the user's own arguments: the message carries no status byte
 *   COPIED   a copy {byte, data} on the stack or the heap, sent as MPI_BYTE. It takes one
 *            memcpy for contiguous data, or MPI_Pack for other datatypes, and no new datatype:
 *            the cheapest shape for small messages.
 *   TYPED    a datatype {one byte, n bytes} with absolute addresses, sent from MPI_BOTTOM. It
 *            copies nothing, but making it costs as much as sending a small message. It is made
 *            of bytes: with the status byte in front a segment of the message may end within an
 *            element, and such a message MPICH refuses to receive. Open MPI accepts it, so there
 *            the datatype may be made of the user's elements.
 *
 * The capacity of a receive grows by one byte as well, so that a message too long for the
 * user's buffer is too long for this one.
 */
#ifndef COSCHED_WIRE_H
#define COSCHED_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pmpi.h"
#include "base/state.h"
#include "status/copies.h"

/* Room on the stack of a blocking call. The status byte is the last of a cache line, so the
 * copy of the user's data is aligned. */
struct cosched_wire_room {
    _Alignas(64) unsigned char bytes[64 + COSCHED_COPIES_ROOM];
};

enum cosched_wire_shape { COSCHED_WIRE_PLAIN = 0, COSCHED_WIRE_COPIED, COSCHED_WIRE_TYPED };

struct cosched_wire {
    /* The arguments of the PMPI call. */
    void *data;
    cosched_count count;
    MPI_Datatype type;
    /* COPIED: where the message comes from or goes to, and the copy. */
    void *user;
    cosched_count user_count;
    MPI_Datatype user_type; /* MPI_DATATYPE_NULL: contiguous */
    size_t bytes;           /* the user's bytes; in a receive, its capacity */
    unsigned char *block;   /* the status byte, then the data */
    void *heap;             /* the copy to free, or NULL */
    unsigned char byte;     /* TYPED: the status byte, so the wire must not move */
    unsigned char shape;    /* enum cosched_wire_shape */
    bool holds_type;        /* user_type is the shim's own */
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

/* The size of the datatype that this thread sent last, if it is predefined and has no gaps. */
struct cosched_sent_type {
    MPI_Datatype type;
    uint64_t size; /* 0: none so far */
};

extern _Thread_local struct cosched_sent_type cosched_sent_type;

void cosched_wire_count_new(cosched_count count, MPI_Datatype type);

/* Returns the bytes of a message; 0 if its type or count is not valid. */
uint64_t cosched_wire_bytes(cosched_count count, MPI_Datatype type);

/* Counts a message that is sent without a status byte in front. */
static inline void cosched_wire_count(cosched_count count, MPI_Datatype type) {
    if (__builtin_expect(cosched_sent_type.type != type || cosched_sent_type.size == 0 ||
                             count < 0,
                         0)) {
        cosched_wire_count_new(count, type);
        return;
    }
    cosched_task_count(&cosched_state.link.counters->sent, 1);
    cosched_task_count(&cosched_state.link.counters->bytes_sent,
                       cosched_sent_type.size * (uint64_t)count);
}

/* Lay out a message to send (out), a message of a persistent request (out_again), or room to
 * receive one (in). With `room` NULL a copy is on the heap and outlives the call. Return
 * MPI_SUCCESS, or MPI's error with nothing to release. Arguments that MPI refuses (a negative
 * count, a null or uncommitted datatype) stay PLAIN, so that the error is the library's own. */
int cosched_wire_out(struct cosched_wire *wire, struct cosched_wire_room *room, const void *buf,
                     cosched_count count, MPI_Datatype type);
int cosched_wire_out_again(struct cosched_wire *wire, const void *buf, cosched_count count,
                           MPI_Datatype type);
int cosched_wire_in(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                    cosched_count count, MPI_Datatype type);

/* Lays out a message to send, copied whatever its size: the user's buffer is free at once.
 * MPI_ERR_COUNT where counts are ints and the copy has more bytes than an int can count. */
int cosched_wire_out_copied(struct cosched_wire *wire, struct cosched_wire_room *room,
                            const void *buf, cosched_count count, MPI_Datatype type);

/* Copies the user's data alone, without a status byte, and counts no message. The copy's data,
 * count and type are in the wire. MPI_ERR_COUNT as above, for a type with gaps. */
int cosched_wire_copy(struct cosched_wire *wire, const void *buf, cosched_count count,
                      MPI_Datatype type);

/* Writes the task's present status and the user's present data into the message. Called before
 * each start of a persistent request. */
int cosched_wire_load(struct cosched_wire *wire);

/* Whether a receive that ended with this error got a message: also one that was too long. */
bool cosched_wire_arrived(int error);

/* Hands the data of a completed receive to the user, reads the status byte, and takes it off
 * the status's size. Returns MPI_SUCCESS, or MPI's error if that failed. */
int cosched_wire_deliver(struct cosched_wire *wire, MPI_Status *status);

/* Takes the status byte off the size in the status of a message that was only probed, or was
 * delivered before. */
void cosched_wire_trim(MPI_Status *status);

/* Whether the message is so short that the library sends it without waiting. */
bool cosched_wire_is_short(const struct cosched_wire *wire);

/* Frees the copy or the datatype. A pending call keeps its datatype, but not its copy. */
void cosched_wire_release(struct cosched_wire *wire);

#endif
