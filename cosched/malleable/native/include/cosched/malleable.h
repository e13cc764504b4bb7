/*
 * cosched/malleable.h - for MPI programs in C and Fortran whose number of ranks changes while they
 * run. docs/malleable.md shows how a loop becomes malleable.
 *
 * All ranks make the same calls in the same order, after MPI_Init and before MPI_Finalize. One
 * thread makes them; MPI_THREAD_SINGLE is enough. A program has one job, with one loop. Without an
 * agent of cosched the job is an ordinary MPI job of fixed size.
 *
 * Calls that return int return 0, or COSCHED_LEFT in a rank that the job has given back, or -errno.
 * The first error stays: each later call returns it, and does nothing. Rank 0 has then written one
 * line to standard error. No call ends the process, or writes to standard output.
 */
#ifndef COSCHED_MALLEABLE_H
#define COSCHED_MALLEABLE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The rank has left the job: it leaves its loop, calls cosched_job_end and MPI_Finalize, and ends. */
enum { COSCHED_LEFT = 1 };

struct cosched_job;

/* The rows that one rank has of an array. The rows of all ranks, in the order of ranks, are the
 * array. A row is row_bytes bytes of any kind, without holes between rows. */
struct cosched_block {
    void *data;        /* from malloc; the job resizes or replaces it, and the program frees the last */
    int64_t rows;      /* of this rank */
    int64_t first;     /* the number of its first row in the array */
    int64_t row_bytes; /* the size of a row; all ranks have the same one */
};

/* Begins a job, or joins it in a rank that a change has made. minimum, ideal: the least and the best
 * number of nodes; ideal 0: not known. -EINVAL for wrong numbers, before MPI_Init, and if the program has
 * begun a job before. */
int cosched_job_begin(struct cosched_job **job, int32_t minimum, int32_t ideal);

/* Cuts an array of so many rows into blocks that differ by one row at most, before the loop. whole:
 * the array in rank 0; NULL there: the rows are zeros. A rank that joins gets a block without rows, and
 * so does each rank after an error. */
int cosched_job_scatter(struct cosched_job *job, struct cosched_block *block, const void *whole,
                        int64_t rows, int64_t row_bytes);

/* Begins the next iteration. Returns 1, or 0 if there is none: `count` are done, or the rank has left;
 * count below 0: no end. step: the number of the iteration. The size may change before each one. */
int cosched_job_next(struct cosched_job *job, int64_t count, int64_t *step);

/* Returns whether this iteration begins with a change of the size. Then the program calls
 * cosched_job_redistribute in it, also in ranks that join or leave. */
bool cosched_job_resized(const struct cosched_job *job);

/* Gives all ranks rank 0's value. Before the loop, a rank that joins gets the value that the others
 * got. Between resized and redistribute it is the value of the rank 0 before the change. */
int cosched_job_bcast(struct cosched_job *job, void *value, int64_t bytes);

/* Moves the rows of all arrays of the program, so that each rank has its new blocks. Returns
 * COSCHED_LEFT in a rank that the job gives back: it has no rows, and leaves the loop. -EINVAL in all
 * ranks if the blocks do not fit together. Outside a change it evens the blocks out. */
int cosched_job_redistribute(struct cosched_job *job, struct cosched_block *blocks, int32_t count);

/* Writes the whole array to `whole` in rank 0; NULL elsewhere. */
int cosched_job_gather(struct cosched_job *job, const struct cosched_block *block, void *whole);

/* Returns the communicator of the job; it changes with the size. MPI_COMM_NULL in a rank that has left.
 * Between resized and redistribute the ranks do not have the same one. */
MPI_Comm cosched_job_comm(const struct cosched_job *job);

/* Returns the same as an integer of Fortran. */
MPI_Fint cosched_job_comm_f(const struct cosched_job *job);

/* Returns whether a change has made this rank. */
bool cosched_job_joined(const struct cosched_job *job);

/* Returns whether the job has given this rank back. */
bool cosched_job_left(const struct cosched_job *job);

/* Asks for a number of nodes. The queue may give another one, or none. Rank 0's number counts, and no
 * rank waits. */
int cosched_job_ask(struct cosched_job *job, int32_t nodes);

/* Returns the predicted time of an iteration on a number of nodes, in seconds. data: of the program. */
typedef double (*cosched_predict)(int32_t nodes, void *data);

/* Has the queue use the program's own prediction. Rank 0 calls it now and after each change of the size.
 * NULL takes it back. A time that is not above 0 is one line, and the prediction is ignored. */
int cosched_job_predict(struct cosched_job *job, cosched_predict predict, void *data);

/* Returns the mean time of this rank's iterations since the job has its size, in seconds; below 0
 * before the first one has ended. */
double cosched_job_exec_time(const struct cosched_job *job);

/* Returns the part of it in which this rank waited in MPI; below 0 without cosched's shim. */
double cosched_job_exec_time_comm(const struct cosched_job *job);

/* Ends this rank's part of the job, and frees it. Returns the first error of the job, otherwise 0. */
int cosched_job_end(struct cosched_job *job);

#ifdef __cplusplus
}
#endif

#endif
