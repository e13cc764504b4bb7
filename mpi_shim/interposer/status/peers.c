#include "status/peers.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "status/attributes.h"

/* As in comms.c: an attribute, and in front of it what each thread remembers, until a
 * communicator ends whose handle may come back as another one's. */
static pthread_once_t started = PTHREAD_ONCE_INIT;
static int key = MPI_KEYVAL_INVALID;
static uint64_t changes = 1;

static int delete_peers(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)extra;
    __atomic_fetch_add(&changes, 1, __ATOMIC_RELEASE);
    cosched_peers_release(value);
    return MPI_SUCCESS;
}

static void start(void) {
    if (cosched_pmpi.Comm_create_keyval(cosched_attribute_stays, delete_peers, &key, NULL) !=
        MPI_SUCCESS)
        key = MPI_KEYVAL_INVALID;
}

struct cosched_peers *cosched_peers_hold(struct cosched_peers *peers) {
    if (peers != NULL)
        __atomic_fetch_add(&peers->holders, 1, __ATOMIC_RELAXED);
    return peers;
}

void cosched_peers_release(struct cosched_peers *peers) {
    if (peers != NULL && __atomic_sub_fetch(&peers->holders, 1, __ATOMIC_ACQ_REL) == 0)
        free(peers);
}

static bool is_identity(const int *ranks, int size, int world_size) {
    for (int i = 0; i < size; i++)
        if (ranks[i] != i)
            return false;
    return size == world_size;
}

/* The ranks of a group in MPI_COMM_WORLD. */
static struct cosched_peers *translate(MPI_Group group) {
    struct cosched_peers *peers;
    MPI_Group world;
    int size = 0, world_size = 0, *ranks;
    cosched_pmpi.Group_size(group, &size);
    peers = calloc(1, sizeof *peers + (size_t)size * sizeof peers->world[0]);
    ranks = malloc((size_t)size * sizeof *ranks);
    if (peers == NULL || ranks == NULL ||
        cosched_pmpi.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS) {
        free(peers);
        free(ranks);
        return NULL;
    }
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    cosched_pmpi.Group_size(world, &world_size);
    cosched_pmpi.Group_translate_ranks(group, size, ranks, world, peers->world);
    cosched_pmpi.Group_free(&world);
    free(ranks);
    for (int i = 0; i < size; i++)
        if (peers->world[i] == MPI_UNDEFINED)
            peers->world[i] = -1;
    peers->holders = 1;
    peers->size = size;
    peers->is_world = is_identity(peers->world, size, world_size);
    return peers;
}

static struct cosched_peers *make(MPI_Comm comm) {
    struct cosched_peers *peers;
    MPI_Group group;
    int inter = 0, rc;
    cosched_pmpi.Comm_test_inter(comm, &inter);
    rc = inter ? cosched_pmpi.Comm_remote_group(comm, &group)
               : cosched_pmpi.Comm_group(comm, &group);
    if (rc != MPI_SUCCESS)
        return NULL;
    peers = translate(group);
    cosched_pmpi.Group_free(&group);
    if (peers != NULL)
        cosched_pmpi.Comm_rank(comm, &peers->me);
    return peers;
}

static struct cosched_peers *find_or_make(MPI_Comm comm) {
    struct cosched_peers *peers = NULL;
    int found = 0;
    if (cosched_pmpi.Comm_get_attr(comm, key, &peers, &found) == MPI_SUCCESS && found)
        return peers;
    peers = make(comm);
    if (peers != NULL && cosched_pmpi.Comm_set_attr(comm, key, peers) != MPI_SUCCESS) {
        cosched_peers_release(peers);
        peers = NULL;
    }
    return peers;
}

/* One thread at a time: a second one's record would take the place of the first one's, which
 * would be freed in the hands of its thread. */
static struct cosched_peers *look_up(MPI_Comm comm) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct cosched_peers *peers;
    pthread_once(&started, start);
    if (key == MPI_KEYVAL_INVALID)
        return NULL;
    pthread_mutex_lock(&lock);
    peers = find_or_make(comm);
    pthread_mutex_unlock(&lock);
    return peers;
}

struct cosched_peers *cosched_peers_of(MPI_Comm comm) {
    static _Thread_local struct {
        MPI_Comm comm;
        uint64_t as_of;
        struct cosched_peers *peers;
    } known[16];
    if (comm == MPI_COMM_NULL || comm == MPI_COMM_SELF)
        return NULL;
    unsigned slot = (unsigned)(((uint64_t)(uintptr_t)comm * UINT64_C(0x9e3779b97f4a7c15)) >> 60);
    uint64_t now = __atomic_load_n(&changes, __ATOMIC_ACQUIRE);
    if (known[slot].comm != comm || known[slot].as_of != now) {
        known[slot].peers = look_up(comm);
        known[slot].comm = comm;
        known[slot].as_of = now;
    }
    return known[slot].peers;
}
