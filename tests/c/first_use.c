/*
 * first_use THREADS ROUNDS - threads that use a communicator for the first time all at once.
 * Compiled together with mpi_shim/interposer/status/comms.c, over a fake MPI library: it stores
 * one attribute, and yields where the real library may let another thread run.
 *
 * Each thread must get the one record of the communicator, which must not be freed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/state.h"
#include "status/comms.h"

enum { THREADS_MAX = 16, SIZE = 3 };

struct cosched_pmpi cosched_pmpi;
struct cosched_state cosched_state;
#ifdef OPEN_MPI
struct cosched_pmpi_objects cosched_pmpi_objects;
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm_delete_attr_function *delete_attribute;
static void *attribute;
static char handles[2];
static int threads = 4, rounds = 1000;
static pthread_barrier_t line;
static struct cosched_comm *seen[THREADS_MAX];
static long wrong;

static int create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete,
                         int *key, void *extra) {
    (void)copy, (void)extra;
    delete_attribute = delete;
    *key = 7;
    return MPI_SUCCESS;
}

static int get_attribute(MPI_Comm comm, int key, void *value, int *found) {
    (void)comm, (void)key;
    pthread_mutex_lock(&lock);
    *(void **)value = attribute;
    *found = attribute != NULL;
    pthread_mutex_unlock(&lock);
    sched_yield();
    return MPI_SUCCESS;
}

static int set_attribute(MPI_Comm comm, int key, void *value) {
    void *before;
    sched_yield();
    pthread_mutex_lock(&lock);
    before = attribute;
    attribute = value;
    pthread_mutex_unlock(&lock);
    if (before != NULL)
        delete_attribute(comm, key, before, NULL);
    return MPI_SUCCESS;
}

static int test_inter(MPI_Comm comm, int *flag) {
    (void)comm;
    *flag = 0;
    return MPI_SUCCESS;
}

static int group_of(MPI_Comm comm, MPI_Group *group) {
    (void)comm, (void)group;
    sched_yield();
    return MPI_SUCCESS;
}

static int is_initialized(int *flag) {
    *flag = 1;
    return MPI_SUCCESS;
}

static int is_finalized(int *flag) {
    *flag = 0;
    return MPI_SUCCESS;
}

static int rank_in(MPI_Comm comm, int *rank) {
    (void)comm;
    *rank = 1;
    return MPI_SUCCESS;
}

static int free_group(MPI_Group *group) {
    (void)group;
    return MPI_SUCCESS;
}

static int size_of(MPI_Group group, int *size) {
    (void)group;
    *size = SIZE;
    return MPI_SUCCESS;
}

static int translate_ranks(MPI_Group from, int n, const int ranks[], MPI_Group to, int there[]) {
    (void)from, (void)to;
    for (int i = 0; i < n; i++)
        there[i] = ranks[i];
    return MPI_SUCCESS;
}

static void *use(void *argument) {
    int thread = (int)(intptr_t)argument;
    MPI_Comm comm = (MPI_Comm)(intptr_t)&handles[1];
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&line);
        seen[thread] = cosched_comms_find(comm);
        pthread_barrier_wait(&line);
        if (seen[thread] == NULL || seen[thread] != seen[0] || seen[thread]->size != SIZE)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&line);
        if (thread == 0) { /* the communicator ends, and its handle comes back as another's */
            delete_attribute(comm, 7, attribute, NULL);
            attribute = NULL;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t started[THREADS_MAX];
    if (argc > 1)
        threads = atoi(argv[1]);
    if (argc > 2)
        rounds = atoi(argv[2]);
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    cosched_pmpi.Comm_create_keyval = create_keyval;
    cosched_pmpi.Comm_get_attr = get_attribute;
    cosched_pmpi.Comm_set_attr = set_attribute;
    cosched_pmpi.Comm_test_inter = test_inter;
    cosched_pmpi.Comm_group = group_of;
    cosched_pmpi.Comm_rank = rank_in;
    cosched_pmpi.Initialized = is_initialized;
    cosched_pmpi.Finalized = is_finalized;
    cosched_pmpi.Group_free = free_group;
    cosched_pmpi.Group_size = size_of;
    cosched_pmpi.Group_translate_ranks = translate_ranks;
    pthread_barrier_init(&line, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&started[i], NULL, use, (void *)(intptr_t)i);
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    printf("wrong %ld\n", wrong);
    return wrong != 0;
}
