/*
 * job.h - holds the job of this process, as job.c (its loop), arrays.c (its data) and before_loop.c
 * share it.
 */
#ifndef COSCHED_MALLEABLE_JOB_H
#define COSCHED_MALLEABLE_JOB_H

#include <stdbool.h>

#include "boundaries.h"
#include "cosched/malleable.h"
#include "worlds.h"

struct cosched_job {
    int status;       /* 0, COSCHED_LEFT, or the first error */
    bool all_have_it; /* all ranks have the error, so that they can still end together */
    bool joined, looped, resized, changing;
    int32_t minimum, ideal;
    cosched_predict predict; /* NULL: the program predicts nothing */
    void *predict_data;
    int64_t next_step;
    struct cosched_link link;
    struct cosched_worlds worlds;
    struct cosched_union one; /* of the change under way, if `changing` */
    uint64_t since_ns;        /* when the present phase of it began */
    struct cosched_bytes prepared; /* the calls before the loop, as before_loop.c records them */
    uint64_t taken; /* bytes of `prepared` that a rank that joined has used */
};

int32_t cosched_rank_of(MPI_Comm comm);
int32_t cosched_size_of(MPI_Comm comm);

/* Keeps the first error of a job, and writes its line in rank 0. All ranks have it. Returns the error. */
int cosched_job_fail(struct cosched_job *job, int error, const char *call, const char *why);

/* The same for a mistake that only some ranks may have made. Returns -EINVAL. */
int cosched_job_misuse(struct cosched_job *job, const char *call, const char *why);

/* Writes the time since the present phase of a change began, and begins the next one. */
void cosched_job_take_phase(struct cosched_job *job, uint64_t *phase_ns);

/* Ends the change under way. Collective over the union. Returns 0, or COSCHED_LEFT in a rank that
 * ends. */
int cosched_job_finish(struct cosched_job *job, uint64_t moved_bytes);

#endif
