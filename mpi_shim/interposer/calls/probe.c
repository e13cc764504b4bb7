/*
 * Serves probes: takes the status byte off the size that they report. They trap no message: a
 * message counts as arrived when it is received.
 */
#include "calls/do.h"
#include "calls/matched.h"
#include "status/comms.h"
#include "status/shadow.h"
#include "status/wire.h"
#include "wait/library_yields.h"

/* Takes the status byte off the status of a message that a probe found. */
static void trim(MPI_Comm comm, MPI_Status *status) {
    if (status != MPI_STATUS_IGNORE && cosched_comms_carry(comm))
        cosched_wire_trim(status);
}

int cosched_do_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    int rc;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Iprobe(source, tag, comm, flag, status));
    if (!*flag)
        cosched_looked(&cosched_state.link);
    if (rc == MPI_SUCCESS && *flag)
        trim(comm, status);
    return rc;
}

int cosched_do_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    int rc, flag = 0;
    COSCHED_EITHER_WAITS(COSCHED_YIELDS_ALWAYS, rc, cosched_pmpi.Probe(source, tag, comm, status),
                         cosched_pmpi.Iprobe(source, tag, comm, &flag, status), flag);
    if (rc == MPI_SUCCESS)
        trim(comm, status);
    return rc;
}

/* Handles a matched message. The call that receives it has no communicator argument, so under
 * shadow the message counts as arrived here. */
static int after_match(MPI_Comm comm, MPI_Message message, MPI_Status *status) {
    if (!cosched_state_uses_prefix())
        cosched_shadow_after_receive(comm, status->MPI_SOURCE);
    else if (cosched_comms_carry(comm))
        trim(comm, status);
    else if (!cosched_matched_add_plain(message))
        return cosched_comms_raise(comm, MPI_ERR_NO_MEM);
    return MPI_SUCCESS;
}

int cosched_do_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                       MPI_Status *status) {
    MPI_Status own;
    MPI_Status *found = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Improbe(source, tag, comm, flag, message, found));
    if (!*flag)
        cosched_looked(&cosched_state.link);
    if (rc == MPI_SUCCESS && *flag)
        rc = after_match(comm, *message, found);
    return rc;
}

int cosched_do_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message,
                      MPI_Status *status) {
    MPI_Status own;
    MPI_Status *found = status == MPI_STATUS_IGNORE ? &own : status;
    int rc, flag = 0;
    COSCHED_EITHER_WAITS(COSCHED_YIELDS_ALWAYS, rc,
                         cosched_pmpi.Mprobe(source, tag, comm, message, found),
                         cosched_pmpi.Improbe(source, tag, comm, &flag, message, found), flag);
    if (rc == MPI_SUCCESS)
        rc = after_match(comm, *message, found);
    return rc;
}
