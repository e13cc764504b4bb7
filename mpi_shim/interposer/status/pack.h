/*
 * pack.h - data of any datatype as one row of bytes, in the order in which it would travel,
 * and back. On machines of one kind this is what the library itself puts on the wire.
 */
#ifndef COSCHED_PACK_H
#define COSCHED_PACK_H

#include <stddef.h>

#include "base/pmpi.h"

/* The bytes of one element, or -1 with MPI's error in *rc. */
long long cosched_pack_size(MPI_Datatype type, int *rc);

/* count x type at buf, into `bytes` (their exact number) at row. MPI_SUCCESS or MPI's error. */
int cosched_pack_out(void *row, size_t bytes, const void *buf, cosched_count count,
                     MPI_Datatype type);

/* The first `bytes` of count x type, which may end within an element, from row to buf. */
int cosched_pack_in(const void *row, size_t bytes, void *buf, cosched_count count,
                    MPI_Datatype type);

#endif
