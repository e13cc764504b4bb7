/*
 * Serves Sendrecv and its variants: a send and a receive, each laid out like a single one.
 *
 * The replacing forms send from a packed copy of the buffer, as the library does. From there on
 * they are the plain forms.
 */
#include "status/comms.h"
#include "calls/do.h"
#include "wait/library_yields.h"
#include "calls/outgoing.h"
#include "calls/requests.h"
#include "status/shadow.h"

static int lay_out_receive(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                           cosched_count count, MPI_Datatype type, int source, MPI_Comm comm) {
    if (source != MPI_PROC_NULL && cosched_comms_carry(comm))
        return cosched_wire_in(wire, room, buf, count, type);
    cosched_wire_plain(wire, buf, count, type);
    return MPI_SUCCESS;
}

/* Sends and receives as the library does, but the shim waits. */
static int exchange(const struct cosched_wire *out, int dest, int sendtag,
                    const struct cosched_wire *in, int source, int recvtag, MPI_Comm comm,
                    MPI_Status *status) {
    MPI_Request sent, received = MPI_REQUEST_NULL;
    int sent_rc, rc;
    /* From MPI_PROC_NULL: with MPICH 4.0 only the blocking form sets the status. */
    if (source == MPI_PROC_NULL)
        rc = cosched_pmpi.COSCHED_LARGE(Recv)(in->data, in->count, in->type, source, recvtag, comm,
                                              status);
    else
        rc = cosched_pmpi.COSCHED_LARGE(Irecv)(in->data, in->count, in->type, source, recvtag, comm,
                                           &received);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = cosched_pmpi.COSCHED_LARGE(Isend)(out->data, out->count, out->type, dest, sendtag, comm,
                                           &sent);
    if (rc != MPI_SUCCESS) {
        if (received != MPI_REQUEST_NULL)
            cosched_pmpi.Cancel(&received);
        cosched_pmpi.Wait(&received, MPI_STATUS_IGNORE);
        return rc;
    }
    if (source != MPI_PROC_NULL)
        rc = cosched_wait_for(&received, status);
    sent_rc = cosched_wait_for(&sent, MPI_STATUS_IGNORE);
    return rc != MPI_SUCCESS ? rc : sent_rc;
}

/* Exchanges two messages that are laid out, and hands over the received one. */
static inline __attribute__((always_inline)) int
sendrecv(struct cosched_wire *out, int dest, int sendtag, struct cosched_wire *in, int source,
         int recvtag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    int rc;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY))
        rc = exchange(out, dest, sendtag, in, source, recvtag, comm, status);
    else
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.COSCHED_LARGE(Sendrecv)(
                                      out->data, out->count, out->type, dest, sendtag, in->data,
                                      in->count, in->type, source, recvtag, comm, status));
    if (rc == MPI_SUCCESS)
        cosched_shadow_after_receive(comm, status->MPI_SOURCE);
    if (cosched_wire_arrived(rc)) {
        int delivered = cosched_wire_deliver(in, status);
        rc = rc != MPI_SUCCESS ? rc : cosched_comms_raise(comm, delivered);
    }
    cosched_wire_release(out);
    cosched_wire_release(in);
    cosched_requests_sweep();
    return rc;
}

/* As in recv.c, only messages with a byte in front need room for copies. */
static __attribute__((noinline)) int
sendrecv_with_byte(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype, int dest,
                   int sendtag, void *recvbuf, cosched_count recvcount, MPI_Datatype recvtype,
                   int source, int recvtag, MPI_Comm comm, MPI_Status *status) {
    struct cosched_wire_room out_room, in_room;
    struct cosched_wire out, in;
    int rc = cosched_outgoing_lay_out(&out, &out_room, sendbuf, sendcount, sendtype, dest, comm);
    if (rc != MPI_SUCCESS)
        return cosched_comms_raise(comm, rc);
    rc = lay_out_receive(&in, &in_room, recvbuf, recvcount, recvtype, source, comm);
    if (rc != MPI_SUCCESS) {
        cosched_wire_release(&out);
        return cosched_comms_raise(comm, rc);
    }
    return sendrecv(&out, dest, sendtag, &in, source, recvtag, comm, status);
}

int cosched_do_Sendrecv(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype,
                        int dest, int sendtag, void *recvbuf, cosched_count recvcount,
                        MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                        MPI_Status *status) {
    struct cosched_wire out, in;
    if (cosched_state_uses_prefix())
        return sendrecv_with_byte(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                  recvtype, source, recvtag, comm, status);
    if (cosched_shadow_before_send(comm, dest))
        cosched_wire_count(sendcount, sendtype);
    cosched_wire_plain(&out, sendbuf, sendcount, sendtype);
    cosched_wire_plain(&in, recvbuf, recvcount, recvtype);
    return sendrecv(&out, dest, sendtag, &in, source, recvtag, comm, status);
}

int cosched_do_Sendrecv_replace(void *buf, cosched_count count, MPI_Datatype type, int dest,
                                int sendtag, int source, int recvtag, MPI_Comm comm,
                                MPI_Status *status) {
    struct cosched_wire copy;
    int rc;
    if (!cosched_comms_carry(comm) &&
        (!cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY) || !cosched_comms_has_local())) {
        MPI_Status own;
        if (status == MPI_STATUS_IGNORE)
            status = &own;
        if (cosched_shadow_before_send(comm, dest))
            cosched_wire_count(count, type);
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.COSCHED_LARGE(Sendrecv_replace)(
                                      buf, count, type, dest, sendtag, source, recvtag, comm,
                                      status));
        if (rc == MPI_SUCCESS)
            cosched_shadow_after_receive(comm, status->MPI_SOURCE);
        return rc;
    }
    /* The copy is laid out again, as a message. */
    rc = cosched_wire_copy(&copy, buf, count, type);
    if (rc != MPI_SUCCESS)
        return cosched_comms_raise(comm, rc);
    rc = cosched_do_Sendrecv(copy.data, copy.count, copy.type, dest, sendtag, buf, count, type,
                             source, recvtag, comm, status);
    cosched_wire_release(&copy);
    return rc;
}

#if COSCHED_MPI_HAS_ISENDRECV
/* MPICH's MPI_Isendrecv leaves the status of its request empty, so the received size is lost. The
 * shim makes it from a send and a receive. The user's request is the receive. The send is made
 * from a copy, which leaves the user's buffer free, and may complete later than the receive. */
static int isendrecv(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype, int dest,
                     int sendtag, void *recvbuf, cosched_count recvcount, MPI_Datatype recvtype,
                     int source, int recvtag, MPI_Comm comm, MPI_Request *request) {
    struct cosched_record *record = cosched_requests_new();
    int rc;
    if (record == NULL)
        return cosched_comms_raise(comm, MPI_ERR_NO_MEM);
    cosched_wire_plain(&record->out, sendbuf, sendcount, sendtype);
    cosched_wire_plain(&record->in, recvbuf, recvcount, recvtype);
    record->sends = record->receives = record->active = true;
    rc = dest == MPI_PROC_NULL
             ? MPI_SUCCESS
             : cosched_wire_out_copied(&record->out, NULL, sendbuf, sendcount, sendtype);
    if (rc == MPI_SUCCESS && source != MPI_PROC_NULL)
        rc = cosched_wire_in(&record->in, NULL, recvbuf, recvcount, recvtype);
    cosched_comms_raise(comm, rc);
    if (rc == MPI_SUCCESS)
        rc = cosched_pmpi.COSCHED_LARGE(Irecv)(record->in.data, record->in.count, record->in.type,
                                               source, recvtag, comm, request);
    if (rc != MPI_SUCCESS) {
        cosched_requests_drop(record);
        return rc;
    }
    rc = cosched_pmpi.COSCHED_LARGE(Isend)(record->out.data, record->out.count, record->out.type,
                                           dest, sendtag, comm, &record->sent);
    if (rc != MPI_SUCCESS) {
        cosched_pmpi.Cancel(request);
        cosched_pmpi.Wait(request, MPI_STATUS_IGNORE);
        cosched_requests_drop(record);
        return rc;
    }
    /* From MPI_PROC_NULL: such requests may share one handle, which must not find this record. */
    if (source == MPI_PROC_NULL)
        cosched_requests_adopt(record);
    else
        cosched_requests_add(record, *request);
    return MPI_SUCCESS;
}

int cosched_do_Isendrecv(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype,
                         int dest, int sendtag, void *recvbuf, cosched_count recvcount,
                         MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                         MPI_Request *request) {
    if (!cosched_comms_carry(comm)) {
        if (cosched_shadow_before_send(comm, dest))
            cosched_wire_count(sendcount, sendtype);
        return cosched_pmpi.COSCHED_LARGE(Isendrecv)(sendbuf, sendcount, sendtype, dest, sendtag,
                                                     recvbuf, recvcount, recvtype, source, recvtag,
                                                     comm, request);
    }
    return isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                     source, recvtag, comm, request);
}

int cosched_do_Isendrecv_replace(void *buf, cosched_count count, MPI_Datatype type, int dest,
                                 int sendtag, int source, int recvtag, MPI_Comm comm,
                                 MPI_Request *request) {
    if (!cosched_comms_carry(comm)) {
        if (cosched_shadow_before_send(comm, dest))
            cosched_wire_count(count, type);
        return cosched_pmpi.COSCHED_LARGE(Isendrecv_replace)(buf, count, type, dest, sendtag,
                                                             source, recvtag, comm, request);
    }
    return isendrecv(buf, count, type, dest, sendtag, buf, count, type, source, recvtag, comm,
                     request);
}
#endif
