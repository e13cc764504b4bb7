/*
 * cosched/layout.h - what the daemons and the tasks of one node share.
 *
 * This header is the layout. The cffi module that the daemons use is generated
 * from the text between the two markers, and the shim includes the same file, so
 * the two cannot drift apart. Sizes and offsets are asserted below.
 *
 * Two kinds of region, each a POSIX shared-memory object of mode 0600:
 *
 *   node region   one a node: scheduler daemon <-> timer daemon
 *   job region    one a job on a node, owned by the job's user:
 *                 scheduler daemon <-> the job's tasks
 *
 * Every record has one writer, named beside it. Whoever reads a region written by
 * somebody less privileged takes what it reads as a hint and checks it.
 */
#ifndef COSCHED_LAYOUT_H
#define COSCHED_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define COSCHED_REGION_MAGIC UINT64_C(0x64656863736f6331) /* "1cosched", little endian */

/* cdef: begin */
enum cosched_limits {
    COSCHED_ABI = 6,           /* raised by any change to this file */
    COSCHED_NAME_BYTES = 64,   /* a job's name with its final NUL */
    COSCHED_REASON_BYTES = 128,
    COSCHED_RING_CELLS = 64,   /* a power of two */
    COSCHED_TASKS_MAX = 512,   /* tasks of one job on one node */
    COSCHED_HELLO_MAGIC = 0x63736831
};

enum cosched_kind { COSCHED_KIND_NODE = 1, COSCHED_KIND_JOB = 2 };

/* The five requests of Yoo and Jette, section 2.2.3. CMDREG travels over the
 * registration socket, where the kernel vouches for the sender; the others
 * through a ring. */
enum cosched_request {
    COSCHED_CMDREG = 1, /* a task is about to start */
    COSCHED_CMDOUT = 2, /* a task is about to end */
    COSCHED_CMDCSW = 3, /* timer daemon: the slice is over */
    COSCHED_CMDSCH = 4, /* a task trapped a message of a scheduled peer */
    COSCHED_CMDDWN = 5  /* end the scheduler daemon */
};

/* Life of a task record, written by the scheduler daemon. */
enum cosched_task_state { COSCHED_TASK_FREE = 0, COSCHED_TASK_LIVE = 1 };

/* What a process registers as. */
enum cosched_phase {
    COSCHED_PHASE_TASK = 0,    /* it has initialised MPI: it gets the region and the bell */
    COSCHED_PHASE_LAUNCHED = 1 /* it has just begun, and is a task of which nothing is heard
                                * but that it ends or comes again; it is never made to wait */
};

/* How the status of the sender travels. */
enum cosched_carrier {
    COSCHED_CARRIER_NONE = 0,   /* it does not: nothing is trapped */
    COSCHED_CARRIER_PREFIX = 1, /* the paper's byte before each message */
    COSCHED_CARRIER_SHADOW = 2  /* out of band */
};

/* How the job's owner wants it treated; see cosched.core.node.modes. */
enum cosched_mode {
    COSCHED_MODE_COSCHEDULED = 0,
    COSCHED_MODE_RAISED = 1,
    COSCHED_MODE_SUSPENDED = 2,
    COSCHED_MODE_RELEASED = 3
};

/* Written once by the creator; `ready` last. */
struct cosched_header {
    uint64_t magic;
    uint32_t abi;
    uint32_t kind;
    uint64_t bytes;
    uint32_t ready;
    uint32_t pad0;
    uint8_t pad1[32];
};

/* Scheduler daemon's pulse, CLOCK_MONOTONIC. Stale: the daemon is gone. */
struct cosched_heartbeat {
    uint64_t beat_ns;
    uint8_t pad[56];
};

/* A job's status on this node: (epoch << 1) | scheduled. Its low 32 bits are a
 * futex on which waiters sleep. Written by the scheduler daemon. */
struct cosched_status {
    uint64_t word;
    uint32_t contended;    /* 1: another job waits for the CPUs of this one */
    uint32_t mode;         /* enum cosched_mode, for whoever outlives the daemon */
    uint64_t memory_bytes; /* what its tasks said that it needs on this node; 0: nothing */
    uint64_t submitted_ns; /* its date in the order of submission, since 1970; 0: unknown */
    uint8_t pad[32];
};

/* Bounded queue of 63-bit requests, many producers, one consumer; see ring.h. */
struct cosched_ring {
    uint64_t head; /* written by the consumer */
    uint8_t pad0[56];
    uint64_t tail; /* written by the producers */
    uint8_t pad1[56];
    uint64_t dropped; /* requests that found the ring full */
    uint8_t pad2[56];
    uint64_t cells[64];
};

/* Who the task is. Written by the scheduler daemon. */
struct cosched_task_identity {
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid */
    int32_t pid;
    int32_t rank;
    int32_t world;
    uint32_t state;   /* enum cosched_task_state */
    uint32_t carrier; /* enum cosched_carrier */
    uint32_t phase;   /* enum cosched_phase */
    uint8_t pad[32];
};

/* What the task did. Written by the task alone. */
struct cosched_task_counters {
    uint64_t sent;          /* messages with a status attached */
    uint64_t received;      /* messages whose status was read */
    uint64_t bytes_sent;    /* user bytes, without the status */
    uint64_t bytes_received; /* the same, of messages with the prefix byte */
    uint64_t trapped;       /* arrivals from a scheduled peer while unscheduled */
    uint64_t posted;        /* CMDSCH put into the ring */
    uint64_t suppressed;    /* not put: one was already posted in this epoch */
    uint64_t dropped;       /* not put: the ring was full */
    uint64_t waits;         /* blocking calls that did not complete at once */
    uint64_t pauses;        /* sleeps of an unscheduled waiter */
    uint64_t paused_ns;
    uint64_t foreign;       /* prefix bytes that no shim wrote: must stay 0 */
    uint64_t naps;          /* sleeps of a scheduled waiter that left its CPU to others */
    uint64_t stale;         /* arrivals from a scheduled peer that had lain there unread */
    uint64_t waited_ns;     /* inside calls that wait; waits of some microseconds are left out */
    uint64_t told;          /* shadow: messages that told a peer of a change of status */
};

struct cosched_task {
    struct cosched_task_identity identity;
    struct cosched_task_counters counters;
};

struct cosched_job_region {
    struct cosched_header header;
    struct cosched_heartbeat heartbeat;
    struct cosched_status status;
    char name[64];
    struct cosched_ring ring;
    struct cosched_task tasks[512];
};

/* Orders of the scheduler daemon to the timer daemon; `generation` is odd while they
 * change. */
struct cosched_timer_orders {
    uint64_t slice_ns;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; free-running slices only */
    uint32_t align;       /* 1: slices start at multiples of the slice in CLOCK_REALTIME */
    uint32_t idle;        /* 1: nothing competes, send no CMDCSW */
    uint32_t generation;
    uint8_t pad[36];
};

/* How late the timer daemon woke. Written by the timer daemon. */
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

/* CMDREG, the task's side of the registration socket (SOCK_SEQPACKET). The
 * kernel, not this message, says which pid, uid and gid sent it. */
struct cosched_hello {
    uint32_t magic;
    uint32_t abi;
    int32_t rank;
    int32_t world;
    uint32_t carrier;
    uint32_t phase;        /* enum cosched_phase */
    uint64_t memory_bytes; /* what the job needs on this node; 0: it does not say */
    uint64_t submitted_ns; /* when it was submitted, since 1970; 0: it does not say */
    char job[64];
};

/* The answer. With error == 0 two descriptors come with it (SCM_RIGHTS), unless the process
 * was only launched: the job's region and its bell, a FIFO into which one byte is written after each request.
 * Otherwise error is a negative errno and `reason` one line for people, or empty if
 * another task of the job was told. With -EINPROGRESS the job waits for memory and a
 * further answer follows, at least once a second until the last one. */
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
COSCHED_ASSERT_SIZE(cosched_task_counters, 128);
COSCHED_ASSERT_SIZE(cosched_task, 192);
COSCHED_ASSERT_SIZE(cosched_timer_orders, 64);
COSCHED_ASSERT_SIZE(cosched_timer_report, 64);
COSCHED_ASSERT_SIZE(cosched_hello, 104);
COSCHED_ASSERT_SIZE(cosched_welcome, 152);
COSCHED_ASSERT_AT(cosched_header, ready, 24);
COSCHED_ASSERT_AT(cosched_ring, tail, 64);
COSCHED_ASSERT_AT(cosched_ring, dropped, 128);
COSCHED_ASSERT_AT(cosched_ring, cells, 192);
COSCHED_ASSERT_AT(cosched_job_region, heartbeat, 64);
COSCHED_ASSERT_AT(cosched_job_region, status, 128);
COSCHED_ASSERT_AT(cosched_job_region, name, 192);
COSCHED_ASSERT_AT(cosched_job_region, ring, 256);
COSCHED_ASSERT_AT(cosched_job_region, tasks, 960);
COSCHED_ASSERT_SIZE(cosched_job_region, 960 + 192 * COSCHED_TASKS_MAX);
COSCHED_ASSERT_AT(cosched_node_region, orders, 128);
COSCHED_ASSERT_AT(cosched_node_region, report, 192);
COSCHED_ASSERT_AT(cosched_node_region, ring, 256);
_Static_assert(COSCHED_RING_CELLS == 64 && COSCHED_TASKS_MAX == 512 && COSCHED_NAME_BYTES == 64 &&
                   COSCHED_REASON_BYTES == 128,
               "the literals in the cffi part follow the constants");
_Static_assert((COSCHED_RING_CELLS & (COSCHED_RING_CELLS - 1)) == 0, "a power of two");

#endif
