/*
 * copies.h - decides up to which length a message is copied to get its status byte in front.
 *
 * A longer message is sent from, or received into, a datatype of two parts. Then the shim
 * copies nothing, but the library may be slow. Each side chooses for itself, since the bytes
 * that travel are the same (wire.h).
 */
#ifndef COSCHED_COPIES_H
#define COSCHED_COPIES_H

#include <stdbool.h>

/* Largest message that a blocking call copies through its own stack. */
#define COSCHED_COPIES_ROOM 16384

struct cosched_copies {
    long long out_max; /* bytes to send */
    long long in_max;  /* bytes to receive */
    bool of_any_type;  /* the limits also apply to messages with gaps; otherwise all are copied */
};

extern struct cosched_copies cosched_copies;

/* Sets the best lengths for the library and its transport. Call it after MPI_Init. */
void cosched_copies_choose(void);

#endif
