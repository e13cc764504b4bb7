/*
 * cosched/environment.h - reads the COSCHED_* variables that cosched-run sets for a task.
 *
 *   COSCHED_JOB          the job's name; unset or empty: the task is not coscheduled
 *   COSCHED_RUN_DIR      the daemons' run directory; unless set, that of the user's own daemons on
 *                        this node, otherwise /run/cosched
 *   COSCHED_NODE         this node's name; the kernel's name for it unless set
 *   COSCHED_STATUS       how the sender's status travels: prefix, shadow or none (unless set)
 *   COSCHED_WAIT         how a scheduled task waits: spin (unless set), yield,
 *                        block:NANOSECONDS or auto:NANOSECONDS; busy: any task spins; see
 *                        spin_or_sleep.h
 *   COSCHED_COLLECTIVES  blocking (unless set) or nonblocking; used by the mpi4py wrapper alone
 *   COSCHED_MEMORY       bytes that the job needs on each of its nodes; unset: not declared
 *   COSCHED_SUBMITTED    when the job was submitted, ns since 1970; unset: not known
 *   COSCHED_EXPECTED     how long like jobs were scheduled: KIND:NANOSECONDS,NANOSECONDS..., up to
 *                        COSCHED_LENGTHS_MAX of them; unset: not known
 *   COSCHED_LIMITED_BY   what limits the job, as its user named it: cpu, memory, io, network, with
 *                        commas between them; unset: not known, and the job shares no node
 *   COSCHED_REQUIRE      any (unless set); all: the job ends in MPI_Init unless each of its nodes
 *                        coschedules it; none: rank 0 does not report the nodes that do not
 *   COSCHED_JOIN         under shadow, whether all ranks have the shim. probably (unless set): in
 *                        MPI_Init they agree, and join all the same if they cannot (join.h);
 *                        surely: they do not ask; perhaps: they join only if they agree
 *   COSCHED_VERBOSE      1: report on standard error what does not work, and why
 *
 * All ranks of a job read the same values, so they agree on what travels. No value depends on
 * whether a daemon answered.
 *
 * A variable with a value that is not allowed counts as unset and gives one line of warning.
 */
#ifndef COSCHED_ENVIRONMENT_H
#define COSCHED_ENVIRONMENT_H

#include <stdint.h>

#include "task.h"
#include "spin_or_sleep.h"

/* cdef: begin */
enum cosched_environment_limits {
    COSCHED_NODE_BYTES = 128,        /* more than a socket has room for */
    COSCHED_SOCKET_PATH_BYTES = 256, /* more than a socket's path may have */
    COSCHED_WARNING_BYTES = 256,
    COSCHED_WARNINGS_MAX = 8
};

/* The nodes that must coschedule a job. */
enum cosched_requirement { COSCHED_REQUIRE_ANY, COSCHED_REQUIRE_ALL, COSCHED_REQUIRE_NONE };

/* Whether every rank of a job has the shim. */
enum cosched_shimmed { COSCHED_SHIMMED_PROBABLY, COSCHED_SHIMMED_SURELY, COSCHED_SHIMMED_PERHAPS };

struct cosched_environment {
    struct cosched_registration task; /* job is NULL if unset; the caller sets rank and world */
    struct cosched_wait_policy wait;
    uint32_t nonblocking_collectives;
    uint32_t verbose;
    uint32_t warning_count;
    uint32_t requirement; /* enum cosched_requirement */
    uint32_t shimmed;     /* enum cosched_shimmed */
    uint32_t pad;
    char node[128];         /* the name that its daemons use */
    char warnings[8][256];  /* one line each, without its end */
    char socket_path[256];  /* registration socket of the node; a path that is cut off here is
                             * too long for a socket as well */
};

/* Reads the environment of this process. The name of the job stays that of the environment. */
void cosched_environment_read(struct cosched_environment *environment);

/* Returns 1 if the environment asks for anything: a job, or a wait that yields or sleeps. */
int cosched_environment_takes_part(const struct cosched_environment *environment);

/* Reads `text` as a decimal number below 2^64: digits alone, without a sign or a space. Returns 0
 * and sets *number, or returns -EINVAL. */
int cosched_environment_number(const char *text, uint64_t *number);

/* Returns the carrier's name as COSCHED_STATUS has it. */
const char *cosched_environment_carrier_name(uint32_t carrier);
/* cdef: end */

#endif
