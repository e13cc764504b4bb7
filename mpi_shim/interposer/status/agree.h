/*
 * agree.h - the ranks of MPI_COMM_WORLD agree whether all of them have the shim, before they call
 * anything together: cosched/join.h has the protocol.
 */
#ifndef COSCHED_AGREE_H
#define COSCHED_AGREE_H

#include <stdint.h>

enum cosched_agreement {
    COSCHED_AGREED_ALL,     /* every rank has the shim */
    COSCHED_AGREED_SOME,    /* a rank has none; all other ranks get the same result */
    COSCHED_AGREED_UNKNOWN, /* there is no name service for these ranks */
};

/* Called after MPI_Init by each rank that has the shim. limit_ms: how long it looks for others. */
enum cosched_agreement cosched_agree(uint64_t limit_ms);

#endif
