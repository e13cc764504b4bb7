#include "calls/requests.h"

#include <stdlib.h>

#include "status/comms.h"
#include "base/lock.h"
#include "status/shadow.h"
#include "wait/wait.h"

#define BUCKETS 1024 /* a power of two */

static struct cosched_lock lock;
static struct cosched_record *buckets[BUCKETS];
static long held; /* records in the table: without any, lookups cost one load */

/* Requests that the user freed while their message was moving. */
struct cosched_record *cosched_requests_orphans;

/* How many of them the last sweep left, and how many calls have gone without one since.
 * Threads may race for them: a sweep comes early or late. */
static long left, calls_since;

/* How many of them a call that sends looks at, on average. */
#define LOOKS_PER_CALL 16

/* Records for the next requests. */
static struct cosched_record *spare;

static struct cosched_record **bucket_of(MPI_Request handle) {
    uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    return &buckets[hash >> 54];
}
_Static_assert(BUCKETS == 1 << (64 - 54), "the hash gives an index");

struct cosched_record *cosched_requests_new(void) {
    struct cosched_record *record;
    cosched_lock_take(&lock);
    record = spare;
    if (record != NULL)
        spare = record->next;
    cosched_lock_give(&lock);
    if (record == NULL)
        record = malloc(sizeof *record);
    if (record == NULL)
        return NULL;
    record->sent = MPI_REQUEST_NULL;
    record->from = NULL;
    record->tells = record->meets = false;
    record->sends = record->receives = record->persistent = false;
    record->active = record->starting = record->delivered = record->claimed = false;
    return record;
}

void cosched_requests_add(struct cosched_record *record, MPI_Request handle) {
    struct cosched_record **bucket = bucket_of(handle);
    record->handle = handle;
    cosched_lock_take(&lock);
    record->next = *bucket;
    *bucket = record;
    __atomic_store_n(&held, held + 1, __ATOMIC_RELEASE);
    cosched_lock_give(&lock);
}

static struct cosched_record *expect(bool persistent) {
    struct cosched_record *record = cosched_requests_new();
    if (record != NULL) {
        record->persistent = persistent;
        record->active = !persistent;
    }
    return record;
}

void cosched_requests_expect_message(MPI_Request handle, MPI_Comm comm, bool persistent) {
    struct cosched_record *record;
    if (!cosched_shadow.on || !(persistent || cosched_shim_contended()) ||
        (record = expect(persistent)) == NULL)
        return;
    record->from = cosched_peers_hold(cosched_peers_of(comm));
    cosched_requests_add(record, handle);
}

void cosched_requests_expect_start(MPI_Request handle, MPI_Comm comm, int dest,
                                   uint64_t bytes) {
    struct cosched_record *record;
    if (!cosched_shadow.on || dest < 0 || (record = expect(true)) == NULL)
        return;
    record->dest = cosched_peers_rank(cosched_peers_of(comm), dest);
    record->bytes = bytes;
    record->tells = true;
    cosched_requests_add(record, handle);
}

void cosched_requests_expect_meeting(MPI_Request handle, MPI_Comm comm) {
    struct cosched_record *record;
    if (!cosched_shadow.on || !cosched_shim_contended() ||
        (record = expect(false)) == NULL)
        return;
    record->from = cosched_peers_hold(cosched_peers_of(comm));
    record->meets = true;
    cosched_requests_add(record, handle);
}

static void let_go(struct cosched_record *record) {
    cosched_peers_release(record->from);
    if (record->sends)
        cosched_wire_release(&record->out);
    if (record->receives)
        cosched_wire_release(&record->in);
}

void cosched_requests_drop(struct cosched_record *record) {
    let_go(record);
    cosched_lock_take(&lock);
    record->next = spare;
    spare = record;
    cosched_lock_give(&lock);
}

/* Under the lock. */
static struct cosched_record *claim(MPI_Request handle) {
    struct cosched_record *record = *bucket_of(handle);
    while (record != NULL && (record->handle != handle || record->claimed))
        record = record->next;
    if (record != NULL)
        record->claimed = true;
    return record;
}

/* Under the lock. */
static void take_out(struct cosched_record *record) {
    struct cosched_record **link = bucket_of(record->handle);
    while (*link != record)
        link = &(*link)->next;
    *link = record->next;
    __atomic_store_n(&held, held - 1, __ATOMIC_RELEASE);
}

bool cosched_requests_any(void) { return __atomic_load_n(&held, __ATOMIC_ACQUIRE) != 0; }

struct cosched_record *cosched_requests_claim(MPI_Request handle) {
    struct cosched_record *record;
    if (!cosched_requests_any())
        return NULL;
    cosched_lock_take(&lock);
    record = claim(handle);
    cosched_lock_give(&lock);
    return record;
}

int cosched_requests_claim_all(int count, const MPI_Request handles[],
                               struct cosched_record *found[]) {
    int n = 0;
    cosched_lock_take(&lock);
    for (int i = 0; i < count; i++) {
        found[i] = claim(handles[i]);
        n += found[i] != NULL;
    }
    cosched_lock_give(&lock);
    return n;
}

void cosched_requests_unclaim(struct cosched_record *record) {
    cosched_lock_take(&lock);
    record->claimed = false;
    cosched_lock_give(&lock);
}

/* Out of band: what the message says of its sender. */
static void hear(const struct cosched_record *record, const MPI_Status *status) {
    int cancelled = 0;
    if (cosched_shim_scheduled())
        return;
    if (record->meets) {
        cosched_shadow_trap_partners(record->from);
        return;
    }
    cosched_pmpi.Test_cancelled(status, &cancelled);
    if (!cancelled)
        cosched_shadow_trap(cosched_peers_rank(record->from, status->MPI_SOURCE));
}

int cosched_requests_peek(struct cosched_record *record, MPI_Status *status) {
    int rc = MPI_SUCCESS;
    if (record->active && record->from != NULL && !record->delivered) {
        if (cosched_shadow.on)
            hear(record, status);
        record->delivered = true;
        return rc;
    }
    if (!record->active || !record->receives || record->in.shape == COSCHED_WIRE_PLAIN)
        return rc;
    if (record->delivered)
        cosched_wire_trim(status);
    else
        rc = cosched_comms_raise(MPI_COMM_NULL, cosched_wire_deliver(&record->in, status));
    record->delivered = true;
    return rc;
}

/* The sending half of an Isendrecv whose message has arrived. What it sends from is a copy,
 * so the user's buffers are free already; where everything is waited for, it is, too. */
static bool has_sent(struct cosched_record *record, bool waits) {
    int flag = 0;
    if (record->sent == MPI_REQUEST_NULL)
        return true;
    if (waits)
        return cosched_wait_request(&record->sent, MPI_STATUS_IGNORE) == MPI_SUCCESS ||
               record->sent == MPI_REQUEST_NULL;
    cosched_pmpi.Test(&record->sent, &flag, MPI_STATUS_IGNORE);
    return record->sent == MPI_REQUEST_NULL;
}

/* Under the lock. */
static void adopt(struct cosched_record *record) {
    record->next = cosched_requests_orphans;
    __atomic_store_n(&cosched_requests_orphans, record, __ATOMIC_RELEASE);
}

void cosched_requests_adopt(struct cosched_record *record) {
    record->handle = MPI_REQUEST_NULL;
    cosched_lock_take(&lock);
    adopt(record);
    cosched_lock_give(&lock);
}

int cosched_requests_complete(struct cosched_record *record, int error, MPI_Status *status,
                              bool waits) {
    int delivered = MPI_SUCCESS;
    bool sent;
    if (cosched_wire_arrived(error))
        delivered = cosched_requests_peek(record, status);
    record->active = record->delivered = false;
    if (record->persistent)
        cosched_requests_unclaim(record);
    else {
        sent = has_sent(record, waits);
        if (sent)
            let_go(record);
        cosched_lock_take(&lock);
        take_out(record);
        if (sent) {
            record->next = spare;
            spare = record;
        } else {
            record->handle = MPI_REQUEST_NULL;
            adopt(record);
        }
        cosched_lock_give(&lock);
    }
    return error != MPI_SUCCESS ? error : delivered;
}

bool cosched_requests_release(struct cosched_record *record) {
    bool active = record->active && (record->sends || record->receives);
    cosched_lock_take(&lock);
    take_out(record);
    if (active)
        adopt(record);
    cosched_lock_give(&lock);
    if (!active)
        cosched_requests_drop(record);
    return active;
}

/* Whether an orphan is complete, with all it consists of. */
static bool is_over(struct cosched_record *record) {
    MPI_Status status;
    int flag = 0;
    if (record->handle != MPI_REQUEST_NULL) {
        int rc = cosched_pmpi.Test(&record->handle, &flag, &status);
        if (rc == MPI_SUCCESS && !flag)
            return false;
        if (cosched_wire_arrived(rc))
            cosched_requests_peek(record, &status);
        if (record->handle != MPI_REQUEST_NULL) /* it was persistent */
            cosched_pmpi.Request_free(&record->handle);
        record->active = false;
    }
    return has_sent(record, false);
}

void cosched_requests_sweep_now(void) {
    struct cosched_record *mine, **link;
    long pending = 0;
    /* The list is taken off, so that no lock is held while MPI works. */
    cosched_lock_take(&lock);
    mine = cosched_requests_orphans;
    cosched_requests_orphans = NULL;
    cosched_lock_give(&lock);
    for (link = &mine; *link != NULL;) {
        struct cosched_record *record = *link;
        if (!is_over(record)) {
            link = &record->next;
            pending++;
            continue;
        }
        *link = record->next;
        cosched_requests_drop(record);
    }
    __atomic_store_n(&left, pending, __ATOMIC_RELAXED);
    __atomic_store_n(&calls_since, 0, __ATOMIC_RELAXED);
    if (mine == NULL)
        return;
    cosched_lock_take(&lock);
    *link = cosched_requests_orphans;
    cosched_requests_orphans = mine;
    cosched_lock_give(&lock);
}

void cosched_requests_sweep_at_times_now(void) {
    long calls = __atomic_add_fetch(&calls_since, 1, __ATOMIC_RELAXED);
    if (calls * LOOKS_PER_CALL >= __atomic_load_n(&left, __ATOMIC_RELAXED))
        cosched_requests_sweep_now();
}

void cosched_requests_forget(void) {
    cosched_requests_sweep();
    for (struct cosched_record *record = cosched_requests_orphans; record != NULL;
         record = record->next) {
        if (record->handle != MPI_REQUEST_NULL)
            cosched_pmpi.Request_free(&record->handle);
        if (record->sent != MPI_REQUEST_NULL)
            cosched_pmpi.Request_free(&record->sent);
    }
    /* Their copies stay: MPI may read them until it has ended. */
    cosched_requests_orphans = NULL;
}
