#include "requests.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 1024 /* a power of two */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cosched_record *buckets[BUCKETS];
static long held; /* records in the table: without any, lookups cost one load */

/* Requests that the user freed while their message was moving. */
static struct cosched_record *orphans;

static struct cosched_record **bucket_of(MPI_Request handle) {
    uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    return &buckets[hash >> 54];
}
_Static_assert(BUCKETS == 1 << (64 - 54), "the hash gives an index");

struct cosched_record *cosched_requests_new(void) {
    return calloc(1, sizeof(struct cosched_record));
}

void cosched_requests_add(struct cosched_record *record, MPI_Request handle) {
    struct cosched_record **bucket = bucket_of(handle);
    record->handle = handle;
    pthread_mutex_lock(&lock);
    record->next = *bucket;
    *bucket = record;
    __atomic_store_n(&held, held + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void cosched_requests_drop(struct cosched_record *record) {
    if (record->sends)
        cosched_wire_release(&record->out);
    if (record->receives)
        cosched_wire_release(&record->in);
    free(record->copy);
    free(record);
}

/* Under the lock. */
static struct cosched_record *look_up(MPI_Request handle) {
    struct cosched_record *record = *bucket_of(handle);
    while (record != NULL && record->handle != handle)
        record = record->next;
    return record;
}

static void take_out(struct cosched_record *record) {
    struct cosched_record **link = bucket_of(record->handle);
    pthread_mutex_lock(&lock);
    while (*link != record)
        link = &(*link)->next;
    *link = record->next;
    __atomic_store_n(&held, held - 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

bool cosched_requests_any(void) { return __atomic_load_n(&held, __ATOMIC_ACQUIRE) != 0; }

struct cosched_record *cosched_requests_find(MPI_Request handle) {
    struct cosched_record *record;
    if (!cosched_requests_any())
        return NULL;
    pthread_mutex_lock(&lock);
    record = look_up(handle);
    pthread_mutex_unlock(&lock);
    return record;
}

int cosched_requests_find_all(int count, const MPI_Request handles[],
                              struct cosched_record *found[]) {
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        found[i] = look_up(handles[i]);
        n += found[i] != NULL;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

static bool was_cancelled(const struct cosched_record *record, const MPI_Status *status) {
    int cancelled = 0;
    if (record->cancelled)
        cosched_pmpi.Test_cancelled(status, &cancelled);
    return cancelled != 0;
}

void cosched_requests_peek(struct cosched_record *record, MPI_Status *status) {
    if (!record->active || !record->receives || record->in.shape == COSCHED_WIRE_PLAIN ||
        was_cancelled(record, status))
        return;
    if (record->delivered)
        cosched_wire_trim(status);
    else
        cosched_wire_deliver(&record->in, status);
    record->delivered = true;
}

void cosched_requests_complete(struct cosched_record *record, int error, MPI_Status *status) {
    if (cosched_wire_arrived(error))
        cosched_requests_peek(record, status);
    record->active = record->delivered = record->cancelled = false;
    if (!record->persistent) {
        take_out(record);
        cosched_requests_drop(record);
    }
}

bool cosched_requests_release(struct cosched_record *record) {
    take_out(record);
    if (!record->active) {
        cosched_requests_drop(record);
        return false;
    }
    pthread_mutex_lock(&lock);
    record->next = orphans;
    __atomic_store_n(&orphans, record, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return true;
}

void cosched_requests_sweep(void) {
    struct cosched_record *mine, **link;
    if (__atomic_load_n(&orphans, __ATOMIC_ACQUIRE) == NULL)
        return;
    /* The list is taken off, so that no lock is held while MPI works. */
    pthread_mutex_lock(&lock);
    mine = orphans;
    orphans = NULL;
    pthread_mutex_unlock(&lock);
    for (link = &mine; *link != NULL;) {
        struct cosched_record *record = *link;
        MPI_Status status;
        int flag = 0;
        int rc = cosched_pmpi.Test(&record->handle, &flag, &status);
        if (rc == MPI_SUCCESS && !flag) {
            link = &record->next;
            continue;
        }
        if (cosched_wire_arrived(rc))
            cosched_requests_peek(record, &status);
        if (record->handle != MPI_REQUEST_NULL) /* it was persistent */
            cosched_pmpi.Request_free(&record->handle);
        *link = record->next;
        cosched_requests_drop(record);
    }
    if (mine == NULL)
        return;
    pthread_mutex_lock(&lock);
    *link = orphans;
    orphans = mine;
    pthread_mutex_unlock(&lock);
}

void cosched_requests_forget(void) {
    cosched_requests_sweep();
    for (struct cosched_record *record = orphans; record != NULL; record = record->next)
        if (record->handle != MPI_REQUEST_NULL)
            cosched_pmpi.Request_free(&record->handle);
    orphans = NULL; /* their copies stay: MPI may read them until it has ended */
}
