/*
 * cosched/mpi_calls.h - declares the MPI calls that the shims of a job's ranks make together,
 * as each shim provides them.
 *
 * The rules of these calls stand once, in join.h and roll.h: which ones, in which order, how long
 * a rank waits. The interposer fills the table in with calls of its MPI library, the wrapper with
 * calls of mpi4py.
 *
 * `shim` is the shim's own. At most one collective call is under way at a time, on memory that
 * stays in place until it is complete. A call returns 0 unless it says otherwise. After an error
 * it returns a negative number, and never ends the program.
 */
#ifndef COSCHED_MPI_CALLS_H
#define COSCHED_MPI_CALLS_H

#include <stdint.h>

/* cdef: begin */
enum cosched_mpi_limits {
    COSCHED_PORT_BYTES = 16 /* the longest port that these ranks publish, with its final NUL */
};

/* The lines that a shim prints on standard error. */
enum cosched_line {
    COSCHED_LINE_JOB,     /* about the whole job */
    COSCHED_LINE_WARNING, /* about this process */
    COSCHED_LINE_DETAIL   /* about this process, if COSCHED_VERBOSE is 1 */
};

struct cosched_mpi_calls {
    /* The service for names. look_up returns 1 if the name is published, and writes its port,
     * cut off to the size above; otherwise it returns 0. */
    int (*publish)(void *shim, const char *name, const char *port);
    int (*look_up)(void *shim, const char *name, char *port);
    int (*withdraw)(void *shim, const char *name);

    /* Begins to make the communicator of the shims: MPI_Comm_idup of MPI_COMM_WORLD. `entered` is
     * called once it is complete. */
    int (*enter)(void *shim);
    int (*entered)(void *shim);

    /* Begin a call in that communicator: MPI_Iallreduce (MPI_MIN) of *value, in place; MPI_Igather
     * of `bytes` bytes at rank 0, where `all` has room for those of each rank; MPI_Ibarrier. */
    int (*find_least)(void *shim, int32_t *value);
    int (*gather)(void *shim, const void *own, void *all, int32_t bytes);
    int (*meet)(void *shim);

    /* Begins MPI_Ireduce_scatter_block (MPI_SUM) of the numbers of status bytes that this rank has
     * sent to each: *due becomes the number that was sent to this rank. */
    int (*sum_sent)(void *shim, int32_t *due);

    /* Returns 1 if the call that was begun last is complete, 0 if it is still under way. */
    int (*is_complete)(void *shim);

    /* Receives the status bytes that have come. Returns how many it has received in all. */
    int (*receive)(void *shim);

    /* Frees the communicator. */
    int (*leave)(void *shim);

    /* Ends all ranks: MPI_Abort of MPI_COMM_WORLD with status 1. */
    int (*end_job)(void *shim);

    /* Prints a line. kind: enum cosched_line. */
    int (*print)(void *shim, uint32_t kind, const char *line);
};
/* cdef: end */

#endif
