/*
 * attributes.h - what the attributes of the shim's own have in common.
 */
#ifndef COSCHED_ATTRIBUTES_H
#define COSCHED_ATTRIBUTES_H

#include "base/pmpi.h"

/* The copy function of an attribute that a duplicate of the communicator does not get. A
 * function of our own, since Open MPI's MPI_COMM_NULL_COPY_FN is one in its library. */
static inline int cosched_attribute_stays(MPI_Comm comm, int keyval, void *extra, void *value,
                                          void *copy, int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

#endif
