/*
 * Probes: the status byte is taken off what they report. They read no status: a message
 * counts as arrived, and is trapped, when it is received.
 */
#include <pthread.h>
#include <stdlib.h>

#include "status/comms.h"
#include "calls/do.h"
#include "wait/idle.h"
#include "calls/messages.h"
#include "status/shadow.h"
#include "status/wire.h"

struct plain {
    struct plain *next;
    MPI_Message message;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plain *plains;

bool cosched_messages_plain(MPI_Message message) {
    struct plain *plain;
    if (message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC)
        return true;
    plain = malloc(sizeof *plain);
    if (plain == NULL)
        return false;
    plain->message = message;
    pthread_mutex_lock(&lock);
    plain->next = plains;
    __atomic_store_n(&plains, plain, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return true;
}

bool cosched_messages_carry(MPI_Message message) {
    struct plain *found = NULL;
    if (!cosched_shim_prefixes() || message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC)
        return false;
    if (__atomic_load_n(&plains, __ATOMIC_ACQUIRE) == NULL)
        return true;
    pthread_mutex_lock(&lock);
    for (struct plain **link = &plains; *link != NULL; link = &(*link)->next)
        if ((*link)->message == message) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(found);
    return found == NULL;
}

int cosched_do_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    int rc;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Iprobe(source, tag, comm, flag, status));
    if (!*flag)
        cosched_looked(&cosched_shim.link);
    if (rc == MPI_SUCCESS && *flag && status != MPI_STATUS_IGNORE && cosched_comms_carry(comm))
        cosched_wire_trim(status);
    return rc;
}

int cosched_do_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    struct cosched_wait wait = {0};
    int rc, flag = 0;
    if (!cosched_shim_waits(COSCHED_IDLES_ALWAYS))
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.Probe(source, tag, comm, status));
    else {
        for (;;) {
            rc = cosched_pmpi.Iprobe(source, tag, comm, &flag, status);
            if (rc != MPI_SUCCESS || flag)
                break;
            cosched_wait_turn(&wait);
        }
        cosched_wait_end(&wait);
    }
    if (rc == MPI_SUCCESS && status != MPI_STATUS_IGNORE && cosched_comms_carry(comm))
        cosched_wire_trim(status);
    return rc;
}

/* The call that receives a matched message is not told where from: out of band it counts as
 * arrived here. */
static int matched(MPI_Comm comm, MPI_Message message, MPI_Status *status) {
    if (!cosched_shim_prefixes()) {
        if (status != MPI_STATUS_IGNORE)
            cosched_shadow_received(comm, status->MPI_SOURCE);
        return MPI_SUCCESS;
    }
    if (!cosched_comms_carry(comm))
        return cosched_messages_plain(message) ? MPI_SUCCESS
                                               : cosched_comms_raise(comm, MPI_ERR_NO_MEM);
    if (status != MPI_STATUS_IGNORE)
        cosched_wire_trim(status);
    return MPI_SUCCESS;
}

int cosched_do_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                       MPI_Status *status) {
    MPI_Status own;
    int rc;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Improbe(source, tag, comm, flag, message, status));
    if (!*flag)
        cosched_looked(&cosched_shim.link);
    if (rc == MPI_SUCCESS && *flag)
        rc = matched(comm, *message, status);
    return rc;
}

int cosched_do_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message,
                      MPI_Status *status) {
    struct cosched_wait wait = {0};
    MPI_Status own;
    int rc, flag = 0;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (!cosched_shim_waits(COSCHED_IDLES_ALWAYS))
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.Mprobe(source, tag, comm, message, status));
    else {
        for (;;) {
            rc = cosched_pmpi.Improbe(source, tag, comm, &flag, message, status);
            if (rc != MPI_SUCCESS || flag)
                break;
            cosched_wait_turn(&wait);
        }
        cosched_wait_end(&wait);
    }
    if (rc == MPI_SUCCESS)
        rc = matched(comm, *message, status);
    return rc;
}
