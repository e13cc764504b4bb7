/*
 * copies.h - how long a message may be that is copied to get its status byte in front.
 *
 * What is longer travels from, or into, a datatype of two parts: nothing is copied by the
 * shim, but the library may be slow with it. Each side chooses for itself, since what travels is
 * the same bytes (wire.h).
 */
#ifndef COSCHED_COPIES_H
#define COSCHED_COPIES_H

/* Both in bytes, of contiguous messages; whatever is not contiguous is copied. */
struct cosched_copies {
    long long out_max;
    long long in_max;
};

/* Until MPI_Init is over. */
extern const struct cosched_copies cosched_copies_safe;

/* The best for the library and its transport; after MPI_Init. */
struct cosched_copies cosched_copies_choose(void);

#endif
