/*
 * Serves MPICH's extensions that concern point-to-point messages.
 *
 * Messages in stream and thread communicators also move by calls that the shim does not wrap
 * (MPIX_Stream_send, MPIX_Recv_enqueue). So these communicators carry no status byte.
 * MPIX_Request_is_complete reports a message without completing its request.
 */
#include "status/comms.h"
#include "base/pmpi.h"

#if COSCHED_MPI_HAS_MPIX
#include "calls/do.h"
#include "base/state.h"

#define EXPORTED __attribute__((visibility("default"))) int

/* Defines a call that makes such a communicator. */
#define MAKES_COMM(name, made, parameters, ...)                                                    \
    EXPORTED MPIX_##name parameters {                                                              \
        enum cosched_state_mode mode = cosched_state_mode();                                         \
        if (mode == COSCHED_STATE_BROKEN || cosched_pmpi.name == NULL)                              \
            return cosched_state_refuse("MPIX_" #name);                                             \
        int rc = cosched_pmpi.name(__VA_ARGS__);                                                   \
        if (rc == MPI_SUCCESS && mode == COSCHED_STATE_ACTIVE)                                      \
            cosched_comms_exempt(*made);                                                           \
        return rc;                                                                                 \
    }

MAKES_COMM(Stream_comm_create, newcomm, (MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm),
           comm, stream, newcomm)
MAKES_COMM(Stream_comm_create_multiplex, newcomm,
           (MPI_Comm comm, int count, MPIX_Stream streams[], MPI_Comm *newcomm), comm, count,
           streams, newcomm)
MAKES_COMM(Threadcomm_init, newcomm, (MPI_Comm comm, int threads, MPI_Comm *newcomm), comm, threads,
           newcomm)

#if COSCHED_MPI_HAS_IS_COMPLETE
EXPORTED MPIX_Request_is_complete(MPI_Request request) {
    int complete;
    enum cosched_state_mode mode = cosched_state_mode();
    if (mode == COSCHED_STATE_BROKEN || cosched_pmpi.Request_is_complete == NULL)
        return cosched_state_refuse("MPIX_Request_is_complete");
    complete = cosched_pmpi.Request_is_complete(request);
    if (complete && mode == COSCHED_STATE_ACTIVE) {
        MPI_Status status;
        cosched_do_Request_get_status(request, &complete, &status);
    }
    return complete;
}
#endif
#endif
