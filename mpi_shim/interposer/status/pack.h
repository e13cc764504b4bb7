/*
 * pack.h - packs data of any datatype into a row of bytes, in the order in which it travels,
 * and unpacks it, also where it ends within an element. Between machines of one kind the
 * library sends the same bytes.
 */
#ifndef COSCHED_PACK_H
#define COSCHED_PACK_H

#include <stddef.h>

#include "base/pmpi.h"

/* Returns the bytes of one element, or -1 with MPI's error in *rc. */
long long cosched_pack_size(MPI_Datatype type, int *rc);

/* Packs `count` elements at `buf` into exactly `bytes` at `row`. MPI_SUCCESS or MPI's error. */
int cosched_pack_out(void *row, size_t bytes, const void *buf, cosched_count count,
                     MPI_Datatype type);

/* Unpacks the first `bytes` at `row`, which may end within an element, to `buf`. */
int cosched_pack_in(const void *row, size_t bytes, void *buf, cosched_count count,
                    MPI_Datatype type);

#endif
