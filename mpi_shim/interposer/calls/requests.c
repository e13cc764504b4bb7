#include "calls/requests.h"

#include <stdlib.h>

#include "status/shadow.h"
#include "wait/library_yields.h"

static struct cosched_handles table;

/* Records for the next requests; the table's lock guards them, too. */
static struct cosched_record *spare;

struct cosched_record *cosched_requests_orphans;

/* How many orphans the last sweep left, and how many calls were made since. Threads may race
 * for these numbers: then a sweep comes early or late. */
static long left, calls_since;

/* How many orphans a call that sends tests on average. */
#define TESTS_PER_CALL 16

struct cosched_record *cosched_requests_new(void) {
    struct cosched_record *record;
    cosched_lock_take(&table.lock);
    record = spare;
    if (record != NULL)
        spare = record->next;
    cosched_lock_give(&table.lock);
    if (record == NULL)
        record = malloc(sizeof *record);
    if (record == NULL)
        return NULL;
    record->sent = MPI_REQUEST_NULL;
    record->from = NULL;
    record->has_dest = record->is_collective = false;
    record->sends = record->receives = record->persistent = false;
    record->active = record->starting = record->delivered = record->claimed = false;
    return record;
}

void cosched_requests_add(struct cosched_record *record, MPI_Request handle) {
    record->handle = handle;
    cosched_handles_add(&table, &record->entry, (uintptr_t)handle);
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
    if (!cosched_shadow.on || !(persistent || cosched_state_is_contended()) ||
        (record = expect(persistent)) == NULL)
        return;
    record->from = cosched_comms_hold(cosched_comms_find(comm));
    cosched_requests_add(record, handle);
}

void cosched_requests_expect_start(MPI_Request handle, MPI_Comm comm, int dest,
                                   cosched_count count, MPI_Datatype type) {
    struct cosched_record *record;
    if (!cosched_shadow.on || dest < 0 || (record = expect(true)) == NULL)
        return;
    record->dest = cosched_comms_world_rank(cosched_comms_find(comm), dest);
    record->bytes = cosched_wire_bytes(count, type);
    record->has_dest = true;
    cosched_requests_add(record, handle);
}

void cosched_requests_expect_collective(MPI_Request handle, MPI_Comm comm) {
    struct cosched_record *record;
    if (!cosched_shadow.on || !cosched_state_is_contended() || (record = expect(false)) == NULL)
        return;
    record->from = cosched_comms_hold(cosched_comms_find(comm));
    record->is_collective = true;
    cosched_requests_add(record, handle);
}

static void release_parts(struct cosched_record *record) {
    cosched_comms_release(record->from);
    if (record->sends)
        cosched_wire_release(&record->out);
    if (record->receives)
        cosched_wire_release(&record->in);
}

void cosched_requests_drop(struct cosched_record *record) {
    release_parts(record);
    cosched_lock_take(&table.lock);
    record->next = spare;
    spare = record;
    cosched_lock_give(&table.lock);
}

/* The caller holds the lock. */
static struct cosched_record *claim(MPI_Request handle) {
    struct cosched_entry *entry = cosched_handles_bucket(&table, (uintptr_t)handle);
    for (; entry != NULL; entry = entry->next) {
        struct cosched_record *record = (struct cosched_record *)entry;
        if (record->handle != handle || record->claimed)
            continue;
        record->claimed = true;
        return record;
    }
    return NULL;
}
_Static_assert(offsetof(struct cosched_record, entry) == 0, "an entry is its record");

bool cosched_requests_any(void) { return !cosched_handles_is_empty(&table); }

struct cosched_record *cosched_requests_claim(MPI_Request handle) {
    struct cosched_record *record;
    if (!cosched_requests_any())
        return NULL;
    cosched_lock_take(&table.lock);
    record = claim(handle);
    cosched_lock_give(&table.lock);
    return record;
}

int cosched_requests_claim_all(int count, const MPI_Request handles[],
                               struct cosched_record *found[]) {
    int n = 0;
    cosched_lock_take(&table.lock);
    for (int i = 0; i < count; i++) {
        found[i] = claim(handles[i]);
        n += found[i] != NULL;
    }
    cosched_lock_give(&table.lock);
    return n;
}

void cosched_requests_unclaim(struct cosched_record *record) {
    cosched_lock_take(&table.lock);
    record->claimed = false;
    cosched_lock_give(&table.lock);
}

/* Shadow: traps the message if its sender is scheduled and this task is not. */
static void trap(const struct cosched_record *record, const MPI_Status *status) {
    int cancelled = 0;
    if (cosched_state_is_scheduled())
        return;
    if (record->is_collective) {
        cosched_shadow_trap_from_partners(record->from);
        return;
    }
    cosched_pmpi.Test_cancelled(status, &cancelled);
    if (!cancelled)
        cosched_shadow_trap(cosched_comms_world_rank(record->from, status->MPI_SOURCE));
}

int cosched_requests_peek(struct cosched_record *record, MPI_Status *status) {
    int rc = MPI_SUCCESS;
    if (record->active && record->from != NULL && !record->delivered) {
        if (cosched_shadow.on)
            trap(record, status);
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

/* Whether the sending half of an Isendrecv is complete. It sends from a copy, so the user's
 * buffers are free already. A call that waits for all its requests waits for this, too. */
static bool has_sent(struct cosched_record *record, bool waits) {
    int flag = 0;
    if (record->sent == MPI_REQUEST_NULL)
        return true;
    if (waits)
        return cosched_wait_for(&record->sent, MPI_STATUS_IGNORE) == MPI_SUCCESS ||
               record->sent == MPI_REQUEST_NULL;
    cosched_pmpi.Test(&record->sent, &flag, MPI_STATUS_IGNORE);
    return record->sent == MPI_REQUEST_NULL;
}

/* The caller holds the lock. */
static void adopt(struct cosched_record *record) {
    record->next = cosched_requests_orphans;
    __atomic_store_n(&cosched_requests_orphans, record, __ATOMIC_RELEASE);
}

void cosched_requests_adopt(struct cosched_record *record) {
    record->handle = MPI_REQUEST_NULL;
    cosched_lock_take(&table.lock);
    adopt(record);
    cosched_lock_give(&table.lock);
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
            release_parts(record);
        cosched_lock_take(&table.lock);
        cosched_handles_unlink(&table, &record->entry);
        if (sent) {
            record->next = spare;
            spare = record;
        } else {
            record->handle = MPI_REQUEST_NULL;
            adopt(record);
        }
        cosched_lock_give(&table.lock);
    }
    return error != MPI_SUCCESS ? error : delivered;
}

bool cosched_requests_release(struct cosched_record *record) {
    bool active = record->active && (record->sends || record->receives);
    cosched_lock_take(&table.lock);
    cosched_handles_unlink(&table, &record->entry);
    if (active)
        adopt(record);
    cosched_lock_give(&table.lock);
    if (!active)
        cosched_requests_drop(record);
    return active;
}

/* Whether an orphan is complete, with both halves. */
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
    /* Takes the list away, to hold no lock while MPI works. */
    cosched_lock_take(&table.lock);
    mine = cosched_requests_orphans;
    cosched_requests_orphans = NULL;
    cosched_lock_give(&table.lock);
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
    cosched_lock_take(&table.lock);
    *link = cosched_requests_orphans;
    cosched_requests_orphans = mine;
    cosched_lock_give(&table.lock);
}

void cosched_requests_sweep_at_times_now(void) {
    long calls = __atomic_add_fetch(&calls_since, 1, __ATOMIC_RELAXED);
    if (calls * TESTS_PER_CALL >= __atomic_load_n(&left, __ATOMIC_RELAXED))
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
    /* The copies stay: MPI may read them until it has ended. */
    cosched_requests_orphans = NULL;
}
