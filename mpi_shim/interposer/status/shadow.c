#define _GNU_SOURCE
#include "status/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "cosched/join.h"
#include "wait/wait.h"

#define TAG COSCHED_SHADOW_TAG

struct cosched_shadow cosched_shadow;

static int own_rank;
static MPI_Request joining;
static int *sent;       /* how often each rank was told something */
static long taken;      /* how often this one was, as far as it has read */

/* Joining takes two steps, each of which may be under way still when patience ends: a
 * communicator of all ranks, and their word that each of them has the memory it needs. They
 * all use it, or nobody does: at the end they meet once more. */
static enum { OUTSIDE, ENTERING, AGREEING, INSIDE } stage;
static int equipped; /* this rank; at last, every rank */

/* Whether the step is over before the limit. */
static bool step(struct cosched_join_limit *limit) {
    struct cosched_wait wait = {0};
    int flag = 0;
    while (cosched_pmpi.Test(&joining, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) {
        if (cosched_join_limit_is_over(limit))
            return false;
        cosched_wait_turn(&wait);
    }
    return flag != 0;
}

/* Whether every rank has joined. */
static bool join(uint64_t limit_ms) {
    struct cosched_join_limit limit;
    cosched_join_limit_start(&limit, limit_ms * UINT64_C(1000000));
    if (stage == ENTERING && step(&limit)) {
        cosched_pmpi.Comm_set_errhandler(cosched_shadow.comm, MPI_ERRORS_RETURN);
        stage = cosched_pmpi.Iallreduce(MPI_IN_PLACE, &equipped, 1, MPI_INT, MPI_MIN,
                                        cosched_shadow.comm, &joining) == MPI_SUCCESS
                    ? AGREEING
                    : OUTSIDE;
    }
    if (stage == AGREEING && step(&limit))
        stage = INSIDE;
    return stage == INSIDE;
}

void cosched_shadow_open(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    joining = MPI_REQUEST_NULL;
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &shadow->size);
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &own_rank);
    if (shadow->size == 1)
        return;
    shadow->told = malloc((size_t)shadow->size);
    shadow->heard = malloc((size_t)shadow->size);
    sent = calloc((size_t)shadow->size, sizeof *sent);
    equipped = shadow->told != NULL && shadow->heard != NULL && sent != NULL;
    if (cosched_pmpi.Comm_idup(MPI_COMM_WORLD, &shadow->comm, &joining) != MPI_SUCCESS)
        return;
    stage = ENTERING;
    int limit_s = cosched_shim.announced ? COSCHED_JOIN_LAUNCHED_S : COSCHED_JOIN_S;
    if (!join((uint64_t)limit_s * 1000)) {
        cosched_shim_warn("after %d s not every rank has joined: is one without the shim? "
                          "This one goes on, and traps no messages",
                          limit_s);
        return;
    }
    if (!equipped) {
        cosched_shim_say("a rank lacks memory for the status of the others: none of them "
                         "traps messages");
        return;
    }
    memset(shadow->told, 1, (size_t)shadow->size);
    memset(shadow->heard, 1, (size_t)shadow->size);
    shadow->on = true;
}

static void take(MPI_Message *message, int source) {
    unsigned char byte = 1;
    if (cosched_pmpi.Mrecv(&byte, 1, MPI_BYTE, message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    cosched_shadow.heard[source] = byte != 0;
}

/* Reads what there is. By matched probes: MPICH 5 over UCX never gives a receive from any
 * source a message of another node that came before it. */
static bool listen(void) {
    MPI_Message message;
    MPI_Status status;
    int flag = 0;
    for (;;) {
        if (cosched_pmpi.Improbe(MPI_ANY_SOURCE, TAG, cosched_shadow.comm, &flag, &message,
                                 &status) != MPI_SUCCESS)
            return false;
        if (!flag)
            return true;
        take(&message, status.MPI_SOURCE);
    }
}

void cosched_shadow_tell(int world_rank) {
    static const unsigned char statuses[2] = {0, 1}; /* outlive the request */
    int scheduled = cosched_shim_scheduled();
    MPI_Request request;
    unsigned char before;
    if (world_rank < 0 || world_rank == own_rank)
        return;
    before = __atomic_exchange_n(&cosched_shadow.told[world_rank], (unsigned char)scheduled,
                                 __ATOMIC_RELAXED);
    if (before == scheduled)
        return;
    __atomic_fetch_add(&cosched_shadow.behind, before - scheduled, __ATOMIC_RELAXED);
    if (cosched_pmpi.Isend(&statuses[scheduled], 1, MPI_BYTE, world_rank, TAG, cosched_shadow.comm,
                           &request) != MPI_SUCCESS)
        return;
    cosched_pmpi.Request_free(&request);
    __atomic_fetch_add(&sent[world_rank], 1, __ATOMIC_RELAXED);
    cosched_task_count(&cosched_shim.link.counters->told, 1);
}

void cosched_shadow_tell_dest(MPI_Comm comm, int dest) {
    cosched_shadow_tell(cosched_peers_rank(cosched_peers_of(comm), dest));
}

void cosched_shadow_waited(uint64_t now) {
    static uint64_t last_ns; /* threads may race: one listens more */
    uint64_t last = __atomic_load_n(&last_ns, __ATOMIC_RELAXED);
    if (!cosched_shadow.on || now - last < COSCHED_SHADOW_LISTEN_MS * UINT64_C(1000000))
        return;
    __atomic_store_n(&last_ns, now, __ATOMIC_RELAXED);
    listen();
}

/* The ranks that a collective may wait for, by turns upwards and downwards. */
static int partner(const struct cosched_peers *peers, int distance, bool upwards) {
    int from = peers->me % peers->size;
    int step = distance % peers->size;
    return cosched_peers_rank(peers, (upwards ? from + step : from + peers->size - step) % peers->size);
}

/* The one opposite in the remote group of an inter-communicator; in its own group that is
 * this process itself. */
static int opposite(const struct cosched_peers *peers) {
    int rank = partner(peers, 0, true);
    return rank == own_rank ? -1 : rank;
}

void cosched_shadow_tell_partners(const struct cosched_peers *peers) {
    if (peers == NULL || peers->size == 0)
        return;
    cosched_shadow_tell(opposite(peers));
    for (int distance = 1; distance < peers->size; distance *= 2) {
        cosched_shadow_tell(partner(peers, distance, true));
        cosched_shadow_tell(partner(peers, distance, false));
    }
}

void cosched_shadow_trap(int world_rank) {
    listen();
    if (world_rank < 0 || world_rank == own_rank)
        return;
    cosched_task_count(&cosched_shim.link.counters->received, 1);
    cosched_arrived(&cosched_shim.link, cosched_shadow.heard[world_rank]);
}

void cosched_shadow_trap_source(MPI_Comm comm, int source) {
    cosched_shadow_trap(cosched_peers_rank(cosched_peers_of(comm), source));
}

void cosched_shadow_trap_partners(const struct cosched_peers *peers) {
    bool scheduled;
    int facing;
    listen();
    if (peers == NULL || peers->size == 0)
        return;
    facing = opposite(peers);
    scheduled = facing >= 0 && cosched_shadow.heard[facing] == 1;
    for (int distance = 1; distance < peers->size && !scheduled; distance *= 2)
        for (int upwards = 0; upwards <= 1; upwards++) {
            int rank = partner(peers, distance, upwards != 0);
            scheduled = scheduled || (rank >= 0 && cosched_shadow.heard[rank] == 1);
        }
    cosched_task_count(&cosched_shim.link.counters->received, 1);
    cosched_arrived(&cosched_shim.link, scheduled);
}

/* Each rank learns how often it was told something in all, and reads the rest. */
static void read_the_rest(void) {
    struct cosched_wait wait = {0};
    MPI_Request request;
    int expected = 0;
    if (cosched_pmpi.Ireduce_scatter_block(sent, &expected, 1, MPI_INT, MPI_SUM,
                                           cosched_shadow.comm, &request) != MPI_SUCCESS ||
        cosched_wait_request(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    while (listen() && taken < expected)
        cosched_wait_turn(&wait);
}

void cosched_shadow_close(void) {
    struct cosched_shadow *shadow = &cosched_shadow;
    shadow->on = false;
    if (stage == ENTERING)
        equipped = 0; /* nobody can have been told anything, and nobody reads the rest */
    if (join(COSCHED_JOIN_LAST_MS)) {
        if (equipped)
            read_the_rest();
        cosched_pmpi.Comm_free(&shadow->comm);
    }
    free(shadow->told);
    free(shadow->heard);
    free(sent);
    shadow->told = shadow->heard = NULL;
    sent = NULL;
}
