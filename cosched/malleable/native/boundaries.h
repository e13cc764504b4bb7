/*
 * boundaries.h - links a rank to its node's agent by the page: boundaries, times, results. It is the same as
 * cosched/shm/boundaries.py.
 */
#ifndef COSCHED_MALLEABLE_BOUNDARIES_H
#define COSCHED_MALLEABLE_BOUNDARIES_H

#include <stdbool.h>

#include "plan.h"

struct cosched_page;
struct cosched_page_prediction;

/* The phases of a change, in ns, as rank 0 of the job saw them. */
struct cosched_times {
    uint64_t wait_ns, spawn_ns, connect_ns, start_ns, move_ns, resume_ns;
};

struct cosched_link {
    struct cosched_page *page; /* of the agent, otherwise an own one for the times; NULL after the end */
    bool has_agent;
    uint32_t slot;             /* of this rank in the page */
    const uint64_t *waits_ns;  /* counts the waits of the rank in MPI; NULL: they are not measured */
    uint64_t waited_ns;        /* the last wait at a boundary */
};

/* Opens the page that the environment names, and takes a slot. Without one in the environment there is
 * no agent. -errno, with one line, if there is no link to a page. */
int cosched_link_open(struct cosched_link *link, char why[COSCHED_WHY_BYTES]);

/* Gives up the agent: no boundary stops this rank any more. Returns 0, or -errno. */
int cosched_link_without_agent(struct cosched_link *link);

/* Returns where this rank runs. */
struct cosched_spot cosched_link_spot(const struct cosched_link *link);

/* Makes this rank live, at the boundary that all ranks came to last. */
void cosched_link_enter(struct cosched_link *link, int64_t step, int32_t rank);

/* Comes to a boundary; returns whether all ranks stop there for a change. */
bool cosched_link_stops_at(struct cosched_link *link, int64_t step);

/* Reads the change to carry out; -errno as cosched_change_decode. It has its generation in any case. */
int cosched_link_change(const struct cosched_link *link, struct cosched_change *change);

/* Lets the agent count no more on this rank. */
void cosched_link_begin_last_change(struct cosched_link *link);

/* Lets the agent know that this rank comes to no further boundary. */
void cosched_link_end_loop(struct cosched_link *link);

/* Gives the slot back, and closes the page. */
void cosched_link_leave(struct cosched_link *link);

/* For rank 0: what the job wants, and asks for, in nodes. ideal: 0 if it is not known. */
void cosched_link_want(struct cosched_link *link, int32_t minimum, int32_t ideal);

/* For rank 0: what the program predicts. */
void cosched_link_predict(struct cosched_link *link,
                          const struct cosched_page_prediction *prediction);
void cosched_link_ask(struct cosched_link *link, int32_t nodes);

/* For rank 0: reports a change. refused: why the job is as it was; NULL: the change is done. */
void cosched_link_report(struct cosched_link *link, uint64_t generation, int32_t ranks,
                         const struct cosched_times *times, uint64_t moved_bytes,
                         const char *refused);

/* Returns the mean time of an iteration, or its part of waits in MPI, in s; below 0: not known. */
double cosched_link_exec_time(const struct cosched_link *link);
double cosched_link_exec_time_comm(const struct cosched_link *link);

#endif
