/*
 * Serves receives: blocking, with a request, persistent, and of a matched message.
 */
#include "status/comms.h"
#include "calls/do.h"
#include "wait/library_yields.h"
#include "calls/matched.h"
#include "calls/requests.h"
#include "status/shadow.h"

/* Handles a blocking receive that returned, with or without an error. */
static int finish(struct cosched_wire *wire, int rc, MPI_Comm comm, MPI_Status *status) {
    int delivered = MPI_SUCCESS;
    if (cosched_wire_arrived(rc))
        delivered = cosched_wire_deliver(wire, status);
    cosched_wire_release(wire);
    cosched_requests_sweep();
    return rc != MPI_SUCCESS ? rc : cosched_comms_raise(comm, delivered);
}

/* The same as cosched_shadow_after_receive, out of line: scheduled tasks never need it. */
static __attribute__((noinline, cold)) void trap(int source, MPI_Comm comm,
                                                 const MPI_Status *status) {
    if (cosched_shadow.on) /* otherwise the status may be unset */
        cosched_shadow_trap_from(comm, source == MPI_ANY_SOURCE ? status->MPI_SOURCE : source);
}

static inline __attribute__((always_inline)) int receive(struct cosched_wire *wire, int source,
                                                         int tag, MPI_Comm comm,
                                                         MPI_Status *status) {
    int rc;
    if (cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY) && source != MPI_PROC_NULL) {
        MPI_Request request;
        rc = cosched_pmpi.COSCHED_LARGE(Irecv)(wire->data, wire->count, wire->type, source, tag,
                                               comm, &request);
        if (rc == MPI_SUCCESS)
            rc = cosched_wait_for(&request, status);
    } else
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.COSCHED_LARGE(Recv)(wire->data, wire->count,
                                                                   wire->type, source, tag, comm,
                                                                   status));
    if (rc == MPI_SUCCESS && !cosched_state_is_scheduled())
        trap(source, comm, status);
    return finish(wire, rc, comm, status);
}

/* Only a message with a byte in front needs room for a copy: a thread's stack may be small. */
static __attribute__((noinline)) int receive_with_byte(void *buf, cosched_count count,
                                                       MPI_Datatype type, int source, int tag,
                                                       MPI_Comm comm, MPI_Status *status) {
    struct cosched_wire_room room;
    struct cosched_wire wire;
    MPI_Status own;
    int rc = cosched_wire_in(&wire, &room, buf, count, type);
    if (rc != MPI_SUCCESS)
        return cosched_comms_raise(comm, rc);
    return receive(&wire, source, tag, comm, status == MPI_STATUS_IGNORE ? &own : status);
}

static __attribute__((noinline)) int receive_waiting(void *buf, cosched_count count,
                                                     MPI_Datatype type, int source, int tag,
                                                     MPI_Comm comm, MPI_Status *status) {
    struct cosched_wire wire;
    MPI_Status own;
    cosched_wire_plain(&wire, buf, count, type);
    if (cosched_shadow.on && source == MPI_ANY_SOURCE && status == MPI_STATUS_IGNORE)
        status = &own;
    return receive(&wire, source, tag, comm, status);
}

/* The common case: nothing is in front of the message, and the library waits. */
int cosched_do_Recv(void *buf, cosched_count count, MPI_Datatype type, int source, int tag,
                    MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    int rc;
    if (cosched_state_uses_prefix() && source != MPI_PROC_NULL && cosched_comms_carry(comm))
        return receive_with_byte(buf, count, type, source, tag, comm, status);
    if (cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY))
        return receive_waiting(buf, count, type, source, tag, comm, status);
    if (cosched_shadow.on && source == MPI_ANY_SOURCE && status == MPI_STATUS_IGNORE)
        status = &own;
    COSCHED_LIBRARY_WAITS(
        rc, cosched_pmpi.COSCHED_LARGE(Recv)(buf, count, type, source, tag, comm, status));
    if (rc == MPI_SUCCESS && !cosched_state_is_scheduled())
        trap(source, comm, status);
    cosched_requests_sweep();
    return rc;
}

static inline __attribute__((always_inline)) int
receive_matched(struct cosched_wire *wire, MPI_Message *message, MPI_Status *status) {
    int rc;
    if (cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY)) {
        MPI_Request request;
        rc = cosched_pmpi.COSCHED_LARGE(Imrecv)(wire->data, wire->count, wire->type, message,
                                                &request);
        if (rc == MPI_SUCCESS)
            rc = cosched_wait_for(&request, status);
    } else
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.COSCHED_LARGE(Mrecv)(
                                      wire->data, wire->count, wire->type, message, status));
    return finish(wire, rc, MPI_COMM_NULL, status);
}

static __attribute__((noinline)) int receive_matched_with_byte(void *buf, cosched_count count,
                                                               MPI_Datatype type,
                                                               MPI_Message *message,
                                                               MPI_Status *status) {
    struct cosched_wire_room room;
    struct cosched_wire wire;
    MPI_Status own;
    int rc = cosched_wire_in(&wire, &room, buf, count, type);
    if (rc != MPI_SUCCESS)
        return cosched_comms_raise(MPI_COMM_NULL, rc);
    return receive_matched(&wire, message, status == MPI_STATUS_IGNORE ? &own : status);
}

int cosched_do_Mrecv(void *buf, cosched_count count, MPI_Datatype type, MPI_Message *message,
                     MPI_Status *status) {
    struct cosched_wire wire;
    if (cosched_matched_carry(*message))
        return receive_matched_with_byte(buf, count, type, message, status);
    cosched_wire_plain(&wire, buf, count, type);
    return receive_matched(&wire, message, status);
}

/* Returns the record of a receive with its wire laid out. NULL: MPI's error is in *rc and was
 * raised in `comm`. */
static struct cosched_record *open_record(void *buf, cosched_count count, MPI_Datatype type,
                                          MPI_Comm comm, int *rc) {
    struct cosched_record *record = cosched_requests_new();
    if (record == NULL) {
        *rc = cosched_comms_raise(comm, MPI_ERR_NO_MEM);
        return NULL;
    }
    *rc = cosched_comms_raise(comm, cosched_wire_in(&record->in, NULL, buf, count, type));
    record->receives = *rc == MPI_SUCCESS;
    if (*rc == MPI_SUCCESS)
        return record;
    cosched_requests_drop(record);
    return NULL;
}

/* Keeps or drops the record after MPI's call. */
static void close_record(struct cosched_record *record, int rc, MPI_Request *request) {
    if (rc == MPI_SUCCESS)
        cosched_requests_add(record, *request);
    else
        cosched_requests_drop(record);
}

int cosched_do_Irecv(void *buf, cosched_count count, MPI_Datatype type, int source, int tag,
                     MPI_Comm comm, MPI_Request *request) {
    struct cosched_record *record;
    int rc;
    if (source == MPI_PROC_NULL || !cosched_comms_carry(comm)) {
        rc = cosched_pmpi.COSCHED_LARGE(Irecv)(buf, count, type, source, tag, comm, request);
        if (rc == MPI_SUCCESS && source != MPI_PROC_NULL)
            cosched_requests_expect_message(*request, comm, false);
        return rc;
    }
    record = open_record(buf, count, type, comm, &rc);
    if (record == NULL)
        return rc;
    record->active = true;
    rc = cosched_pmpi.COSCHED_LARGE(Irecv)(record->in.data, record->in.count, record->in.type,
                                           source, tag, comm, request);
    close_record(record, rc, request);
    return rc;
}

int cosched_do_Recv_init(void *buf, cosched_count count, MPI_Datatype type, int source, int tag,
                         MPI_Comm comm, MPI_Request *request) {
    struct cosched_record *record;
    int rc;
    if (source == MPI_PROC_NULL || !cosched_comms_carry(comm)) {
        rc = cosched_pmpi.COSCHED_LARGE(Recv_init)(buf, count, type, source, tag, comm, request);
        if (rc == MPI_SUCCESS && source != MPI_PROC_NULL)
            cosched_requests_expect_message(*request, comm, true);
        return rc;
    }
    record = open_record(buf, count, type, comm, &rc);
    if (record == NULL)
        return rc;
    record->persistent = true;
    rc = cosched_pmpi.COSCHED_LARGE(Recv_init)(record->in.data, record->in.count, record->in.type,
                                               source, tag, comm, request);
    close_record(record, rc, request);
    return rc;
}

int cosched_do_Imrecv(void *buf, cosched_count count, MPI_Datatype type, MPI_Message *message,
                      MPI_Request *request) {
    struct cosched_record *record;
    int rc;
    if (!cosched_matched_carry(*message))
        return cosched_pmpi.COSCHED_LARGE(Imrecv)(buf, count, type, message, request);
    record = open_record(buf, count, type, MPI_COMM_NULL, &rc);
    if (record == NULL)
        return rc;
    record->active = true;
    rc = cosched_pmpi.COSCHED_LARGE(Imrecv)(record->in.data, record->in.count, record->in.type,
                                            message, request);
    close_record(record, rc, request);
    return rc;
}
