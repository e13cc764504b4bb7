/*
 * cosched/task.h - connects a task with its daemon: registers, reads the status, reports a
 * trapped message, deregisters.
 *
 * The C interposer links these files; the mpi4py wrapper calls them through cffi. Everything
 * fails open: after an error the link is not attached, and the task counts as scheduled. The same
 * holds once the job's region is truncated (guard.h).
 * Nothing here prints, exits or waits without a limit.
 *
 * Functions return 0 or -errno unless they say otherwise.
 */
#ifndef COSCHED_TASK_H
#define COSCHED_TASK_H

#include <stdint.h>

#include "arrivals.h"
#include "register.h"

/* cdef: begin */
/* A task's link to its node's scheduler daemon. cosched_link_open makes one that is not
 * attached. */
struct cosched_link {
    struct cosched_job_region *region;      /* NULL: not attached, or the region is torn */
    struct cosched_task_counters *counters; /* in the region, or own_counters: never NULL */
    uint64_t posted_epoch; /* 1 + the epoch of the last CMDSCH; 0: none yet */
    uint32_t slot;
    int32_t bell;         /* descriptor of the job's bell; -1: none */
    uint64_t bell_device; /* the bell's file: the program may reuse the descriptor's number */
    uint64_t bell_inode;
    int32_t pid;      /* the process that attached; a forked child is not the task */
    uint32_t looked;  /* 1: while unscheduled, it looked for a message and found none */
    uint32_t busy;    /* as in its registration */
    uint32_t presence; /* enum cosched_presence, after the last attach */
    char reason[128]; /* why the last attach failed, in one line, or "" */
    struct cosched_arrivals arrivals; /* connections whose data ends a nap */
    struct cosched_task_counters own_counters; /* used while not attached */
};

enum cosched_timeouts { COSCHED_ATTACH_TIMEOUT_MS = 2000 };

/* Makes a link that is not attached. Without this call a zeroed link is not valid. */
void cosched_link_open(struct cosched_link *link);

/* Registers this process (CMDREG) over the socket RUN_DIR/NODE/register.sock and maps the job's
 * region. Gives up if no answer comes within timeout_ms, even if signals arrive. While the
 * job's memory does not fit on the node, the daemon answers again and again, each time within
 * timeout_ms; the task sleeps until then. If the daemon ends meanwhile, the task registers with the
 * next one, if it comes within timeout_ms. */
int cosched_attach(struct cosched_link *link, const char *socket_path,
                   const struct cosched_registration *task, int timeout_ms);

/* Deregisters (CMDOUT). Safe on a link that is not attached, and while other threads use it:
 * the region stays mapped and the bell open until the process ends. */
void cosched_detach(struct cosched_link *link);

/* Drops the link without a CMDOUT: for a forked child, which is not the task. */
void cosched_abandon(struct cosched_link *link);

/* Returns 1 if the job is scheduled on this node, or if the link is not attached. */
int cosched_is_scheduled(const struct cosched_link *link);

/* Returns 1 if another job wants this job's CPUs, whichever of the two runs now. */
int cosched_is_contended(const struct cosched_link *link);

/* Returns 1 while the scheduler daemon lives. Returns 0 if the link is not attached or the
 * heartbeat has stopped: then the region may be out of date. */
int cosched_is_attended(const struct cosched_link *link);

/* Records that the task looked for a message and found none. A message that it finds later
 * arrived in between, so its sender's status is recent. */
void cosched_looked(struct cosched_link *link);

/* Handles a message that has arrived. Posts CMDSCH if the sender was scheduled and this task is
 * not, at most once an epoch. Posts nothing without an earlier cosched_looked: such a message may
 * have lain unread since an earlier slice. For a busy task each message counts, as in the paper
 * (section 2.2.1). */
void cosched_arrived(struct cosched_link *link, int sender_scheduled);
/* cdef: end */

/* Returns the region, or NULL if not attached. Another thread may detach at any moment (threads
 * of the MPI library wait while MPI_Finalize runs). A caller therefore reads it once and keeps
 * the result, which stays mapped. */
static inline struct cosched_job_region *cosched_link_region(const struct cosched_link *link) {
    return __atomic_load_n(&link->region, __ATOMIC_ACQUIRE);
}

/* cosched_is_scheduled and cosched_is_contended, inline: the interposer calls them for each
 * message. NULL: not attached. */
static inline int cosched_region_scheduled(const struct cosched_job_region *region) {
    return region == NULL || (__atomic_load_n(&region->status.word, __ATOMIC_ACQUIRE) & 1) != 0;
}

static inline int cosched_region_contended(const struct cosched_job_region *region) {
    return region != NULL && (__atomic_load_n(&region->status.contended, __ATOMIC_RELAXED) != 0 ||
                              (__atomic_load_n(&region->status.word, __ATOMIC_RELAXED) & 1) == 0);
}

/* Returns 1 if the scheduler daemon's heartbeat has stopped. */
int cosched_is_stale(const struct cosched_job_region *region);

/* Adds to a counter. The task is its only writer. If several of its threads add at once, a
 * count may be lost: that keeps the counter cheap. */
static inline void cosched_task_count(uint64_t *counter, uint64_t by) {
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

#endif
