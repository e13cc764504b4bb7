/*
 * wire.h - a user's message as it travels: one status byte, then the user's data.
 *
 * Three shapes, chosen by the side that holds the buffer; on the wire they are the same
 * bytes, so that any send can match any receive:
 *
 *   PLAIN    the user's own arguments: the message carries no status byte
 *   COPIED   a copy {byte, data} on the stack or the heap, sent as MPI_BYTE. One memcpy for
 *            what is contiguous, MPI_Pack for other datatypes; no datatype to make: the
 *            cheapest for small messages.
 *   TYPED    a datatype {one byte, n bytes} with absolute addresses, sent from MPI_BOTTOM.
 *            Copies nothing, but making it costs as much as sending a small message. Made
 *            of bytes alone: MPICH refuses to receive a message of which a segment ends
 *            within an element, which one byte more in front makes happen.
 *
 * The capacity of a receive grows by one byte as well, so that what is too long for the
 * user's buffer is too long for this one.
 */
#ifndef COSCHED_WIRE_H
#define COSCHED_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pmpi.h"
#include "base/state.h"

/* Largest message that a blocking call copies through its own stack. */
#define COSCHED_WIRE_ROOM 16384

/* Room on the stack of a blocking call. The status byte goes before a cache line, so that
 * the copy of the user's data is aligned. */
struct cosched_wire_room {
    _Alignas(64) unsigned char bytes[64 + COSCHED_WIRE_ROOM];
};

enum cosched_wire_shape { COSCHED_WIRE_PLAIN = 0, COSCHED_WIRE_COPIED, COSCHED_WIRE_TYPED };

struct cosched_wire {
    /* What the PMPI call is given. */
    void *data;
    cosched_count count;
    MPI_Datatype type;
    /* COPIED: where the message comes from or goes to, and the copy. */
    void *user;
    cosched_count user_count;
    MPI_Datatype user_type; /* MPI_DATATYPE_NULL: contiguous */
    size_t bytes;           /* the user's bytes; of a receive, its capacity */
    unsigned char *block;   /* the status byte, then the data */
    void *heap;             /* what release() gives back, or NULL */
    unsigned char byte; /* TYPED: the status byte, so the wire must not move */
    unsigned char shape;
    bool holds_type; /* user_type is our own */
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

/* Size of the datatype that this thread sent last, if it is predefined and has no gaps. */
struct cosched_sent_type {
    MPI_Datatype type;
    uint64_t size; /* 0: none so far */
};

extern _Thread_local struct cosched_sent_type cosched_sent_type;

void cosched_wire_count_new(cosched_count count, MPI_Datatype type);

/* The bytes of a message; 0 if its type or count is not valid. */
uint64_t cosched_wire_bytes(cosched_count count, MPI_Datatype type);

/* Counts a message whose status travels beside it. */
static inline void cosched_wire_count(cosched_count count, MPI_Datatype type) {
    if (__builtin_expect(cosched_sent_type.type != type || cosched_sent_type.size == 0 ||
                             count < 0,
                         0)) {
        cosched_wire_count_new(count, type);
        return;
    }
    cosched_task_count(&cosched_shim.link.counters->sent, 1);
    cosched_task_count(&cosched_shim.link.counters->bytes_sent, cosched_sent_type.size * (uint64_t)count);
}

/* A message to send (out), room to receive one (in), or a message of a persistent request
 * (out_again). With `room` NULL a copy is on the heap and outlives the call. MPI_SUCCESS, or
 * MPI's error with nothing to release. What MPI itself is going to refuse (a negative count, a
 * null or uncommitted datatype) stays PLAIN, so that the error is the library's own. */
int cosched_wire_out(struct cosched_wire *wire, struct cosched_wire_room *room, const void *buf,
                     cosched_count count, MPI_Datatype type);
int cosched_wire_out_again(struct cosched_wire *wire, const void *buf, cosched_count count,
                           MPI_Datatype type);
int cosched_wire_in(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                    cosched_count count, MPI_Datatype type);

/* A message to send that is copied whatever its size: the user's buffer is free at once.
 * MPI_ERR_COUNT where counts are ints and the copy has more bytes than they can say. */
int cosched_wire_out_copied(struct cosched_wire *wire, struct cosched_wire_room *room,
                            const void *buf, cosched_count count, MPI_Datatype type);

/* A copy of the user's data alone, without a status byte and not counted as a message:
 * data, count and type say what it is. MPI_ERR_COUNT as above, if there are gaps in the type. */
int cosched_wire_copy(struct cosched_wire *wire, const void *buf, cosched_count count,
                      MPI_Datatype type);

/* Before each start of a persistent request: the task's status and the user's data of this
 * moment. */
int cosched_wire_load(struct cosched_wire *wire);

/* Whether a receive that ended with this error brought a message: it did, or too long a one. */
bool cosched_wire_arrived(int error);

/* After a receive completed: hands the data to the user, reads the status byte, and takes it
 * off the status. MPI_SUCCESS, or MPI's error if the data could not be handed over. */
int cosched_wire_deliver(struct cosched_wire *wire, MPI_Status *status);

/* Takes the status byte off the status of a message that was only probed, or delivered
 * before. */
void cosched_wire_trim(MPI_Status *status);

/* Whether a send of this is so short that the library has it off in no time. */
bool cosched_wire_is_short(const struct cosched_wire *wire);

/* Frees the copy or the datatype. A pending call keeps its datatype alive, not its copy. */
void cosched_wire_release(struct cosched_wire *wire);

#endif
