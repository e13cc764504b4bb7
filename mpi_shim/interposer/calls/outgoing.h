/*
 * outgoing.h - how a message that a call is about to send is laid out, and what is told of it.
 */
#ifndef COSCHED_OUTGOING_H
#define COSCHED_OUTGOING_H

#include "status/comms.h"
#include "calls/requests.h"
#include "status/shadow.h"
#include "status/wire.h"

/* With the status byte in front where comm carries it; else as the user has it, the status
 * told out of band. As cosched_wire_out. */
static inline int cosched_outgoing_lay_out(struct cosched_wire *wire,
                                           struct cosched_wire_room *room, const void *buf,
                                           cosched_count count, MPI_Datatype type, int dest,
                                           MPI_Comm comm) {
    if (dest != MPI_PROC_NULL && cosched_comms_carry(comm)) {
        /* Who sends and never receives would else heap up copies of sends that it freed. */
        cosched_requests_sweep_at_times();
        return cosched_wire_out(wire, room, buf, count, type);
    }
    if (cosched_shadow_before_send(comm, dest))
        cosched_wire_count(count, type);
    cosched_wire_plain(wire, buf, count, type);
    return MPI_SUCCESS;
}

#endif
