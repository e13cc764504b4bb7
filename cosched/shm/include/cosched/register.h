/*
 * cosched/register.h - registers a process with the scheduler daemon over the registration
 * socket (CMDREG). cosched_attach (task.h) uses it and maps the region.
 */
#ifndef COSCHED_REGISTER_H
#define COSCHED_REGISTER_H

#include <stdint.h>

#include "layout.h"

/* cdef: begin */
/* Whether a task's node coschedules it. */
enum cosched_presence {
    COSCHED_NO_DAEMON = 0,
    COSCHED_PRESENT = 1,
    COSCHED_OTHER_VERSION = 2, /* of the daemon */
    COSCHED_REFUSED = 3,       /* the daemon gave a reason */
    COSCHED_LEFT = 4,          /* it was present, and the daemon has gone */
    COSCHED_CUT = 5            /* it was present, and the job's region was truncated */
};

/* A task's registration. */
struct cosched_registration {
    const char *job;
    int32_t rank;
    int32_t world;
    uint32_t carrier;      /* enum cosched_carrier */
    uint32_t busy;         /* 1: the task spins in its waits, also while unscheduled */
    uint64_t memory_bytes; /* memory that the job needs on this node; 0: not declared */
    uint64_t submitted_ns; /* when the job was submitted, since 1970; 0: not known */
    struct cosched_expectation expectation;
    uint32_t limited_by; /* set of enum cosched_resource; 0: the user named none */
    uint32_t pad0;
    /* Called when the daemon lets the task wait, and once more if the reason comes later: it may
     * be "". May be NULL, and may take long. */
    void (*on_memory_wait)(const char *reason);
};

/* Reports that this process has just started and will become a task of the job. From here on
 * the job is scheduled. No link is made: cosched_attach comes later, if ever. If the daemon does
 * not answer within timeout_ms, the caller goes on; `reason` then has one line. */
int cosched_announce(const char *socket_path, const struct cosched_registration *task,
                     int timeout_ms, char reason[128]);

/* Reports that this process starts tasks of the job and is none itself: from here on the job is
 * scheduled, and this process with it. Waits for nothing, not even for the answer. Returns 0 if
 * the report is sent, otherwise -errno. */
int cosched_announce_launcher(const char *socket_path, const struct cosched_registration *task);

/* The same for the command that will start the job's launcher. */
int cosched_announce_command(const char *socket_path, const struct cosched_registration *task);
/* cdef: end */

/* The result of a registration. The caller closes the descriptors. After an error only
 * `presence` is set (enum cosched_presence). */
struct cosched_admission {
    uint32_t presence;
    int region;
    int bell;
    uint32_t slot;
    uint64_t region_bytes;
};

/* Registers this process as `task`. Returns 0 or -errno with one line in `reason`, which may be
 * empty. cosched_attach describes how long it may take. */
int cosched_register(struct cosched_admission *admission, const char *socket_path,
                     const struct cosched_registration *task, int timeout_ms, char reason[128]);

#endif
