#define _GNU_SOURCE
#include "status/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "cosched/join.h"
#include "wait/library_yields.h"

struct cosched_shadow cosched_shadow;

static int own_rank;

static void take(MPI_Message *message, int source) {
    unsigned char byte = 1;
    if (cosched_pmpi.Mrecv(&byte, 1, MPI_BYTE, message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    __atomic_fetch_add(&cosched_shadow.bytes_received, 1, __ATOMIC_RELAXED);
    cosched_shadow.received[source] = byte != 0;
}

/* It uses matched probes: MPICH 5 over UCX never gives a receive from any source a message of
 * another node that came before it. */
bool cosched_shadow_read(void) {
    MPI_Message message;
    MPI_Status status;
    int flag = 0;
    for (;;) {
        if (cosched_pmpi.Improbe(MPI_ANY_SOURCE, COSCHED_SHADOW_TAG, cosched_shadow.comm, &flag,
                                 &message, &status) != MPI_SUCCESS)
            return false;
        if (!flag)
            return true;
        take(&message, status.MPI_SOURCE);
    }
}

/* The hook of waits: a task that is always scheduled reads the status bytes nowhere else. Two
 * threads may race for the time, and then one of them reads once more. */
static void read_at_times(uint64_t now) {
    static uint64_t last_ns;
    uint64_t last = __atomic_load_n(&last_ns, __ATOMIC_RELAXED);
    if (now - last < COSCHED_SHADOW_LISTEN_MS * UINT64_C(1000000))
        return;
    __atomic_store_n(&last_ns, now, __ATOMIC_RELAXED);
    cosched_shadow_read();
}

bool cosched_shadow_prepare(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &shadow->size);
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &own_rank);
    shadow->sent = malloc((size_t)shadow->size);
    shadow->received = malloc((size_t)shadow->size);
    shadow->status_sent = calloc((size_t)shadow->size, sizeof *shadow->status_sent);
    return shadow->sent != NULL && shadow->received != NULL && shadow->status_sent != NULL;
}

void cosched_shadow_start(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    memset(shadow->sent, 1, (size_t)shadow->size);
    memset(shadow->received, 1, (size_t)shadow->size);
    shadow->on = true;
    cosched_wait_set_hook(read_at_times);
}

/* Notes the status that is about to be sent to the rank. Returns the status before. */
static int exchange(int world_rank, int scheduled) {
    int before = __atomic_exchange_n(&cosched_shadow.sent[world_rank], (unsigned char)scheduled,
                                     __ATOMIC_RELAXED);
    if (before != scheduled)
        __atomic_fetch_add(&cosched_shadow.outdated, before - scheduled, __ATOMIC_RELAXED);
    return before;
}

void cosched_shadow_send(int world_rank) {
    static const unsigned char statuses[2] = {0, 1}; /* outlive the request */
    int scheduled = cosched_state_is_scheduled();
    MPI_Request request;
    int before;
    if (world_rank < 0 || world_rank == own_rank)
        return;
    before = exchange(world_rank, scheduled);
    if (before == scheduled)
        return;
    if (cosched_pmpi.Isend(&statuses[scheduled], 1, MPI_BYTE, world_rank, COSCHED_SHADOW_TAG,
                           cosched_shadow.comm, &request) != MPI_SUCCESS) {
        exchange(world_rank, before); /* the next message tries again */
        return;
    }
    cosched_pmpi.Request_free(&request);
    __atomic_fetch_add(&cosched_shadow.status_sent[world_rank], 1, __ATOMIC_RELAXED);
    cosched_task_count(&cosched_state.link.counters->told, 1);
}

void cosched_shadow_send_to(MPI_Comm comm, int dest) {
    cosched_shadow_send(cosched_comms_world_rank(cosched_comms_find(comm), dest));
}

/* Returns whether there is such a partner. *world_rank: -1 if that is this process itself, or a
 * process outside of MPI_COMM_WORLD. */
static bool find_partner(const struct cosched_comm *record, uint32_t index, int *world_rank) {
    int32_t rank = record == NULL ? -1 : cosched_join_partner(record->size, record->me, index);
    if (rank < 0)
        return false;
    *world_rank = cosched_comms_world_rank(record, rank);
    if (*world_rank == own_rank)
        *world_rank = -1;
    return true;
}

void cosched_shadow_send_to_partners(const struct cosched_comm *record) {
    int world_rank;
    for (uint32_t index = 0; find_partner(record, index, &world_rank); index++)
        cosched_shadow_send(world_rank);
}

void cosched_shadow_trap(int world_rank) {
    cosched_shadow_read();
    if (world_rank < 0 || world_rank == own_rank)
        return;
    cosched_task_count(&cosched_state.link.counters->received, 1);
    cosched_arrived(&cosched_state.link, cosched_shadow.received[world_rank]);
}

void cosched_shadow_trap_from(MPI_Comm comm, int source) {
    cosched_shadow_trap(cosched_comms_world_rank(cosched_comms_find(comm), source));
}

void cosched_shadow_trap_from_partners(const struct cosched_comm *record) {
    bool scheduled = false;
    int world_rank;
    cosched_shadow_read();
    if (record == NULL || record->size == 0)
        return;
    for (uint32_t index = 0; !scheduled && find_partner(record, index, &world_rank); index++)
        scheduled = world_rank >= 0 && cosched_shadow.received[world_rank] == 1;
    cosched_task_count(&cosched_state.link.counters->received, 1);
    cosched_arrived(&cosched_state.link, scheduled);
}

void cosched_shadow_stop(void) {
    cosched_wait_set_hook(NULL);
    cosched_shadow.on = false;
}

void cosched_shadow_forget(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    free(shadow->sent);
    free(shadow->received);
    free(shadow->status_sent);
    shadow->sent = shadow->received = NULL;
    shadow->status_sent = NULL;
}
