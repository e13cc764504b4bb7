/*
 * before_loop.c - broadcasts values, and records the calls before the loop for ranks that join.
 */
#include "before_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cosched_before_loop_keep(struct cosched_job *job, const struct cosched_before_loop *made,
                             const void *value) {
    const uint64_t more = sizeof *made + (value == NULL ? 0 : (uint64_t)made->bytes);
    int32_t ready, all_ready;
    uint8_t *larger = realloc(job->prepared.data, job->prepared.count + more);
    if (larger != NULL)
        job->prepared.data = larger;
    ready = larger != NULL;
    MPI_Allreduce(&ready, &all_ready, 1, MPI_INT32_T, MPI_MIN, job->worlds.comm);
    if (!all_ready)
        return cosched_job_fail(job, -ENOMEM, "malleable job", "a rank has no memory for a value");
    memcpy(larger + job->prepared.count, made, sizeof *made);
    if (value != NULL)
        memcpy(larger + job->prepared.count + sizeof *made, value, (size_t)made->bytes);
    job->prepared.count += more;
    return 0;
}

int cosched_before_loop_take(struct cosched_job *job, const char *call,
                             struct cosched_before_loop *made, void *value) {
    struct cosched_before_loop found = {0};
    if (job->prepared.count - job->taken >= sizeof found)
        memcpy(&found, job->prepared.data + job->taken, sizeof found);
    if (found.call != made->call || (value != NULL && found.bytes != made->bytes))
        return cosched_job_misuse(job, call, "the calls before the loop differ in a rank that joined");
    job->taken += sizeof found;
    if (value != NULL) {
        memcpy(value, job->prepared.data + job->taken, (size_t)found.bytes);
        job->taken += (uint64_t)found.bytes;
    }
    *made = found;
    return 0;
}

int cosched_job_bcast(struct cosched_job *job, void *value, int64_t bytes) {
    struct cosched_before_loop made = {COSCHED_BCAST, bytes};
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (bytes < 0 || (bytes > 0 && value == NULL))
        return cosched_job_misuse(job, "cosched_job_bcast", "there is no value");
    if (!job->looped && job->joined)
        return cosched_before_loop_take(job, "cosched_job_bcast", &made, value);
    cosched_worlds_bcast(job->changing ? job->one.comm : job->worlds.comm, value,
                         (uint64_t)bytes);
    return job->looped ? 0 : cosched_before_loop_keep(job, &made, value);
}
