/*
 * Sendrecv and its kind: a send and a receive, each laid out like one of its own.
 *
 * The replacing forms send from a packed copy of the buffer, which is what the library does
 * too, and are the plain forms from there on.
 */
#include <limits.h>
#include <stdlib.h>

#include "comms.h"
#include "do.h"
#include "requests.h"
#include "wait.h"

static int lay_out_send(struct cosched_wire *wire, struct cosched_wire_room *room,
                        const void *buf, cosched_count count, MPI_Datatype type, int dest,
                        MPI_Comm comm) {
    if (dest != MPI_PROC_NULL && cosched_comms_carry(comm))
        return cosched_wire_out(wire, room, buf, count, type);
    cosched_wire_plain(wire, buf, count, type);
    return MPI_SUCCESS;
}

static int lay_out_receive(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                           cosched_count count, MPI_Datatype type, int source, MPI_Comm comm) {
    if (source != MPI_PROC_NULL && cosched_comms_carry(comm))
        return cosched_wire_in(wire, room, buf, count, type);
    cosched_wire_plain(wire, buf, count, type);
    return MPI_SUCCESS;
}

/* Sends and receives as a registered task: what the library would do, waiting our way. */
static int exchange(const struct cosched_wire *out, int dest, int sendtag,
                    const struct cosched_wire *in, int source, int recvtag, MPI_Comm comm,
                    MPI_Status *status) {
    MPI_Request sent, received;
    int sent_rc, rc;
    rc = cosched_pmpi.COSCHED_LARGE(Irecv)(in->data, in->count, in->type, source, recvtag, comm,
                                           &received);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = cosched_pmpi.COSCHED_LARGE(Isend)(out->data, out->count, out->type, dest, sendtag, comm,
                                           &sent);
    if (rc != MPI_SUCCESS) {
        cosched_pmpi.Cancel(&received);
        cosched_pmpi.Wait(&received, MPI_STATUS_IGNORE);
        return rc;
    }
    rc = cosched_wait_request(&received, status);
    sent_rc = cosched_wait_request(&sent, MPI_STATUS_IGNORE);
    return rc != MPI_SUCCESS ? rc : sent_rc;
}

int cosched_do_Sendrecv(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype,
                        int dest, int sendtag, void *recvbuf, cosched_count recvcount,
                        MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                        MPI_Status *status) {
    struct cosched_wire_room out_room, in_room;
    struct cosched_wire out, in;
    MPI_Status own;
    int rc = lay_out_send(&out, &out_room, sendbuf, sendcount, sendtype, dest, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = lay_out_receive(&in, &in_room, recvbuf, recvcount, recvtype, source, comm);
    if (rc != MPI_SUCCESS) {
        cosched_wire_release(&out);
        return rc;
    }
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (cosched_shim_attached())
        rc = exchange(&out, dest, sendtag, &in, source, recvtag, comm, status);
    else
        rc = cosched_pmpi.COSCHED_LARGE(Sendrecv)(out.data, out.count, out.type, dest, sendtag,
                                                  in.data, in.count, in.type, source, recvtag,
                                                  comm, status);
    if (cosched_wire_arrived(rc))
        cosched_wire_deliver(&in, status);
    cosched_wire_release(&out);
    cosched_wire_release(&in);
    cosched_requests_sweep();
    return rc;
}

static int pack_into(void *copy, const void *buf, cosched_count count, MPI_Datatype type,
                     MPI_Comm comm, cosched_count *bytes, cosched_count room) {
    MPI_Datatype shifted;
    int one = 1, rc;
    if (buf != MPI_BOTTOM || count == 0)
        return cosched_pmpi.COSCHED_LARGE(Pack)(buf, count, type, copy, room, bytes, comm);
    /* MPICH 4.0 refuses to pack from MPI_BOTTOM: the same absolute addresses, as distances
     * from one that it accepts. */
    if (count > INT_MAX)
        return MPI_ERR_COUNT;
    MPI_Aint back;
    cosched_pmpi.Get_address(copy, &back);
    back = -back;
    int n = (int)count;
    rc = cosched_pmpi.Type_create_struct(one, &n, &back, &type, &shifted);
    if (rc != MPI_SUCCESS)
        return rc;
    cosched_pmpi.Type_commit(&shifted);
    rc = cosched_pmpi.COSCHED_LARGE(Pack)(copy, 1, shifted, copy, room, bytes, comm);
    cosched_pmpi.Type_free(&shifted);
    return rc;
}

/* count x type at buf as one row of bytes on the heap. NULL: MPI's error in *rc. */
static void *pack(const void *buf, cosched_count count, MPI_Datatype type, MPI_Comm comm,
                  cosched_count *bytes, int *rc) {
    cosched_count room = 0;
    void *copy;
    *bytes = 0;
    *rc = cosched_pmpi.COSCHED_LARGE(Pack_size)(count, type, comm, &room);
    if (*rc != MPI_SUCCESS)
        return NULL;
    copy = malloc((size_t)room + 1);
    *rc = MPI_ERR_NO_MEM;
    if (copy == NULL)
        return NULL;
    *rc = pack_into(copy, buf, count, type, comm, bytes, room);
    if (*rc == MPI_SUCCESS)
        return copy;
    free(copy);
    return NULL;
}

int cosched_do_Sendrecv_replace(void *buf, cosched_count count, MPI_Datatype type, int dest,
                                int sendtag, int source, int recvtag, MPI_Comm comm,
                                MPI_Status *status) {
    cosched_count bytes;
    void *copy;
    int rc;
    if (!cosched_comms_carry(comm) && !cosched_shim_attached())
        return cosched_pmpi.COSCHED_LARGE(Sendrecv_replace)(buf, count, type, dest, sendtag, source,
                                                            recvtag, comm, status);
    copy = pack(buf, count, type, comm, &bytes, &rc);
    if (copy == NULL)
        return rc;
    rc = cosched_do_Sendrecv(copy, bytes, MPI_PACKED, dest, sendtag, buf, count, type, source,
                             recvtag, comm, status);
    free(copy);
    return rc;
}

#if COSCHED_MPI_HAS_ISENDRECV
/* `copy`, if any, is the packed copy that the message is sent from. */
static int isendrecv(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype, int dest,
                     int sendtag, void *recvbuf, cosched_count recvcount, MPI_Datatype recvtype,
                     int source, int recvtag, MPI_Comm comm, MPI_Request *request, void *copy) {
    struct cosched_record *record = cosched_requests_new();
    int rc;
    if (record == NULL) {
        free(copy);
        return MPI_ERR_NO_MEM;
    }
    record->copy = copy;
    rc = lay_out_send(&record->out, NULL, sendbuf, sendcount, sendtype, dest, comm);
    if (rc != MPI_SUCCESS) {
        cosched_requests_drop(record);
        return rc;
    }
    record->sends = true;
    /* In place: the status of MPICH's MPI_Isendrecv says nothing of the message. */
    if (source == MPI_PROC_NULL)
        cosched_wire_plain(&record->in, recvbuf, recvcount, recvtype);
    else
        rc = cosched_wire_in_place(&record->in, recvbuf, recvcount, recvtype);
    if (rc != MPI_SUCCESS) {
        cosched_requests_drop(record);
        return rc;
    }
    record->receives = record->active = true;
    rc = cosched_pmpi.COSCHED_LARGE(Isendrecv)(record->out.data, record->out.count,
                                               record->out.type, dest, sendtag, record->in.data,
                                               record->in.count, record->in.type, source, recvtag,
                                               comm, request);
    if (rc == MPI_SUCCESS)
        cosched_requests_add(record, *request);
    else
        cosched_requests_drop(record);
    return rc;
}

int cosched_do_Isendrecv(const void *sendbuf, cosched_count sendcount, MPI_Datatype sendtype,
                         int dest, int sendtag, void *recvbuf, cosched_count recvcount,
                         MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                         MPI_Request *request) {
    if (!cosched_comms_carry(comm))
        return cosched_pmpi.COSCHED_LARGE(Isendrecv)(sendbuf, sendcount, sendtype, dest, sendtag,
                                                     recvbuf, recvcount, recvtype, source, recvtag,
                                                     comm, request);
    return isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                     source, recvtag, comm, request, NULL);
}

int cosched_do_Isendrecv_replace(void *buf, cosched_count count, MPI_Datatype type, int dest,
                                 int sendtag, int source, int recvtag, MPI_Comm comm,
                                 MPI_Request *request) {
    cosched_count bytes;
    void *copy;
    int rc;
    if (!cosched_comms_carry(comm))
        return cosched_pmpi.COSCHED_LARGE(Isendrecv_replace)(buf, count, type, dest, sendtag,
                                                             source, recvtag, comm, request);
    copy = pack(buf, count, type, comm, &bytes, &rc);
    if (copy == NULL)
        return rc;
    return isendrecv(copy, bytes, MPI_PACKED, dest, sendtag, buf, count, type, source, recvtag,
                     comm, request, copy);
}
#endif
