/*
 * Serves sends: blocking, with a request, and persistent.
 */
#include "status/comms.h"
#include "calls/do.h"
#include "wait/library_yields.h"
#include "calls/outgoing.h"
#include "calls/requests.h"
#include "status/shadow.h"

/* The types of calls that differ only in the mode of the send. */
typedef __typeof__(*cosched_pmpi.COSCHED_LARGE(Send)) blocking_call;
typedef __typeof__(*cosched_pmpi.COSCHED_LARGE(Isend)) request_call;

static __attribute__((noinline)) int
send_with_care(const void *buf, cosched_count count, MPI_Datatype type, int dest, int tag,
               MPI_Comm comm, blocking_call *call, request_call *request_form, bool always_waits) {
    struct cosched_wire_room room;
    struct cosched_wire wire;
    int rc = cosched_outgoing_lay_out(&wire, &room, buf, count, type, dest, comm);
    if (rc != MPI_SUCCESS)
        return cosched_comms_raise(comm, rc);
    /* The shim replaces the wait of a message that may have to wait. An unscheduled task should
     * not spin at all. */
    if (request_form != NULL && cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY) &&
        (always_waits || !cosched_wire_is_short(&wire) ||
         !cosched_state_is_scheduled())) {
        MPI_Request request;
        rc = request_form(wire.data, wire.count, wire.type, dest, tag, comm, &request);
        if (rc == MPI_SUCCESS)
            rc = cosched_wait_for(&request, MPI_STATUS_IGNORE);
    } else
        COSCHED_LIBRARY_WAITS(rc, call(wire.data, wire.count, wire.type, dest, tag, comm));
    cosched_wire_release(&wire);
    return rc;
}

/* The common case: nothing is in front of the message, and the library waits. It is inlined into
 * each of the four calls, since one more call costs a hundredth of a short message. */
static inline __attribute__((always_inline)) int
send_blocking(const void *buf, cosched_count count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm, blocking_call *call, request_call *request_form,
              bool always_waits) {
    bool sends;
    int rc;
    if (cosched_state_uses_prefix() || cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY))
        return send_with_care(buf, count, type, dest, tag, comm, call, request_form, always_waits);
    sends = cosched_shadow_before_send(comm, dest);
    COSCHED_LIBRARY_WAITS(rc, call(buf, count, type, dest, tag, comm));
    if (sends && rc == MPI_SUCCESS) /* counted while the message is under way */
        cosched_wire_count(count, type);
    return rc;
}

#define BLOCKING(name, request_form, always_waits)                                                 \
    int cosched_do_##name(const void *buf, cosched_count count, MPI_Datatype type, int dest,       \
                          int tag, MPI_Comm comm) {                                                \
        return send_blocking(buf, count, type, dest, tag, comm,                                    \
                             cosched_pmpi.COSCHED_LARGE(name), request_form, always_waits);        \
    }

BLOCKING(Send, cosched_pmpi.COSCHED_LARGE(Isend), false)
BLOCKING(Ssend, cosched_pmpi.COSCHED_LARGE(Issend), true)
BLOCKING(Rsend, cosched_pmpi.COSCHED_LARGE(Irsend), false)
BLOCKING(Bsend, NULL, false) /* never waits */

/* Isend and its variants. A copy must stay until the send is complete; a small send is complete
 * at once. The library keeps a datatype as long as it needs it. */
static int send_request(const void *buf, cosched_count count, MPI_Datatype type, int dest, int tag,
                        MPI_Comm comm, MPI_Request *request, request_call *call) {
    struct cosched_wire wire;
    int done = 0;
    int rc = cosched_outgoing_lay_out(&wire, NULL, buf, count, type, dest, comm);
    if (rc != MPI_SUCCESS)
        return cosched_comms_raise(comm, rc);
    rc = call(wire.data, wire.count, wire.type, dest, tag, comm, request);
    if (rc == MPI_SUCCESS && wire.heap != NULL) {
        /* Completed sends may share one handle, so they must not be recorded. */
        cosched_pmpi.Request_get_status(*request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            struct cosched_record *record = cosched_requests_new();
            if (record == NULL)
                return rc; /* the copy is lost, the message is not */
            record->out = wire;
            record->sends = record->active = true;
            cosched_requests_add(record, *request);
            return rc;
        }
    }
    cosched_wire_release(&wire);
    return rc;
}

#define WITH_REQUEST(name)                                                                         \
    int cosched_do_##name(const void *buf, cosched_count count, MPI_Datatype type, int dest,       \
                          int tag, MPI_Comm comm, MPI_Request *request) {                          \
        return send_request(buf, count, type, dest, tag, comm, request,                            \
                            cosched_pmpi.COSCHED_LARGE(name));                                     \
    }

WITH_REQUEST(Isend)
WITH_REQUEST(Ibsend)
WITH_REQUEST(Issend)
WITH_REQUEST(Irsend)

/* Each start writes the status and, in a copy, the data (complete.c). */
static int send_init(const void *buf, cosched_count count, MPI_Datatype type, int dest, int tag,
                     MPI_Comm comm, MPI_Request *request, request_call *call) {
    struct cosched_record *record;
    int rc;
    if (dest == MPI_PROC_NULL || !cosched_comms_carry(comm)) {
        rc = call(buf, count, type, dest, tag, comm, request);
        if (rc == MPI_SUCCESS)
            cosched_requests_expect_start(*request, comm, dest, count, type);
        return rc;
    }
    record = cosched_requests_new();
    if (record == NULL)
        return cosched_comms_raise(comm, MPI_ERR_NO_MEM);
    rc = cosched_comms_raise(comm, cosched_wire_out_again(&record->out, buf, count, type));
    if (rc == MPI_SUCCESS) {
        record->sends = record->persistent = true;
        rc = call(record->out.data, record->out.count, record->out.type, dest, tag, comm, request);
    }
    if (rc == MPI_SUCCESS)
        cosched_requests_add(record, *request);
    else
        cosched_requests_drop(record);
    return rc;
}

#define PERSISTENT(name)                                                                           \
    int cosched_do_##name(const void *buf, cosched_count count, MPI_Datatype type, int dest,       \
                          int tag, MPI_Comm comm, MPI_Request *request) {                          \
        return send_init(buf, count, type, dest, tag, comm, request,                               \
                         cosched_pmpi.COSCHED_LARGE(name));                                        \
    }

PERSISTENT(Send_init)
PERSISTENT(Bsend_init)
PERSISTENT(Ssend_init)
PERSISTENT(Rsend_init)
