/*
 * requests.h - keeps records of requests until they complete: the copy that a send is made
 * from, or the place of a received message until the user may see it.
 *
 * Only requests that need one have a record. For any other request the look-up finds nothing,
 * and the request goes to MPI unchanged.
 *
 * A handle may be in the table twice for a moment: once MPI has completed a request, another
 * thread may get the same handle before this one has dealt with the record. So a thread claims
 * a record before the call that may complete it, and no other thread finds the record until it
 * is unclaimed. (MPI forbids two threads to complete one request at a time.)
 */
#ifndef COSCHED_REQUESTS_H
#define COSCHED_REQUESTS_H

#include <stdbool.h>

#include "base/handles.h"
#include "status/comms.h"
#include "status/wire.h"

struct cosched_record {
    struct cosched_entry entry;
    struct cosched_record *next; /* in a list, while it is not in the table */
    MPI_Request handle;          /* the user's handle of the request */
    struct cosched_wire out;
    struct cosched_wire in;
    MPI_Request sent; /* Isendrecv: the other half; MPI_REQUEST_NULL: none, or complete */
    struct cosched_comm *from; /* shadow: the communicator of the message, or NULL */
    int dest;                  /* shadow: rank of the world that a start sends to */
    uint64_t bytes;            /* shadow: the size of each message to dest */
    bool has_dest;             /* dest and bytes are in use */
    bool is_collective;        /* shadow: it completes when the ranks of `from` have met */
    bool sends;                /* out is in use */
    bool receives;             /* in is in use */
    bool persistent;           /* stays when it completes */
    bool active;               /* started and not completed */
    bool starting;             /* made active by a call that is going to start it */
    bool delivered;            /* the user has the message, but the request is not complete */
    bool claimed;              /* in use by a call */
};

/* Returns a record that is not in the table yet. NULL: no memory. */
struct cosched_record *cosched_requests_new(void);

/* Puts the record into the table under MPI's handle. */
void cosched_requests_add(struct cosched_record *record, MPI_Request handle);

/* Frees a record that is not in the table. */
void cosched_requests_drop(struct cosched_record *record);

/* Whether there is any record in the table: without one, no look-up is needed. */
bool cosched_requests_any(void);

/* Shadow: records a request that MPI has made: a receive in comm, a persistent send, or a
 * non-blocking collective. A request that is not persistent is recorded only while another job
 * wants the CPUs, and costs nothing otherwise. Without memory nothing is recorded. */
void cosched_requests_expect_message(MPI_Request handle, MPI_Comm comm, bool persistent);
void cosched_requests_expect_start(MPI_Request handle, MPI_Comm comm, int dest,
                                   cosched_count count, MPI_Datatype type);
void cosched_requests_expect_collective(MPI_Request handle, MPI_Comm comm);

/* Returns the record of a request, or NULL. The caller completes it or unclaims it. */
struct cosched_record *cosched_requests_claim(MPI_Request handle);
void cosched_requests_unclaim(struct cosched_record *record);

/* Claims the records of many requests, and sets found[i] for each i. Returns how many there
 * are. */
int cosched_requests_claim_all(int count, const MPI_Request handles[],
                               struct cosched_record *found[]);

/* Handles a request that completed with this error (or MPI_SUCCESS) and status: hands the
 * message to the user, and forgets a request that is not persistent. `waits`: the call waits
 * for all its requests. Returns `error`, or why the message could not be handed over. */
int cosched_requests_complete(struct cosched_record *record, int error, MPI_Status *status,
                              bool waits);

/* Hands over the message and the status of a request that can complete, but is not yet. */
int cosched_requests_peek(struct cosched_record *record, MPI_Status *status);

/* MPI_Request_free of a claimed record. Returns true when the shim now owns the handle and
 * completes it, and false when MPI is to free it. */
bool cosched_requests_release(struct cosched_record *record);

/* Takes over a record that is in no table, of which only the sending half is pending. */
void cosched_requests_adopt(struct cosched_record *record);

/* Requests that the shim took over. */
extern struct cosched_record *cosched_requests_orphans;

/* Completes those that can complete. */
void cosched_requests_sweep_now(void);

static inline void cosched_requests_sweep(void) {
    if (__builtin_expect(__atomic_load_n(&cosched_requests_orphans, __ATOMIC_ACQUIRE) != NULL, 0))
        cosched_requests_sweep_now();
}

/* The same for calls that send or free. The longer the list, the rarer the sweep, so that a
 * call tests a few requests on average. */
void cosched_requests_sweep_at_times_now(void);

static inline void cosched_requests_sweep_at_times(void) {
    if (__builtin_expect(__atomic_load_n(&cosched_requests_orphans, __ATOMIC_ACQUIRE) != NULL, 0))
        cosched_requests_sweep_at_times_now();
}

/* At the end: returns what was taken over to MPI, and frees nothing that MPI may still use. */
void cosched_requests_forget(void);

#endif
