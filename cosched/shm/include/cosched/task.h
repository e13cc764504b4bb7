/*
 * cosched/task.h - the task's side of cosched: attach, read the status, report a
 * trapped message, pause while unscheduled, leave.
 *
 * The C interposer links task.c; the mpi4py wrapper reaches the same code through
 * cffi. Everything fails open: on any error the link is simply not attached, which
 * reads as "scheduled", and nothing here prints, exits or waits without a bound.
 *
 * Functions return 0 or -errno.
 */
#ifndef COSCHED_TASK_H
#define COSCHED_TASK_H

#include <stdint.h>

#include "layout.h"

/* cdef: begin */
/* One process's link to its scheduler daemon. Zero-initialised means not attached. */
struct cosched_link {
    struct cosched_job_region *region; /* NULL: not attached */
    struct cosched_task *task;         /* this task's record in the region */
    uint64_t region_bytes;
    uint64_t posted_epoch; /* 1 + the epoch of the last CMDSCH; 0: none yet */
    uint32_t slot;
    int32_t bell;         /* descriptor of the job's bell; -1: none */
    uint64_t bell_device; /* which file that is, for the program may have put another there */
    uint64_t bell_inode;
    int32_t pid;     /* who attached: a forked child is not the task */
    uint32_t looked; /* 1: looked in vain for a message while unscheduled */
    char reason[128]; /* why the last attach failed, one line, or "" */
};

/* What a task says of itself when it registers. */
struct cosched_part {
    const char *job;
    int32_t rank;
    int32_t world;
    uint32_t carrier;      /* enum cosched_carrier */
    uint32_t pad;
    uint64_t memory_bytes; /* what the job needs on this node; 0: it does not say */
    uint64_t submitted_ns; /* when the job was submitted, since 1970; 0: it does not say */
    void (*told_to_wait)(const char *reason); /* called at most once; NULL: nobody cares */
};

/* Registers this process (CMDREG) with the scheduler daemon behind the socket
 * RUN_DIR/NODE/register.sock and maps the job's region. Gives up if it is not answered within
 * timeout_ms, whatever signals come. While the job's memory does not fit on the node the daemon
 * says so time and again, each time within timeout_ms, and the task waits: asleep, and with the
 * little memory that it has by then. */
int cosched_attach(struct cosched_link *link, const char *socket_path,
                   const struct cosched_part *part, int timeout_ms);

/* Says that this process, which has just begun, is to become a task of the job, so that the
 * job takes its turns from here on. Without a link: cosched_attach comes later, if ever. Not
 * being heard is no error to show; the reason is for whoever asks. The answer comes at once
 * or never: the caller waits for timeout_ms at most. */
int cosched_announce(const char *socket_path, const struct cosched_part *part, int timeout_ms,
                     char reason[128]);

/* Deregisters (CMDOUT). Safe on a link that is not attached, and while other threads use it:
 * the region stays mapped and the bell open until the process ends. */
void cosched_detach(struct cosched_link *link);

/* Forgets the link without a CMDOUT: for a forked child, which is not the task. */
void cosched_abandon(struct cosched_link *link);

/* 1 if the job is scheduled on this node, or if nobody is there to say. */
int cosched_is_scheduled(const struct cosched_link *link);

/* 1 if another job wants the CPUs of this one, whichever of them has them now. */
int cosched_is_contended(const struct cosched_link *link);

/* 1 while the scheduler daemon that knows of other jobs lives; 0 if this task is not
 * attached, or its daemon stopped beating: what the region says may be true no more. */
int cosched_is_attended(const struct cosched_link *link);

/* A task looked for a message and found none. A message that it finds at a later look
 * arrived in between, so what it says of its sender is true now. */
void cosched_looked(struct cosched_link *link);

/* An arrival whose sender was scheduled (1) or not (0). Posts CMDSCH if the sender
 * was and this task is not, at most once an epoch; and only if the task had looked for a
 * message before, since one that lay there unread may tell of a slice long over. */
void cosched_arrived(struct cosched_link *link, int sender_scheduled);

/* A wait in progress; zero-initialise one for each. */
struct cosched_spell {
    uint64_t since_ns; /* when it was first found long, CLOCK_MONOTONIC */
    uint32_t tests;
    uint32_t pad;
};

/* Called between two tests by a task that waits: returns at once (0) while the job is
 * scheduled; otherwise sleeps until it is, or for about a millisecond, whichever is
 * first (1). The paper's "very brief period" in which an unscheduled task looks for
 * messages is then one test a millisecond, and no share of a CPU. */
int cosched_pause(struct cosched_link *link);

/* As cosched_pause, and for a scheduled task too: once a wait has lasted longer than any
 * message between scheduled peers takes, and another job wants the CPU, it naps between
 * tests. Its peer is not running; the CPU is of more use to the others until it is. */
int cosched_linger(struct cosched_link *link, struct cosched_spell *spell);
/* cdef: end */

/* The region as long as this process is attached. Another thread may detach at any moment
 * (the MPI library's own threads wait, too, while MPI_Finalize runs), so whoever needs it asks
 * once and goes on with what he got, which detaching leaves in place. */
static inline struct cosched_job_region *cosched_link_region(const struct cosched_link *link) {
    return __atomic_load_n(&link->region, __ATOMIC_ACQUIRE);
}

/* What cosched_is_scheduled and cosched_is_contended say, in line: the shim asks with each
 * message. NULL: not attached. */
static inline int cosched_region_scheduled(const struct cosched_job_region *region) {
    return region == NULL || (__atomic_load_n(&region->status.word, __ATOMIC_ACQUIRE) & 1) != 0;
}

static inline int cosched_region_contended(const struct cosched_job_region *region) {
    return region != NULL && (__atomic_load_n(&region->status.contended, __ATOMIC_RELAXED) != 0 ||
                              (__atomic_load_n(&region->status.word, __ATOMIC_RELAXED) & 1) == 0);
}

#endif
