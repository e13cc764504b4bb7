/*
 * Serves calls that complete, test, start or free requests. Each call claims the records of its
 * requests before it calls the library, and completes or unclaims them afterwards.
 */
#include <stdlib.h>

#include "status/comms.h"
#include "calls/do.h"
#include "wait/library_yields.h"
#include "calls/requests.h"
#include "status/shadow.h"

/* The records of an array of requests, and statuses even if the user wants none. */
struct batch {
    int count; /* 0: none of the requests has a record */
    struct cosched_record **found;
    MPI_Status *statuses;
    struct cosched_record *few[32];
    MPI_Status few_statuses[32];
    void *heap;
};

/* Claims the records of the requests. `many`: the call has a status for each request, not one for
 * all. Returns MPI_SUCCESS, or MPI_ERR_NO_MEM if status bytes are in front of the messages.
 * Under shadow a record only holds the sender, so without memory the records are left alone. */
static int batch_open(struct batch *batch, int count, const MPI_Request requests[], bool many,
                      MPI_Status *statuses) {
    batch->count = 0;
    batch->heap = NULL;
    batch->statuses = statuses;
    if (count <= 0 || !cosched_requests_any())
        return MPI_SUCCESS;
    batch->found = batch->few;
    if (count > 32) {
        batch->heap = malloc((size_t)count * (sizeof *batch->found + sizeof *batch->statuses));
        if (batch->heap == NULL)
            return cosched_state_uses_prefix() ? cosched_comms_raise(MPI_COMM_NULL, MPI_ERR_NO_MEM)
                                           : MPI_SUCCESS;
        batch->found = batch->heap;
        batch->statuses = (void *)(batch->found + count);
    } else
        batch->statuses = batch->few_statuses;
    if (cosched_requests_claim_all(count, requests, batch->found) != 0)
        batch->count = count;
    if (batch->count == 0 || statuses != (many ? MPI_STATUSES_IGNORE : MPI_STATUS_IGNORE))
        batch->statuses = statuses;
    return MPI_SUCCESS;
}

static void batch_close(struct batch *batch) {
    for (int i = 0; i < batch->count; i++)
        if (batch->found[i] != NULL)
            cosched_requests_unclaim(batch->found[i]);
    free(batch->heap);
    cosched_requests_sweep();
}

/* Whether a call that returned rc completed this request, its only one or one that it named.
 * After an error the handle shows it: MPI frees each completed request that is not persistent. */
static bool is_complete(const struct cosched_record *record, int rc, MPI_Request after) {
    return rc == MPI_SUCCESS || record->persistent || after == MPI_REQUEST_NULL;
}

/* Whether each status has its own error. */
static bool is_in_status(int rc) {
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        cosched_pmpi.Error_class(rc, &class);
    return class == MPI_ERR_IN_STATUS;
}

/* Handles requests[index], which was reported complete with this status. Returns rc, or why the
 * message could not be handed over. */
static int batch_complete(struct batch *batch, int rc, const MPI_Request requests[], int index,
                          MPI_Status *status, bool waits) {
    bool in_status = is_in_status(rc);
    int error;
    if (index < 0 || index >= batch->count || batch->found[index] == NULL)
        return rc;
    if (!is_complete(batch->found[index], rc, requests[index])) {
        /* MPICH's Testall, after an error while others are pending: the statuses show which
         * messages have arrived, and the handles stay. */
        if (in_status && cosched_wire_arrived(status->MPI_ERROR))
            cosched_requests_peek(batch->found[index], status);
        return rc;
    }
    error = in_status ? status->MPI_ERROR : rc;
    error = cosched_requests_complete(batch->found[index], error, status, waits);
    batch->found[index] = NULL;
    return rc != MPI_SUCCESS ? rc : error;
}

/* A call that names no request shows by the statuses alone that a persistent request is
 * complete. After another error the request may still be pending. */
static bool may_be_complete(const struct batch *batch, int rc, int index) {
    const struct cosched_record *record = batch->found[index];
    return rc == MPI_SUCCESS || record == NULL || !record->persistent ||
           (is_in_status(rc) && batch->statuses[index].MPI_ERROR != MPI_ERR_PENDING);
}

static int batch_complete_all(struct batch *batch, int rc, const MPI_Request requests[],
                              bool waits) {
    int result = rc;
    for (int i = 0; i < batch->count; i++) {
        if (!may_be_complete(batch, rc, i))
            continue;
        int one = batch_complete(batch, rc, requests, i, &batch->statuses[i], waits);
        result = result != MPI_SUCCESS ? result : one;
    }
    return result;
}

static int batch_complete_some(struct batch *batch, int rc, const MPI_Request requests[],
                               int outcount, const int indices[]) {
    int result = rc;
    if (batch->count == 0 || outcount == MPI_UNDEFINED)
        return rc;
    for (int i = 0; i < outcount; i++) {
        int one = batch_complete(batch, rc, requests, indices[i], &batch->statuses[i], false);
        result = result != MPI_SUCCESS ? result : one;
    }
    return result;
}

/* One request */

static int test_one(MPI_Request *request, int *flag, MPI_Status *status, bool wait) {
    struct cosched_record *record = cosched_requests_claim(*request);
    MPI_Status own;
    int rc;
    if (record != NULL && status == MPI_STATUS_IGNORE)
        status = &own;
    if (wait)
        rc = cosched_wait_for(request, status);
    else
        COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Test(request, flag, status));
    if (record != NULL) {
        if ((wait || *flag || rc != MPI_SUCCESS) && is_complete(record, rc, *request))
            rc = cosched_requests_complete(record, rc, status, wait);
        else
            cosched_requests_unclaim(record);
    }
    if (!wait && !*flag)
        cosched_looked(&cosched_state.link);
    cosched_requests_sweep();
    return rc;
}

int cosched_do_Wait(MPI_Request *request, MPI_Status *status) {
    return test_one(request, NULL, status, true);
}

int cosched_do_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    return test_one(request, flag, status, false);
}

/* Many requests. Where the shim replaces the wait, it calls the testing forms again and again. */

int cosched_do_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, true, statuses);
    if (rc != MPI_SUCCESS)
        return rc;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Testall(count, requests, flag, batch.statuses));
    if (rc != MPI_SUCCESS || *flag)
        rc = batch_complete_all(&batch, rc, requests, false);
    else
        cosched_looked(&cosched_state.link);
    batch_close(&batch);
    return rc;
}

/* Frees the completed requests: after an error while others are pending, MPICH's Testall keeps
 * their handles, but Waitall must free them. */
static int free_complete(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (statuses == MPI_STATUSES_IGNORE)
        return cosched_pmpi.Waitall(count, requests, statuses);
    for (int i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            cosched_pmpi.Wait(&requests[i], MPI_STATUS_IGNORE);
    return MPI_ERR_IN_STATUS;
}

int cosched_do_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    struct batch batch;
    int flag = 0;
    int rc = batch_open(&batch, count, requests, true, statuses);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!cosched_wait_is_ours(COSCHED_YIELDS_MOSTLY))
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.Waitall(count, requests, batch.statuses));
    else {
        COSCHED_SHIM_WAITS(rc, cosched_pmpi.Testall(count, requests, &flag, batch.statuses), flag);
        if (!flag && is_in_status(rc))
            rc = free_complete(count, requests, batch.statuses);
    }
    rc = batch_complete_all(&batch, rc, requests, true);
    batch_close(&batch);
    return rc;
}

int cosched_do_Testany(int count, MPI_Request requests[], int *index, int *flag,
                       MPI_Status *status) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, false, status);
    if (rc != MPI_SUCCESS)
        return rc;
    *index = MPI_UNDEFINED; /* after an error the library may not set it */
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Testany(count, requests, index, flag, batch.statuses));
    if (rc != MPI_SUCCESS || *flag)
        rc = batch_complete(&batch, rc, requests, *index, batch.statuses, false);
    else
        cosched_looked(&cosched_state.link);
    batch_close(&batch);
    return rc;
}

int cosched_do_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    struct batch batch;
    int flag = 0;
    int rc = batch_open(&batch, count, requests, false, status);
    if (rc != MPI_SUCCESS)
        return rc;
    *index = MPI_UNDEFINED;
    COSCHED_EITHER_WAITS(
        COSCHED_YIELDS_ALWAYS, rc, cosched_pmpi.Waitany(count, requests, index, batch.statuses),
        cosched_pmpi.Testany(count, requests, index, &flag, batch.statuses), flag);
    rc = batch_complete(&batch, rc, requests, *index, batch.statuses, false);
    batch_close(&batch);
    return rc;
}

int cosched_do_Testsome(int count, MPI_Request requests[], int *outcount, int indices[],
                        MPI_Status statuses[]) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, true, statuses);
    if (rc != MPI_SUCCESS)
        return rc;
    *outcount = 0;
    COSCHED_LIBRARY_TESTS(
        rc, cosched_pmpi.Testsome(count, requests, outcount, indices, batch.statuses));
    if (rc == MPI_SUCCESS && *outcount == 0)
        cosched_looked(&cosched_state.link);
    rc = batch_complete_some(&batch, rc, requests, *outcount, indices);
    batch_close(&batch);
    return rc;
}

int cosched_do_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[],
                        MPI_Status statuses[]) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, true, statuses);
    if (rc != MPI_SUCCESS)
        return rc;
    *outcount = 0;
    COSCHED_EITHER_WAITS(
        COSCHED_YIELDS_ALWAYS, rc,
        cosched_pmpi.Waitsome(count, requests, outcount, indices, batch.statuses),
        cosched_pmpi.Testsome(count, requests, outcount, indices, batch.statuses),
        *outcount != 0);
    rc = batch_complete_some(&batch, rc, requests, *outcount, indices);
    batch_close(&batch);
    return rc;
}

/* Looking without completing: from now on the user may use the message. */

int cosched_do_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    struct cosched_record *record = cosched_requests_claim(request);
    MPI_Status own;
    int rc;
    if (record != NULL && status == MPI_STATUS_IGNORE)
        status = &own;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Request_get_status(request, flag, status));
    if (record != NULL) {
        if (rc == MPI_SUCCESS && *flag)
            rc = cosched_requests_peek(record, status);
        cosched_requests_unclaim(record);
    }
    if (rc == MPI_SUCCESS && !*flag)
        cosched_looked(&cosched_state.link);
    return rc;
}

#if COSCHED_MPI_HAS_4_1
static void batch_peek(struct batch *batch, int index, MPI_Status *status, int *rc) {
    int one;
    if (index < 0 || index >= batch->count || batch->found[index] == NULL)
        return;
    one = cosched_requests_peek(batch->found[index], status);
    *rc = *rc != MPI_SUCCESS ? *rc : one;
}

int cosched_do_Request_get_status_all(int count, cosched_requests_seen requests, int *flag,
                                      MPI_Status statuses[]) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, true, statuses);
    if (rc != MPI_SUCCESS)
        return rc;
    COSCHED_LIBRARY_TESTS(
        rc, cosched_pmpi.Request_get_status_all(count, requests, flag, batch.statuses));
    if (rc == MPI_SUCCESS && *flag)
        for (int i = 0; i < batch.count; i++)
            batch_peek(&batch, i, &batch.statuses[i], &rc);
    if (!*flag)
        cosched_looked(&cosched_state.link);
    batch_close(&batch);
    return rc;
}

int cosched_do_Request_get_status_any(int count, cosched_requests_seen requests, int *index,
                                      int *flag, MPI_Status *status) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, false, status);
    if (rc != MPI_SUCCESS)
        return rc;
    COSCHED_LIBRARY_TESTS(
        rc, cosched_pmpi.Request_get_status_any(count, requests, index, flag, batch.statuses));
    if (rc == MPI_SUCCESS && *flag)
        batch_peek(&batch, *index, batch.statuses, &rc);
    if (!*flag)
        cosched_looked(&cosched_state.link);
    batch_close(&batch);
    return rc;
}

int cosched_do_Request_get_status_some(int count, cosched_requests_seen requests, int *outcount,
                                       int indices[], MPI_Status statuses[]) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, true, statuses);
    if (rc != MPI_SUCCESS)
        return rc;
    COSCHED_LIBRARY_TESTS(rc, cosched_pmpi.Request_get_status_some(count, requests, outcount, indices,
                              batch.statuses));
    if (rc == MPI_SUCCESS && *outcount != MPI_UNDEFINED && batch.count != 0)
        for (int i = 0; i < *outcount; i++)
            batch_peek(&batch, indices[i], &batch.statuses[i], &rc);
    if (rc == MPI_SUCCESS && *outcount == 0)
        cosched_looked(&cosched_state.link);
    batch_close(&batch);
    return rc;
}
#endif

/* Starting, cancelling, freeing */

static int prepare(struct cosched_record *record) {
    int rc = MPI_SUCCESS;
    if (record == NULL || record->active)
        return rc;
    if (record->sends)
        rc = cosched_comms_raise(MPI_COMM_NULL, cosched_wire_load(&record->out));
    else if (record->has_dest) {
        cosched_shadow_before_start(record->dest);
        cosched_task_count(&cosched_state.link.counters->sent, 1);
        cosched_task_count(&cosched_state.link.counters->bytes_sent, record->bytes);
    }
    record->active = record->starting = rc == MPI_SUCCESS;
    return rc;
}

/* Marks a prepared request as started or not. A request that was active before stays active. */
static void started(struct cosched_record *record, int rc) {
    if (record == NULL)
        return;
    if (record->starting && rc != MPI_SUCCESS)
        record->active = false;
    record->starting = false;
}

int cosched_do_Start(MPI_Request *request) {
    struct cosched_record *record = cosched_requests_claim(*request);
    int rc = prepare(record);
    if (rc == MPI_SUCCESS)
        rc = cosched_pmpi.Start(request);
    started(record, rc);
    if (record != NULL)
        cosched_requests_unclaim(record);
    return rc;
}

int cosched_do_Startall(int count, MPI_Request requests[]) {
    struct batch batch;
    int rc = batch_open(&batch, count, requests, true, MPI_STATUSES_IGNORE);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < batch.count && rc == MPI_SUCCESS; i++)
        rc = prepare(batch.found[i]);
    if (rc == MPI_SUCCESS)
        rc = cosched_pmpi.Startall(count, requests);
    for (int i = 0; i < batch.count; i++)
        started(batch.found[i], rc);
    batch_close(&batch);
    return rc;
}

int cosched_do_Request_free(MPI_Request *request) {
    struct cosched_record *record = cosched_requests_claim(*request);
    int rc = MPI_SUCCESS;
    if (record == NULL || !cosched_requests_release(record))
        rc = cosched_pmpi.Request_free(request);
    else
        *request = MPI_REQUEST_NULL;
    cosched_requests_sweep_at_times();
    return rc;
}
