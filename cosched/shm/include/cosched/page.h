/*
 * cosched/page.h - lays out the page: the memory that the agent of a node and the ranks of one
 * malleable job share.
 *
 * The agent's steward makes a page for each malleable job on its node: a file of mode 0600 that
 * belongs to the job's user. The variable COSCHED_MALLEABLE has its path.
 *
 *   page:  header | word | wants | result | order | slots[512] | prediction
 *
 * Each record has one writer, named in its comment, and starts at a multiple of 64 bytes.
 *
 * At a boundary, which is the begin of an iteration, a rank stores the number of the iteration
 * in its slot and then loads the word. The agent stores a proposal in the word and then loads
 * all slots. Both have a full fence between the store and the load. So one of them sees the
 * other: a rank cannot pass the proposed boundary unless the agent counts it as missed.
 *
 * docs/dev/formats.md describes the page, and cosched/core/cluster/resizing the agreement.
 */
#ifndef COSCHED_PAGE_H
#define COSCHED_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define COSCHED_PAGE_MAGIC UINT64_C(0x65676170636f6331) /* "1cocpage", little endian */

/* cdef: begin */
enum cosched_page_limits {
    COSCHED_PAGE_VERSION = 2, /* raised by any change of the layout */
    COSCHED_PAGE_SLOTS = 512, /* ranks of one job on one node */
    COSCHED_PAGE_HOST_BYTES = 256,
    COSCHED_PAGE_REASON_BYTES = 256,
    COSCHED_PAGE_ORDER_BYTES = 65536,
    COSCHED_PAGE_POINTS = 64 /* of a prediction */
};

/* The low two bits of the word. */
enum cosched_page_phase {
    COSCHED_PAGE_NONE = 0,      /* no boundary is proposed */
    COSCHED_PAGE_PROPOSED = 1,  /* a rank that comes to the boundary waits there */
    COSCHED_PAGE_COMMITTED = 2  /* a rank that comes to the boundary carries out the order */
};

enum cosched_page_state {
    COSCHED_PAGE_FREE = 0,
    COSCHED_PAGE_JOINING = 1, /* the rank is not yet in the job's communicator */
    COSCHED_PAGE_LIVE = 2,
    COSCHED_PAGE_LEAVING = 3, /* it takes part in its last change */
    COSCHED_PAGE_ENDED = 4    /* its loop is over: it comes to no further boundary */
};

/* What a rank does at a boundary. */
enum cosched_page_turn {
    COSCHED_PAGE_GO_ON = 0,
    COSCHED_PAGE_CHANGE = 1, /* carry out the order */
    COSCHED_PAGE_WAIT = 2    /* call cosched_page_wait */
};

enum cosched_page_outcome {
    COSCHED_PAGE_DONE = 1,
    COSCHED_PAGE_REFUSED = 2 /* the job is as it was */
};

/* Written once by the agent, `ready` last. */
struct cosched_page_header {
    uint64_t magic;   /* COSCHED_PAGE_MAGIC */
    uint32_t version; /* COSCHED_PAGE_VERSION */
    uint32_t ready;   /* 1: the page may be used */
    uint64_t bytes;   /* size of the page */
    uint32_t place;   /* the node's place in the job */
    uint32_t pad0;
    uint8_t pad1[32];
    char host[256];   /* the node's name, as MPI_Comm_spawn takes it; empty: any node */
};

/* Written by the agent. */
struct cosched_page_word {
    uint64_t word; /* (boundary << 2) | enum cosched_page_phase; waiting ranks sleep on its low 32
                    * bits, a futex */
    uint8_t pad[56];
};

/* What the job wants. Written by rank 0 of the job, in the page of its node. The values stay, out of
 * date, when a change moves rank 0 to another node. */
struct cosched_page_wants {
    uint32_t minimum; /* nodes; 0: rank 0 of the job was never on this node */
    uint32_t ideal;   /* nodes; 0: not known */
    uint32_t wanted;  /* nodes that the program asked for last; 0: it did not ask */
    uint32_t asked;   /* how often it asked; written last */
    uint8_t pad[48];
};

/* The last change. Written by rank 0 of the job that the change made, in the page of its node. */
struct cosched_page_result {
    uint64_t generation; /* of the order; written last */
    uint32_t outcome;    /* enum cosched_page_outcome */
    uint32_t ranks;      /* of the job now */
    uint64_t wait_ns;    /* from the boundary to the commit */
    uint64_t spawn_ns;   /* MPI_Comm_spawn */
    uint64_t connect_ns; /* communicators and tables */
    uint64_t start_ns;   /* until the new ranks have come to their redistribute */
    uint64_t move_ns;    /* the data */
    uint64_t resume_ns;  /* old communicators are freed */
    uint64_t moved_bytes; /* by all ranks, between processes */
    uint8_t pad[56];
    char reason[256];    /* one line, if it was refused */
};

/* The change that a proposal is about. Written by the agent before the proposal. */
struct cosched_page_order {
    uint64_t generation; /* grows with each order of the job; 0: there was none */
    uint32_t bytes;      /* of `data` */
    uint32_t pad0;
    uint8_t pad1[48];
    uint8_t data[65536]; /* MessagePack; see cosched/core/cluster/resizing/change.py */
};

/* A rank of the job on this node. Written by the rank. A rank takes a slot by its pid, so the
 * agent finds the slot of one that is killed at any instruction. */
struct cosched_page_slot {
    uint64_t step;         /* the boundary that it came to last */
    uint64_t acknowledged; /* 1 + the boundary at which it waited last; 0: none */
    uint32_t state;        /* enum cosched_page_state */
    int32_t pid;           /* 0: the slot is free; written first by a rank that joins, and last by
                            * one that leaves */
    int32_t rank;          /* in the job */
    uint32_t pad0;
    uint64_t steps;        /* iterations since the job has its size */
    uint64_t exec_ns;      /* their time */
    uint64_t comm_ns;      /* the time in them that the rank waited in MPI; 0: not measured */
    uint64_t since_ns;     /* when the present iteration began, CLOCK_MONOTONIC; 0: none */
    uint64_t waited_ns;    /* the counter of the rank's waits then */
    uint8_t pad1[56];
};

/* What the program predicts. Written by rank 0 of the job, in the page of its node. */
struct cosched_page_prediction {
    uint32_t count;       /* points; 0: none; written last */
    uint32_t pad0;
    uint8_t pad1[56];
    uint32_t nodes[64];   /* of each point, rising */
    uint64_t exec_ns[64]; /* the time of an iteration on so many */
};

struct cosched_page {
    struct cosched_page_header header;
    struct cosched_page_word word;
    struct cosched_page_wants wants;
    struct cosched_page_result result;
    struct cosched_page_order order;
    struct cosched_page_slot slots[512];
    struct cosched_page_prediction prediction;
};

/* What an agent sees of the ranks of its node. */
struct cosched_page_look {
    uint64_t largest; /* the largest boundary that a live or ended rank came to */
    uint32_t joining, live, leaving; /* ranks in these states */
    uint32_t ended;   /* ranks whose loop ended before the boundary in question */
    uint32_t missed;  /* 1: a live or ended rank may have passed it */
    uint32_t pad0;
};

/* For the agent. */

/* Fills the header of a page of zeros. host: shorter than COSCHED_PAGE_HOST_BYTES. */
void cosched_page_publish(struct cosched_page *page, uint32_t place, const char *host);

/* Writes an order. Returns -EMSGSIZE if it is too large. */
int cosched_page_give_order(struct cosched_page *page, uint64_t generation, const uint8_t *data,
                            uint32_t bytes);

/* Stores the word, wakes the ranks that wait, and returns after a full fence. */
void cosched_page_store_word(struct cosched_page *page, uint64_t boundary, uint32_t phase);

/* Reads all slots. boundary: the one in question. */
void cosched_page_scan(const struct cosched_page *page, uint64_t boundary,
                       struct cosched_page_look *look);

/* Frees the slots of a process that has ended. */
void cosched_page_forget(struct cosched_page *page, int32_t pid);

/* Returns the generation of the last change in this page; 0: none. Other fields of the result
 * are valid after that. */
uint64_t cosched_page_last_result(const struct cosched_page *page);

/* For a rank. */

/* Returns 0, or -EPROTO: not a page, -EPROTONOSUPPORT: of another version, -EAGAIN: its agent did
 * not finish it. bytes: of the mapped file. */
int cosched_page_check(const struct cosched_page *page, uint64_t bytes);

/* Takes a free slot, in state JOINING. Returns its index, or -ENOSPC. */
int cosched_page_join(struct cosched_page *page, int32_t pid);

/* Makes the rank live, at the boundary that all ranks came to last. Its times begin again. */
void cosched_page_enter(struct cosched_page *page, uint32_t slot, uint64_t step, int32_t rank);

/* Comes to a boundary. Returns enum cosched_page_turn. waited_ns: counts the time in which the
 * rank waits in MPI; NULL: it is not measured. */
int cosched_page_boundary(struct cosched_page *page, uint32_t slot, uint64_t step,
                          const uint64_t *waited_ns);

/* Waits at a proposed boundary, for some time at most. Returns enum cosched_page_turn. */
int cosched_page_wait(struct cosched_page *page, uint32_t slot, uint64_t step,
                      uint64_t timeout_ns);

/* Says that the rank is in its last change, or that its loop is over. */
void cosched_page_set_state(struct cosched_page *page, uint32_t slot, uint32_t state);

/* Gives the slot back. */
void cosched_page_leave(struct cosched_page *page, uint32_t slot);

/* Asks for a number of nodes. */
void cosched_page_ask(struct cosched_page *page, uint32_t nodes);

/* Publishes a prediction. */
void cosched_page_predict(struct cosched_page *page,
                          const struct cosched_page_prediction *prediction);

/* Publishes a result whose other fields are written. */
void cosched_page_report(struct cosched_page *page, uint64_t generation);
/* cdef: end */

_Static_assert(sizeof(struct cosched_page_header) == 320, "cosched_page_header changed size");
_Static_assert(sizeof(struct cosched_page_word) == 64, "cosched_page_word changed size");
_Static_assert(sizeof(struct cosched_page_wants) == 64, "cosched_page_wants changed size");
_Static_assert(sizeof(struct cosched_page_result) == 384, "cosched_page_result changed size");
_Static_assert(sizeof(struct cosched_page_order) == 64 + COSCHED_PAGE_ORDER_BYTES,
               "cosched_page_order changed size");
_Static_assert(sizeof(struct cosched_page_slot) == 128, "cosched_page_slot changed size");
_Static_assert(sizeof(struct cosched_page_prediction) == 832, "cosched_page_prediction changed size");
_Static_assert(offsetof(struct cosched_page, word) == 320, "word moved");
_Static_assert(offsetof(struct cosched_page, wants) == 384, "wants moved");
_Static_assert(offsetof(struct cosched_page, result) == 448, "result moved");
_Static_assert(offsetof(struct cosched_page, order) == 832, "order moved");
_Static_assert(offsetof(struct cosched_page, slots) == 66432, "slots moved");
_Static_assert(offsetof(struct cosched_page, prediction) == 131968, "prediction moved");
_Static_assert(COSCHED_PAGE_SLOTS == 512 && COSCHED_PAGE_HOST_BYTES == 256 &&
                   COSCHED_PAGE_REASON_BYTES == 256 && COSCHED_PAGE_ORDER_BYTES == 65536 &&
                   COSCHED_PAGE_POINTS == 64,
               "the literals in the cffi part follow the constants");

#endif
