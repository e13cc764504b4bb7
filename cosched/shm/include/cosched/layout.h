/*
 * cosched/layout.h - lays out the memory that the daemons and the tasks of one node share: a
 * job's region.
 *
 * This file defines the layout. The daemons' cffi module is generated from the text between
 * the two cdef markers, and the shim includes the file itself. Both therefore use the same
 * layout. The assertions at the end fix each size and offset.
 *
 * There are two kinds of region. Each is a POSIX shared-memory object of mode 0600:
 *
 *   node region   one for each node: scheduler daemon <-> timer daemon
 *   job region    one for each job on a node, owned by the job's user:
 *                 scheduler daemon <-> the job's tasks
 *
 *   job region:   header | heartbeat | status | expectation | name | ring | tasks[512]
 *   node region:  header | heartbeat | orders | report | ring
 *
 * Each record has one writer, named in its comment, and starts at a multiple of 64 bytes, so
 * that two writers never share a cache line. A daemon checks each value that a task can write.
 *
 * docs/dev/formats.md describes how the regions are used.
 */
#ifndef COSCHED_LAYOUT_H
#define COSCHED_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define COSCHED_REGION_MAGIC UINT64_C(0x64656863736f6331) /* "1cosched", little endian */

/* cdef: begin */
enum cosched_limits {
    COSCHED_ABI = 9,           /* raised by any change to this file */
    COSCHED_NAME_BYTES = 64,   /* a job's name with its final NUL */
    COSCHED_REASON_BYTES = 128,
    COSCHED_RING_CELLS = 64,   /* a power of two */
    COSCHED_TASKS_MAX = 512,   /* tasks of one job on one node */
    COSCHED_LENGTHS_MAX = 8,   /* lengths in an expectation */
    COSCHED_HELLO_MAGIC = 0x63736831 /* of struct cosched_hello and cosched_welcome */
};

enum cosched_kind { COSCHED_KIND_NODE = 1, COSCHED_KIND_JOB = 2 };

/* The five requests of Yoo and Jette, section 2.2.3. CMDREG travels over the registration
 * socket, where the kernel gives the sender's identity. The others go through a ring. */
enum cosched_request {
    COSCHED_CMDREG = 1, /* a task is about to start */
    COSCHED_CMDOUT = 2, /* a task is about to end */
    COSCHED_CMDCSW = 3, /* from the timer daemon: the slice is over */
    COSCHED_CMDSCH = 4, /* a task has trapped a message from a scheduled peer */
    COSCHED_CMDDWN = 5  /* the scheduler daemon is to end */
};

/* The state of a task record. Written by the scheduler daemon. */
enum cosched_task_state { COSCHED_TASK_FREE = 0, COSCHED_TASK_LIVE = 1 };

/* The phase in which a process registers. */
enum cosched_phase {
    COSCHED_PHASE_TASK = 0,    /* MPI is initialised: the task gets the region and the bell */
    COSCHED_PHASE_LAUNCHED = 1, /* the process has just started: it counts as a task of the job
                                 * until it ends or registers again, and never waits for memory */
    COSCHED_PHASE_LAUNCHER = 2, /* the process starts tasks of the job and is none itself. It never
                                 * waits, not even for the answer */
    COSCHED_PHASE_COMMAND = 3   /* the same, of the command that will start the launcher: it leaves
                                 * when another process of the job registers */
};

/* How the sender's status travels. */
enum cosched_carrier {
    COSCHED_CARRIER_NONE = 0,   /* not at all: no message is trapped */
    COSCHED_CARRIER_PREFIX = 1, /* in front of each message: the paper's byte */
    COSCHED_CARRIER_SHADOW = 2  /* beside the messages, after a change */
};

/* The mode that the job's owner chose; see cosched/core/node/modes.py. */
enum cosched_mode {
    COSCHED_MODE_COSCHEDULED = 0,
    COSCHED_MODE_RAISED = 1,
    COSCHED_MODE_SUSPENDED = 2,
    COSCHED_MODE_RELEASED = 3,
    COSCHED_MODE_RESTING = 4 /* stopped by the node for a moment; the next daemon continues it */
};

/* The resources that limit a job, as its user named them: a set. A job with one of them shares
 * its nodes. */
enum cosched_resource {
    COSCHED_LIMITED_BY_CPU = 1,
    COSCHED_LIMITED_BY_MEMORY = 2,
    COSCHED_LIMITED_BY_IO = 4,
    COSCHED_LIMITED_BY_NETWORK = 8
};

/* Start of each region. Written once by its creator, `ready` last. */
struct cosched_header {
    uint64_t magic; /* COSCHED_REGION_MAGIC */
    uint32_t abi;   /* COSCHED_ABI */
    uint32_t kind;  /* enum cosched_kind */
    uint64_t bytes; /* size of the region */
    uint32_t ready; /* 1: the region may be used */
    uint32_t pad0;
    uint8_t pad1[32];
};

/* The scheduler daemon's heartbeat. If it stops, the daemon is gone. Written by the scheduler
 * daemon. */
struct cosched_heartbeat {
    uint64_t beat_ns; /* time of the last beat, CLOCK_MONOTONIC */
    uint8_t pad[56];
};

/* A job's status on this node. A restarted daemon and the timer daemon read it as well.
 * Written by the scheduler daemon. */
struct cosched_status {
    uint64_t word;         /* (epoch << 1) | scheduled; unscheduled tasks sleep on its low 32
                            * bits, a futex. The epoch rises with each change. */
    uint32_t contended;    /* 1: another job waits for this job's CPUs */
    uint32_t mode;         /* enum cosched_mode */
    uint64_t memory_bytes; /* memory that the job declared for this node; 0: none */
    uint64_t submitted_ns; /* orders the jobs by submission, since 1970; 0: not known */
    uint32_t limited_by;   /* set of enum cosched_resource; 0: the user named none */
    uint8_t pad[28];
};

/* How long like jobs were scheduled before; see cosched/core/node/knowledge.py. In a region it
 * is written by the scheduler daemon. */
struct cosched_expectation {
    uint64_t kind;          /* the same for runs of one program; 0: not known */
    uint64_t lengths_ns[8]; /* 0: none */
    uint8_t pad[56];
};

/* Bounded queue of 63-bit requests with many producers and one consumer; see ring.h. */
struct cosched_ring {
    uint64_t head; /* written by the consumer */
    uint8_t pad0[56];
    uint64_t tail; /* written by the producers */
    uint8_t pad1[56];
    uint64_t dropped; /* requests that were lost because the ring was full */
    uint8_t pad2[56];
    uint64_t cells[64];
};

/* The identity of a task. Written by the scheduler daemon. */
struct cosched_task_identity {
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: shows whether a pid was reused */
    int32_t pid;
    int32_t rank;     /* in MPI_COMM_WORLD */
    int32_t world;    /* size of MPI_COMM_WORLD */
    uint32_t state;   /* enum cosched_task_state */
    uint32_t carrier; /* enum cosched_carrier */
    uint32_t phase;   /* enum cosched_phase */
    uint8_t pad[32];
};

/* Counts since the task registered. Written by the task.
 * trapped = posted + suppressed + dropped. */
struct cosched_task_counters {
    uint64_t sent;           /* messages sent with a status, in front or beside */
    uint64_t received;       /* arrivals whose status was read: with `prefix` each message, with
                              * `shadow` each message and collective call while unscheduled */
    uint64_t bytes_sent;     /* user bytes in `sent` */
    uint64_t bytes_received; /* user bytes in `received` with `prefix`; otherwise 0 */
    uint64_t trapped;        /* arrivals from a scheduled peer while unscheduled */
    uint64_t posted;         /* CMDSCH put into the ring */
    uint64_t suppressed;     /* CMDSCH not put: one was already posted in this epoch */
    uint64_t dropped;        /* CMDSCH not put: the ring was full */
    uint64_t waits;          /* blocking calls that did not complete at once */
    uint64_t pauses;         /* sleeps while unscheduled */
    uint64_t paused_ns;      /* time in `pauses` */
    uint64_t foreign;        /* prefix bytes that no shim wrote: must stay 0 */
    uint64_t naps;           /* sleeps while scheduled, which leave the CPU to others */
    uint64_t stale;          /* arrivals from a scheduled peer that may have lain unread since
                              * an earlier slice; not trapped */
    uint64_t waited_ns;      /* time in `waits`; waits of some microseconds do not count */
    uint64_t told;           /* shadow: messages that sent a peer a change of status */
    uint64_t marks;          /* iterations that the program marked */
    uint64_t collectives;    /* collective calls, blocking or not */
    uint8_t pad[48];
};

struct cosched_task {
    struct cosched_task_identity identity;
    struct cosched_task_counters counters;
};

struct cosched_job_region {
    struct cosched_header header;
    struct cosched_heartbeat heartbeat;
    struct cosched_status status;
    struct cosched_expectation expectation;
    char name[64];            /* the job's name, written by the scheduler daemon */
    struct cosched_ring ring; /* requests of the tasks */
    struct cosched_task tasks[512]; /* by slot */
};

/* When the slice ends. Written by the scheduler daemon for the timer daemon. */
struct cosched_timer_orders {
    uint64_t slice_ns;
    uint64_t deadline_ns; /* end of the slice, CLOCK_MONOTONIC; used if align is 0 */
    uint32_t align;       /* 1: slices start at multiples of slice_ns in CLOCK_REALTIME */
    uint32_t idle;        /* 1: no jobs compete, send no CMDCSW */
    uint32_t generation;  /* odd while the orders are being written */
    uint8_t pad[36];
};

/* How late the timer daemon woke up. Written by the timer daemon. */
struct cosched_timer_report {
    uint64_t ticks;
    uint64_t late_last_ns;
    uint64_t late_max_ns;
    uint64_t late_sum_ns;
    int64_t pid;
    uint8_t pad[24];
};

struct cosched_node_region {
    struct cosched_header header;
    struct cosched_heartbeat heartbeat;
    struct cosched_timer_orders orders;
    struct cosched_timer_report report;
    struct cosched_ring ring;
};

/* CMDREG: a process registers over the registration socket (SOCK_SEQPACKET). Its pid, uid and
 * gid come from the kernel, not from this message. */
struct cosched_hello {
    uint32_t magic;
    uint32_t abi;
    int32_t rank;
    int32_t world;
    uint32_t carrier;
    uint32_t phase;        /* enum cosched_phase */
    uint64_t memory_bytes; /* memory that the job needs on this node; 0: not declared */
    uint64_t submitted_ns; /* when it was submitted, since 1970; 0: not known */
    struct cosched_expectation expectation;
    char job[64];          /* its name */
    uint32_t limited_by;   /* set of enum cosched_resource; 0: the user named none */
    uint32_t pad0;
};

/* The answer to CMDREG.
 *
 * error 0: the task is registered. In COSCHED_PHASE_TASK two descriptors come with the answer
 * (SCM_RIGHTS): the job's region, and its bell, a FIFO. The task writes one byte into the bell
 * after each request.
 *
 * error -EINPROGRESS: the job waits for memory. Another answer follows within a second, until
 * a final one.
 *
 * Any other error is a negative errno. `reason` is one line for the user; it is empty if
 * another task of the job has got it. */
struct cosched_welcome {
    uint32_t magic;
    uint32_t abi;
    int32_t error;
    uint32_t slot; /* index into tasks[] */
    uint64_t region_bytes;
    char reason[128];
};
/* cdef: end */

#define COSCHED_ASSERT_SIZE(type, n) _Static_assert(sizeof(struct type) == (n), #type " changed size")
#define COSCHED_ASSERT_AT(type, field, n) \
    _Static_assert(offsetof(struct type, field) == (n), #type "." #field " moved")

COSCHED_ASSERT_SIZE(cosched_header, 64);
COSCHED_ASSERT_SIZE(cosched_heartbeat, 64);
COSCHED_ASSERT_SIZE(cosched_status, 64);
COSCHED_ASSERT_SIZE(cosched_ring, 192 + 8 * COSCHED_RING_CELLS);
COSCHED_ASSERT_SIZE(cosched_task_identity, 64);
COSCHED_ASSERT_SIZE(cosched_task_counters, 192);
COSCHED_ASSERT_SIZE(cosched_task, 256);
COSCHED_ASSERT_SIZE(cosched_timer_orders, 64);
COSCHED_ASSERT_SIZE(cosched_timer_report, 64);
COSCHED_ASSERT_SIZE(cosched_expectation, 128);
COSCHED_ASSERT_SIZE(cosched_hello, 240);
COSCHED_ASSERT_SIZE(cosched_welcome, 152);
COSCHED_ASSERT_AT(cosched_header, ready, 24);
COSCHED_ASSERT_AT(cosched_ring, tail, 64);
COSCHED_ASSERT_AT(cosched_ring, dropped, 128);
COSCHED_ASSERT_AT(cosched_ring, cells, 192);
COSCHED_ASSERT_AT(cosched_job_region, heartbeat, 64);
COSCHED_ASSERT_AT(cosched_job_region, status, 128);
COSCHED_ASSERT_AT(cosched_job_region, expectation, 192);
COSCHED_ASSERT_AT(cosched_job_region, name, 320);
COSCHED_ASSERT_AT(cosched_job_region, ring, 384);
COSCHED_ASSERT_AT(cosched_job_region, tasks, 1088);
COSCHED_ASSERT_SIZE(cosched_job_region, 1088 + 256 * COSCHED_TASKS_MAX);
COSCHED_ASSERT_AT(cosched_node_region, orders, 128);
COSCHED_ASSERT_AT(cosched_node_region, report, 192);
COSCHED_ASSERT_AT(cosched_node_region, ring, 256);
_Static_assert(COSCHED_RING_CELLS == 64 && COSCHED_TASKS_MAX == 512 && COSCHED_NAME_BYTES == 64 &&
                   COSCHED_REASON_BYTES == 128 && COSCHED_LENGTHS_MAX == 8,
               "the literals in the cffi part follow the constants");
_Static_assert((COSCHED_RING_CELLS & (COSCHED_RING_CELLS - 1)) == 0, "a power of two");

#endif
