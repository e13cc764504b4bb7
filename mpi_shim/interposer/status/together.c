#define _GNU_SOURCE
#include "status/together.h"

#include <errno.h>
#include <stdio.h>

#include "base/report.h"
#include "base/state.h"
#include "cosched/join.h"
#include "cosched/roll.h"
#include "status/shadow.h"

static MPI_Request under_way;

static int zero_if(int rc) { return rc == MPI_SUCCESS ? 0 : -EIO; }

/* --- the service for names: a name that is not published is an error, which must not end the
 * program --- */

static void return_errors(MPI_Errhandler before[2]) {
    cosched_pmpi.Comm_get_errhandler(MPI_COMM_WORLD, &before[0]);
    cosched_pmpi.Comm_get_errhandler(MPI_COMM_SELF, &before[1]);
    cosched_pmpi.Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    cosched_pmpi.Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void restore(MPI_Errhandler before[2]) {
    cosched_pmpi.Comm_set_errhandler(MPI_COMM_WORLD, before[0]);
    cosched_pmpi.Comm_set_errhandler(MPI_COMM_SELF, before[1]);
    cosched_pmpi.Errhandler_free(&before[0]);
    cosched_pmpi.Errhandler_free(&before[1]);
}

static int publish(void *shim, const char *name, const char *port) {
    MPI_Errhandler before[2];
    (void)shim;
    return_errors(before);
    int rc = cosched_pmpi.Publish_name(name, MPI_INFO_NULL, port);
    restore(before);
    return zero_if(rc);
}

static int look_up(void *shim, const char *name, char *port) {
    char found[MPI_MAX_PORT_NAME] = "";
    MPI_Errhandler before[2];
    (void)shim;
    return_errors(before);
    int rc = cosched_pmpi.Lookup_name(name, MPI_INFO_NULL, found);
    restore(before);
    snprintf(port, COSCHED_PORT_BYTES, "%.*s", COSCHED_PORT_BYTES - 1, found);
    return rc == MPI_SUCCESS;
}

static int withdraw(void *shim, const char *name) {
    MPI_Errhandler before[2];
    (void)shim;
    return_errors(before);
    int rc = cosched_pmpi.Unpublish_name(name, MPI_INFO_NULL, "here");
    restore(before);
    return zero_if(rc);
}

/* --- the communicator of the shims --- */

static int enter(void *shim) {
    (void)shim;
    return zero_if(cosched_pmpi.Comm_idup(MPI_COMM_WORLD, &cosched_shadow.comm, &under_way));
}

static int entered(void *shim) {
    (void)shim;
    return zero_if(cosched_pmpi.Comm_set_errhandler(cosched_shadow.comm, MPI_ERRORS_RETURN));
}

static int find_least(void *shim, int32_t *value) {
    (void)shim;
    return zero_if(cosched_pmpi.Iallreduce(MPI_IN_PLACE, value, 1, MPI_INT, MPI_MIN,
                                           cosched_shadow.comm, &under_way));
}

static int gather(void *shim, const void *own, void *all, int32_t bytes) {
    (void)shim;
    return zero_if(cosched_pmpi.Igather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0,
                                        cosched_shadow.comm, &under_way));
}

static int meet(void *shim) {
    (void)shim;
    return zero_if(cosched_pmpi.Ibarrier(cosched_shadow.comm, &under_way));
}

static int sum_sent(void *shim, int32_t *due) {
    (void)shim;
    return zero_if(cosched_pmpi.Ireduce_scatter_block(cosched_shadow.status_sent, due, 1, MPI_INT,
                                                      MPI_SUM, cosched_shadow.comm, &under_way));
}

static int is_complete(void *shim) {
    int flag = 0;
    (void)shim;
    if (cosched_pmpi.Test(&under_way, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return -EIO;
    return flag != 0;
}

static int receive(void *shim) {
    (void)shim;
    return cosched_shadow_read() ? cosched_shadow.bytes_received : -EIO;
}

static int leave(void *shim) {
    (void)shim;
    return zero_if(cosched_pmpi.Comm_free(&cosched_shadow.comm));
}

static int end_job(void *shim) {
    (void)shim;
    return zero_if(cosched_pmpi.Abort(MPI_COMM_WORLD, 1));
}

static int print(void *shim, uint32_t kind, const char *line) {
    (void)shim;
    if (kind == COSCHED_LINE_JOB)
        cosched_report_job(line);
    else if (kind == COSCHED_LINE_WARNING)
        cosched_report_warn("%s", line);
    else
        cosched_report_info("%s", line);
    return 0;
}

static const struct cosched_mpi_calls calls = {
    .publish = publish,
    .look_up = look_up,
    .withdraw = withdraw,
    .enter = enter,
    .entered = entered,
    .find_least = find_least,
    .gather = gather,
    .meet = meet,
    .sum_sent = sum_sent,
    .is_complete = is_complete,
    .receive = receive,
    .leave = leave,
    .end_job = end_job,
    .print = print,
};

static struct cosched_join join = {
    .mpi = &calls,
    .environment = &cosched_state_environment,
    .link = &cosched_state.link,
};
static struct cosched_roll roll = {.join = &join};

void cosched_together_open(void) {
    MPI_Comm parent = MPI_COMM_NULL;
    int rank = 0, world = 1;
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &rank);
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &world);
    join.rank = rank;
    join.world = world;
    join.patience_ms = cosched_join_patience_ms(cosched_state.announced);
    join.spawned =
        cosched_pmpi.Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL;
    if (cosched_state.carrier != COSCHED_CARRIER_SHADOW)
        return;
    join.equipped = cosched_shadow_prepare();
    if (cosched_join_open(&join))
        cosched_shadow_start();
}

void cosched_together_call_roll(uint32_t presence) { cosched_roll_call(&roll, presence); }

void cosched_together_close(void) {
    if (cosched_state.carrier != COSCHED_CARRIER_SHADOW)
        return;
    cosched_shadow_stop();
    cosched_roll_close(&roll, UINT64_MAX);
    cosched_shadow_forget();
}
