/*
 * requests.h - what must be remembered of a request until it completes: the copy a send is
 * made from, or the place where a received message lies until the user may see it.
 *
 * Only requests that need it are here. A lookup of any other request finds nothing, and the
 * request goes to MPI untouched.
 *
 * A handle may be in the table twice for a moment: once MPI has completed a request, its
 * handle may come back to another thread before this one has dealt with the record. So a
 * record is claimed before the call that may complete it, and nobody finds it until it is
 * unclaimed. (MPI forbids two threads to complete one request at a time.)
 */
#ifndef COSCHED_REQUESTS_H
#define COSCHED_REQUESTS_H

#include <stdbool.h>

#include "status/peers.h"
#include "status/wire.h"

struct cosched_record {
    struct cosched_record *next;
    MPI_Request handle; /* what the user knows the request by */
    struct cosched_wire out;
    struct cosched_wire in;
    MPI_Request sent; /* Isendrecv: the other half; MPI_REQUEST_NULL: none, or complete */
    struct cosched_peers *from; /* out of band: whom the message comes from, or NULL */
    int dest;         /* out of band, tells: rank of the world that a start sends to */
    uint64_t bytes;   /* and how many */
    bool tells;       /* dest is in use */
    bool meets;       /* out of band: it completes when those of `from` have met */
    bool sends;       /* out is in use */
    bool receives;    /* in is in use */
    bool persistent;  /* stays when it completes */
    bool active;      /* started and not completed */
    bool starting;    /* a call that is going to start it has made it active */
    bool delivered;   /* the user has the message, though not yet the request's completion */
    bool claimed;     /* in use by a call */
};

/* A record that is not in the table yet; NULL when memory is out. */
struct cosched_record *cosched_requests_new(void);

/* Puts it into the table under the handle that MPI gave, or frees it. */
void cosched_requests_add(struct cosched_record *record, MPI_Request handle);
void cosched_requests_drop(struct cosched_record *record);

/* Whether there is any record: without one, nothing needs to be looked up. */
bool cosched_requests_any(void);

/* Out of band, MPI having made the request: a receive in comm, a persistent send, a
 * non-blocking collective. What is not persistent is remembered only while another job wants
 * the CPUs: else it is nobody's business, and free of cost. Without memory it is not. */
void cosched_requests_expect_message(MPI_Request handle, MPI_Comm comm, bool persistent);
void cosched_requests_expect_start(MPI_Request handle, MPI_Comm comm, int dest,
                                   uint64_t bytes);
void cosched_requests_expect_meeting(MPI_Request handle, MPI_Comm comm);

/* The record of a request, or NULL. Who claimed one completes it or gives it back. */
struct cosched_record *cosched_requests_claim(MPI_Request handle);
void cosched_requests_unclaim(struct cosched_record *record);

/* The same for many at once: found[i] is set for each i. Returns how many have a record. */
int cosched_requests_claim_all(int count, const MPI_Request handles[],
                               struct cosched_record *found[]);

/* The request completed, with this error (or MPI_SUCCESS) and status; `waits`: in a call that
 * waits for all it was given. The message goes to the user, and a request that is not
 * persistent is forgotten. Returns `error`, or why the message could not be handed over. */
int cosched_requests_complete(struct cosched_record *record, int error, MPI_Status *status,
                              bool waits);

/* It is known to be complete, but still there: the user gets the message and a status. */
int cosched_requests_peek(struct cosched_record *record, MPI_Status *status);

/* MPI_Request_free of a claimed record: takes over what is still moving. Returns true when the handle is now the
 * shim's own to complete, and false when MPI is to free it. */
bool cosched_requests_release(struct cosched_record *record);

/* Takes over a record that is in no table, of which only the sending half is left. */
void cosched_requests_adopt(struct cosched_record *record);

/* Completes what was taken over, as far as it has come. */
extern struct cosched_record *cosched_requests_orphans;
void cosched_requests_sweep_now(void);

static inline void cosched_requests_sweep(void) {
    if (__builtin_expect(__atomic_load_n(&cosched_requests_orphans, __ATOMIC_ACQUIRE) != NULL, 0))
        cosched_requests_sweep_now();
}

/* The same for those who send or free, whom nothing of it concerns: the more is under way, the
 * more seldom it is looked at, so that a call looks at a few on average. */
void cosched_requests_sweep_at_times_now(void);

static inline void cosched_requests_sweep_at_times(void) {
    if (__builtin_expect(__atomic_load_n(&cosched_requests_orphans, __ATOMIC_ACQUIRE) != NULL, 0))
        cosched_requests_sweep_at_times_now();
}

/* At the end: gives what was taken over back to MPI, and frees nothing it may still use. */
void cosched_requests_forget(void);

#endif
