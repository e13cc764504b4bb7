/*
 * outgoing.h - lays out a message that a call is about to send, and sends the task's status.
 */
#ifndef COSCHED_OUTGOING_H
#define COSCHED_OUTGOING_H

#include "status/comms.h"
#include "calls/requests.h"
#include "status/shadow.h"
#include "status/wire.h"

/* Puts the status byte in front if comm carries it. Otherwise the message stays as the user has
 * it, and the shadow sends the status. Returns as cosched_wire_out. */
static inline int cosched_outgoing_lay_out(struct cosched_wire *wire,
                                           struct cosched_wire_room *room, const void *buf,
                                           cosched_count count, MPI_Datatype type, int dest,
                                           MPI_Comm comm) {
    if (dest != MPI_PROC_NULL && cosched_comms_carry(comm)) {
        /* A rank that only sends must also free the copies of requests that it freed. */
        cosched_requests_sweep_at_times();
        return cosched_wire_out(wire, room, buf, count, type);
    }
    if (cosched_shadow_before_send(comm, dest))
        cosched_wire_count(count, type);
    cosched_wire_plain(wire, buf, count, type);
    return MPI_SUCCESS;
}

#endif
