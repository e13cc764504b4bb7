#define _GNU_SOURCE
#include "status/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "status/agree.h"
#include "wait/library_yields.h"

struct cosched_shadow cosched_shadow;

static int own_rank;
static MPI_Request joining;
static int *bytes_sent;     /* how many status bytes went to each rank */
static long bytes_received; /* how many this rank has received from all */

/* Joining takes two steps: to make a communicator of all ranks, and to agree that each rank has
 * the memory it needs. Either step may still be pending when the deadline passes. At the end
 * the ranks try to finish it once more. */
static enum { OUTSIDE, ENTERING, AGREEING, INSIDE } stage;
static int equipped; /* first whether this rank has the memory, in the end whether all have */

bool cosched_shadow_completes(MPI_Request *request, struct cosched_join_limit *limit) {
    struct cosched_wait wait = {0};
    int flag = 0;
    while (cosched_pmpi.Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) {
        if (limit != NULL && cosched_join_limit_is_over(limit))
            return false;
        cosched_wait_pause(&wait);
    }
    return flag != 0;
}

bool cosched_shadow_has_joined(void) { return stage == INSIDE; }

uint64_t cosched_shadow_patience_ms(void) {
    return UINT64_C(1000) *
           (cosched_state.announced ? COSCHED_JOIN_LAUNCHED_S : COSCHED_JOIN_S);
}

/* Returns whether every rank has joined. */
static bool join(uint64_t limit_ms) {
    struct cosched_join_limit limit;
    cosched_join_limit_start(&limit, limit_ms * UINT64_C(1000000));
    if (stage == ENTERING && cosched_shadow_completes(&joining, &limit)) {
        cosched_pmpi.Comm_set_errhandler(cosched_shadow.comm, MPI_ERRORS_RETURN);
        stage = cosched_pmpi.Iallreduce(MPI_IN_PLACE, &equipped, 1, MPI_INT, MPI_MIN,
                                        cosched_shadow.comm, &joining) == MPI_SUCCESS
                    ? AGREEING
                    : OUTSIDE;
    }
    if (stage == AGREEING && cosched_shadow_completes(&joining, &limit))
        stage = INSIDE;
    return stage == INSIDE;
}

static void take(MPI_Message *message, int source) {
    unsigned char byte = 1;
    if (cosched_pmpi.Mrecv(&byte, 1, MPI_BYTE, message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    __atomic_fetch_add(&bytes_received, 1, __ATOMIC_RELAXED);
    cosched_shadow.received[source] = byte != 0;
}

/* Reads the status bytes that have arrived. Returns whether that worked. It uses matched probes:
 * MPICH 5 over UCX never gives a receive from any source a message of another node that came
 * before it. */
static bool read_bytes(void) {
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
    read_bytes();
}

static void turn_on(struct cosched_shadow *shadow) {
    memset(shadow->sent, 1, (size_t)shadow->size);
    memset(shadow->received, 1, (size_t)shadow->size);
    shadow->on = true;
    cosched_wait_set_hook(read_at_times);
}

/* One rank prints the line: rank 0, or rank 1 if it cannot see rank 0's. */
static void report_some(void) {
    if (own_rank <= 1)
        cosched_report_warn("a rank has no shim, so the job runs without status: no message is "
                            "trapped");
}

/* Returns whether the ranks may begin to join. Spawned ranks share the names of their parents,
 * and start as these did. */
static bool may_begin(void) {
    MPI_Comm parent = MPI_COMM_NULL;
    const uint32_t shimmed = cosched_state_environment.shimmed;
    if (shimmed == COSCHED_SHIMMED_SURELY ||
        (cosched_pmpi.Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL))
        return true;
    uint64_t limit_ms = shimmed == COSCHED_SHIMMED_PERHAPS ? UINT64_C(1000) * COSCHED_JOIN_S
                                                           : cosched_shadow_patience_ms();
    switch (cosched_agree(limit_ms)) {
    case COSCHED_AGREED_SOME:
        report_some();
        return false;
    case COSCHED_AGREED_UNKNOWN:
        if (own_rank == 0)
            cosched_report_info("the ranks cannot agree whether all have the shim: this MPI "
                                "publishes no names here");
        return shimmed != COSCHED_SHIMMED_PERHAPS;
    case COSCHED_AGREED_ALL:
        break;
    }
    return true;
}

void cosched_shadow_open(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    joining = MPI_REQUEST_NULL;
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &shadow->size);
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &own_rank);
    if (shadow->size == 1 || !may_begin())
        return;
    shadow->sent = malloc((size_t)shadow->size);
    shadow->received = malloc((size_t)shadow->size);
    bytes_sent = calloc((size_t)shadow->size, sizeof *bytes_sent);
    equipped = shadow->sent != NULL && shadow->received != NULL && bytes_sent != NULL;
    if (cosched_pmpi.Comm_idup(MPI_COMM_WORLD, &shadow->comm, &joining) != MPI_SUCCESS)
        return;
    stage = ENTERING;
    uint64_t limit_ms = cosched_shadow_patience_ms();
    if (!join(limit_ms))
        cosched_report_warn("after %llu s not every rank has joined: is one without the shim? "
                            "This one goes on, and traps no messages",
                            (unsigned long long)(limit_ms / 1000));
    else if (!equipped)
        cosched_report_info("a rank lacks memory for the status of the others: none of them "
                            "traps messages");
    else
        turn_on(shadow);
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
    __atomic_fetch_add(&bytes_sent[world_rank], 1, __ATOMIC_RELAXED);
    cosched_task_count(&cosched_state.link.counters->told, 1);
}

void cosched_shadow_send_to(MPI_Comm comm, int dest) {
    cosched_shadow_send(cosched_comms_world_rank(cosched_comms_find(comm), dest));
}

/* The rank in the world at this distance from this process's rank, upwards or downwards. */
static int partner(const struct cosched_comm *record, int distance, bool upwards) {
    int from = record->me % record->size;
    int step = distance % record->size;
    return cosched_comms_world_rank(
        record, (upwards ? from + step : from + record->size - step) % record->size);
}

/* The opposite rank in the remote group of an inter-communicator. In this process's own group
 * that is the process itself: -1. */
static int opposite(const struct cosched_comm *record) {
    int rank = partner(record, 0, true);
    return rank == own_rank ? -1 : rank;
}

void cosched_shadow_send_to_partners(const struct cosched_comm *record) {
    if (record == NULL || record->size == 0)
        return;
    cosched_shadow_send(opposite(record));
    for (int distance = 1; distance < record->size; distance *= 2) {
        cosched_shadow_send(partner(record, distance, true));
        cosched_shadow_send(partner(record, distance, false));
    }
}

void cosched_shadow_trap(int world_rank) {
    read_bytes();
    if (world_rank < 0 || world_rank == own_rank)
        return;
    cosched_task_count(&cosched_state.link.counters->received, 1);
    cosched_arrived(&cosched_state.link, cosched_shadow.received[world_rank]);
}

void cosched_shadow_trap_from(MPI_Comm comm, int source) {
    cosched_shadow_trap(cosched_comms_world_rank(cosched_comms_find(comm), source));
}

static bool is_peer_scheduled(int world_rank) {
    return world_rank >= 0 && cosched_shadow.received[world_rank] == 1;
}

void cosched_shadow_trap_from_partners(const struct cosched_comm *record) {
    bool scheduled;
    read_bytes();
    if (record == NULL || record->size == 0)
        return;
    scheduled = is_peer_scheduled(opposite(record));
    for (int distance = 1; distance < record->size && !scheduled; distance *= 2)
        scheduled = is_peer_scheduled(partner(record, distance, false)) ||
                    is_peer_scheduled(partner(record, distance, true));
    cosched_task_count(&cosched_state.link.counters->received, 1);
    cosched_arrived(&cosched_state.link, scheduled);
}

/* Each rank learns how many status bytes were sent to it in all, and reads the rest. */
static void read_the_rest(void) {
    struct cosched_wait wait = {0};
    MPI_Request request;
    int expected = 0;
    if (cosched_pmpi.Ireduce_scatter_block(bytes_sent, &expected, 1, MPI_INT, MPI_SUM,
                                           cosched_shadow.comm, &request) != MPI_SUCCESS ||
        cosched_wait_for(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    while (read_bytes() && bytes_received < expected)
        cosched_wait_pause(&wait);
}

bool cosched_shadow_stop(void) {
    cosched_wait_set_hook(NULL);
    cosched_shadow.on = false;
    if (stage == ENTERING)
        equipped = 0; /* no status was sent, and no rank reads the rest */
    return join(COSCHED_JOIN_LAST_MS);
}

void cosched_shadow_close(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    if (stage == INSIDE) {
        if (equipped)
            read_the_rest();
        cosched_pmpi.Comm_free(&shadow->comm);
    }
    free(shadow->sent);
    free(shadow->received);
    free(bytes_sent);
    shadow->sent = shadow->received = NULL;
    bytes_sent = NULL;
}
