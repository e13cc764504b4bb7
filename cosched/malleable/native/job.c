/*
 * job.c - runs a malleable job as its program sees it: its begin, its loop, its end. Its data is in
 * arrays.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cosched/clock.h"
#include "job.h"
#include "prediction.h"

#define NODES_MOST 1048576

int32_t cosched_rank_of(MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

int32_t cosched_size_of(MPI_Comm comm) {
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

/* --- errors ----------------------------------------------------------------------------------- */

int cosched_job_fail(struct cosched_job *job, int error, const char *call, const char *why) {
    int ready = 0, finalized = 0;
    job->status = error;
    job->all_have_it = true;
    MPI_Initialized(&ready);
    MPI_Finalized(&finalized);
    if (!ready || finalized || cosched_rank_of(MPI_COMM_WORLD) == 0)
        fprintf(stderr, "cosched: %s: %s\n", call, why);
    return error;
}

int cosched_job_misuse(struct cosched_job *job, const char *call, const char *why) {
    cosched_job_fail(job, -EINVAL, call, why);
    job->all_have_it = false;
    return -EINVAL;
}

static const char BEGIN_CALL[] = "cosched_job_begin";

/* --- the begin -------------------------------------------------------------------------------- */

static int check(struct cosched_job *job, int32_t minimum, int32_t ideal) {
    char why[COSCHED_WHY_BYTES] = "";
    int ready, finalized;
    MPI_Initialized(&ready);
    MPI_Finalized(&finalized);
    if (minimum < 1 || minimum > NODES_MOST)
        snprintf(why, sizeof why, "minimum %d: is not a number of nodes from 1 to %d", minimum,
                 NODES_MOST);
    else if (ideal < 0 || ideal > NODES_MOST)
        snprintf(why, sizeof why, "ideal %d: is not a number of nodes from 1 to %d", ideal,
                 NODES_MOST);
    else if (ideal != 0 && ideal < minimum)
        snprintf(why, sizeof why, "minimum %d is more than ideal %d", minimum, ideal);
    else if (finalized)
        snprintf(why, sizeof why, "MPI has been finalized: begin the job before that");
    else if (!ready)
        snprintf(why, sizeof why, "MPI is not initialized: call MPI_Init before");
    else
        return 0;
    return cosched_job_misuse(job, BEGIN_CALL, why);
}

void cosched_job_take_phase(struct cosched_job *job, uint64_t *phase_ns) {
    const uint64_t now_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    *phase_ns = now_ns - job->since_ns;
    job->since_ns = now_ns;
}

/* Writes what the program predicts. It is not asked again once that was wrong. */
static void predict(struct cosched_job *job) {
    struct cosched_page_prediction prediction = {.count = 0};
    char why[COSCHED_WHY_BYTES];
    if (job->predict != NULL &&
        cosched_prediction_ask(&prediction, job->predict, job->predict_data, job->minimum,
                               job->ideal, why, sizeof why) != 0) {
        fprintf(stderr, "cosched: the program's prediction is ignored: %s\n", why);
        job->predict = NULL;
        prediction.count = 0;
    }
    cosched_link_predict(&job->link, &prediction);
}

static void want(struct cosched_job *job) {
    if (cosched_rank_of(job->worlds.comm) != 0)
        return;
    cosched_link_want(&job->link, job->minimum, job->ideal);
    predict(job);
}

/* Begins to move data. */
static void enter(struct cosched_job *job) {
    struct cosched_welcome *welcome = &job->one.welcome;
    job->changing = true;
    cosched_job_take_phase(job, &welcome->times.connect_ns);
    if (job->one.after == MPI_COMM_NULL)
        cosched_link_begin_last_change(&job->link);
    else
        cosched_link_enter(&job->link, welcome->step, cosched_rank_of(job->one.after));
}

static int join(struct cosched_job *job) {
    char why[COSCHED_WHY_BYTES] = "a rank that joins a job has no page of its node's agent";
    const int error = cosched_link_open(&job->link, why);
    struct cosched_spot spot;
    const bool can = error == 0 && job->link.has_agent;
    if (can)
        spot = cosched_link_spot(&job->link);
    job->since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    if (cosched_worlds_join(&job->worlds, can ? &spot : NULL, &job->one, why) != 0) {
        cosched_link_leave(&job->link); /* the job reports it */
        return job->status = COSCHED_LEFT;
    }
    job->next_step = job->one.welcome.step;
    job->prepared = job->one.welcome.prepared;
    job->one.welcome.prepared = (struct cosched_bytes){NULL, 0};
    enter(job);
    return 0;
}

/* Fills the ranks of a job that begins; false if a rank has no memory for them, or no page. */
static bool fill_ranks(struct cosched_job *job) {
    struct cosched_worlds *worlds = &job->worlds;
    const int32_t size = cosched_size_of(worlds->comm);
    int32_t ready = job->link.has_agent, all_ready;
    struct cosched_rank mine, *ranks = NULL;
    memset(&mine, 0, sizeof mine);
    if (ready) {
        mine.spot = cosched_link_spot(&job->link);
        ranks = calloc((size_t)size, sizeof *ranks);
        ready = ranks != NULL;
    }
    MPI_Allreduce(&ready, &all_ready, 1, MPI_INT32_T, MPI_MIN, worlds->comm);
    if (!all_ready) {
        free(ranks);
        return false;
    }
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, ranks, sizeof mine, MPI_BYTE, worlds->comm);
    worlds->ranks = ranks;
    worlds->count = (uint32_t)size;
    return true;
}

/* Without the pages of all nodes the job keeps its size. */
static int begin(struct cosched_job *job) {
    char why[COSCHED_WHY_BYTES] = "";
    MPI_Comm_dup(MPI_COMM_WORLD, &job->worlds.comm);
    if (cosched_link_open(&job->link, why) != 0)
        fprintf(stderr, "cosched: the job keeps its size: %s\n", why);
    if (!fill_ranks(job) && cosched_link_without_agent(&job->link) != 0)
        return cosched_job_misuse(job, BEGIN_CALL, "no memory");
    cosched_link_enter(&job->link, 0, cosched_rank_of(job->worlds.comm));
    return 0;
}

int cosched_job_begin(struct cosched_job **made, int32_t minimum, int32_t ideal) {
    static bool has_begun; /* a process has one job, as it has one MPI_Init */
    struct cosched_job *job = calloc(1, sizeof *job);
    int error;
    *made = job;
    if (job == NULL)
        return -ENOMEM;
    job->worlds.comm = MPI_COMM_NULL;
    job->minimum = minimum;
    job->ideal = ideal;
    if ((error = check(job, minimum, ideal)) != 0)
        return error;
    if (has_begun)
        return cosched_job_misuse(job, BEGIN_CALL, "this program has begun its job already: use that one");
    has_begun = true;
    job->joined = cosched_worlds_own_generation() > 0;
    error = job->joined ? join(job) : begin(job);
    if (error == 0 && !job->joined)
        want(job);
    return error;
}

/* --- facts ------------------------------------------------------------------------------------ */

MPI_Comm cosched_job_comm(const struct cosched_job *job) {
    if (job == NULL || job->status == COSCHED_LEFT)
        return MPI_COMM_NULL;
    return job->changing && job->one.after != MPI_COMM_NULL ? job->one.after : job->worlds.comm;
}

MPI_Fint cosched_job_comm_f(const struct cosched_job *job) {
    return MPI_Comm_c2f(cosched_job_comm(job));
}

bool cosched_job_resized(const struct cosched_job *job) { return job != NULL && job->resized; }

bool cosched_job_joined(const struct cosched_job *job) { return job != NULL && job->joined; }

bool cosched_job_left(const struct cosched_job *job) {
    return job != NULL && job->status == COSCHED_LEFT;
}

double cosched_job_exec_time(const struct cosched_job *job) {
    return job == NULL ? -1.0 : cosched_link_exec_time(&job->link);
}

double cosched_job_exec_time_comm(const struct cosched_job *job) {
    return job == NULL ? -1.0 : cosched_link_exec_time_comm(&job->link);
}

int cosched_job_ask(struct cosched_job *job, int32_t nodes) {
    char why[COSCHED_WHY_BYTES];
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    if (nodes < 1 || nodes > NODES_MOST) {
        snprintf(why, sizeof why, "%d is not a number of nodes from 1 to %d", nodes, NODES_MOST);
        return cosched_job_misuse(job, "cosched_job_ask", why);
    }
    if (cosched_rank_of(cosched_job_comm(job)) == 0)
        cosched_link_ask(&job->link, nodes);
    return 0;
}

int cosched_job_predict(struct cosched_job *job, cosched_predict function, void *data) {
    if (job == NULL || job->status != 0)
        return job == NULL ? -EINVAL : job->status;
    job->predict = function;
    job->predict_data = data;
    if (!job->changing && cosched_rank_of(job->worlds.comm) == 0)
        predict(job);
    return 0;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Reports that the job goes on as it is. No next order may be written before all ranks have read this
 * one. */
static void refuse(struct cosched_job *job, uint64_t generation,
                   const struct cosched_times *times, const char *why) {
    const MPI_Comm comm = job->worlds.comm;
    MPI_Barrier(comm);
    if (cosched_rank_of(comm) == 0)
        cosched_link_report(&job->link, generation, cosched_size_of(comm), times, 0, why);
}

/* Carries out the order up to the union; if it fails, the job goes on as it is. */
static void change_size(struct cosched_job *job, int64_t step) {
    char why[COSCHED_WHY_BYTES] = "the order is not a change of a job's size";
    struct cosched_welcome *welcome = &job->one.welcome;
    struct cosched_change change;
    MPI_Comm bond = MPI_COMM_NULL;
    int error;
    memset(&job->one, 0, sizeof job->one);
    welcome->times.wait_ns = job->link.waited_ns;
    welcome->step = step;
    job->since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    error = cosched_link_change(&job->link, &change);
    welcome->generation = change.generation;
    if (error == 0)
        error = cosched_plan_make(&welcome->plan, job->worlds.ranks, job->worlds.count, &change,
                                  why);
    if (error == 0)
        error = cosched_worlds_spawn(&job->worlds, &welcome->plan, change.generation, &bond, why);
    if (error == 0) {
        cosched_job_take_phase(job, &welcome->times.spawn_ns);
        welcome->prepared = job->prepared;
        error = cosched_worlds_unite(&job->worlds, bond, &job->one, why);
        welcome->prepared = (struct cosched_bytes){NULL, 0}; /* the job has it */
    }
    if (error == 0) {
        enter(job);
        job->resized = true;
    } else {
        refuse(job, welcome->generation, &welcome->times, why);
        cosched_welcome_free(welcome);
    }
    cosched_change_free(&change);
}

int cosched_job_next(struct cosched_job *job, int64_t count, int64_t *step) {
    if (job == NULL || job->status < 0)
        return job == NULL ? -EINVAL : job->status;
    if (job->status == COSCHED_LEFT)
        return 0;
    if (job->changing && job->looped)
        return cosched_job_misuse(job, "cosched_job_next",
                      "the job was resized: call cosched_job_redistribute in that iteration");
    *step = job->next_step;
    if (job->joined && !job->looped) { /* the others come to this boundary */
        job->resized = true;
    } else if (count >= 0 && job->next_step >= count) {
        cosched_link_end_loop(&job->link);
        return 0;
    } else {
        job->resized = false;
        if (cosched_link_stops_at(&job->link, job->next_step))
            change_size(job, job->next_step);
    }
    job->looped = true;
    job->next_step++;
    return 1;
}

/* --- the end ---------------------------------------------------------------------------------- */

int cosched_job_finish(struct cosched_job *job, uint64_t moved_bytes) {
    struct cosched_times *times = &job->one.welcome.times, found;
    const uint64_t generation = job->one.welcome.generation;
    const bool leaves = job->one.after == MPI_COMM_NULL;
    if (!job->changing)
        return 0;
    cosched_job_take_phase(job, &times->move_ns);
    found = *times;
    cosched_worlds_settle(&job->worlds, &job->one);
    cosched_job_take_phase(job, &found.resume_ns);
    job->changing = false;
    if (leaves) {
        cosched_link_leave(&job->link);
        return job->status = COSCHED_LEFT;
    }
    if (cosched_rank_of(job->worlds.comm) == 0)
        cosched_link_report(&job->link, generation, cosched_size_of(job->worlds.comm), &found,
                            moved_bytes, NULL);
    want(job);
    return 0;
}

int cosched_job_end(struct cosched_job *job) {
    int status;
    if (job == NULL)
        return -EINVAL;
    if (job->status == 0 || (job->status < 0 && job->all_have_it)) {
        const int failed = job->status;
        job->status = 0;
        if (cosched_job_finish(job, 0) == 0)
            cosched_worlds_close(&job->worlds);
        job->status = failed;
    }
    status = job->status < 0 ? job->status : 0;
    cosched_link_end_loop(&job->link);
    cosched_welcome_free(&job->one.welcome);
    cosched_worlds_free(&job->worlds);
    free(job->prepared.data);
    free(job);
    return status;
}
