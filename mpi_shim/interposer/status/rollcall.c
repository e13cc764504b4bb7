#include "status/rollcall.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/report.h"
#include "cosched/roll.h"
#include "status/shadow.h"

/* One roll call. It may still be pending when the limit of MPI_Init passes, and then ends in
 * MPI_Finalize: all ranks make the same calls in the same order. */
struct call {
    enum { NOT_YET, VOTING, GATHERING, OVER } stage;
    MPI_Request request;
    int vote;
    struct cosched_answer own;
    struct cosched_answer *answers; /* of all ranks, at rank 0 */
};

static struct call at_start, at_end;

static void begin(struct call *call, uint32_t presence, bool absent) {
    const struct cosched_environment *environment = &cosched_state_environment;
    cosched_roll_answer(&call->own, environment->node, presence);
    call->vote = absent ? COSCHED_VOTE_GATHER : COSCHED_VOTE_PRESENT;
    call->stage = OVER;
    if (!cosched_shadow_has_joined())
        return;
    if (environment->task.rank == 0) {
        call->answers = calloc((size_t)cosched_shadow.size, sizeof *call->answers);
        if (call->answers == NULL)
            call->vote = COSCHED_VOTE_SILENT;
    }
    if (cosched_pmpi.Iallreduce(MPI_IN_PLACE, &call->vote, 1, MPI_INT, MPI_MIN,
                                cosched_shadow.comm, &call->request) == MPI_SUCCESS)
        call->stage = VOTING;
}

static void gather(struct call *call) {
    const int bytes = (int)sizeof call->own;
    call->stage = OVER;
    if (call->vote == COSCHED_VOTE_GATHER &&
        cosched_pmpi.Igather(&call->own, bytes, MPI_BYTE, call->answers, bytes, MPI_BYTE, 0,
                             cosched_shadow.comm, &call->request) == MPI_SUCCESS)
        call->stage = GATHERING;
}

/* Returns whether the call is over within the limit. */
static bool advance(struct call *call, struct cosched_join_limit *limit) {
    if (call->stage == VOTING && cosched_shadow_completes(&call->request, limit))
        gather(call);
    if (call->stage == GATHERING && cosched_shadow_completes(&call->request, limit))
        call->stage = OVER;
    return call->stage == OVER;
}

/* At rank 0. Without the answers of the others: about its own node. */
static void report(struct call *call) {
    char line[COSCHED_ROLL_LINE_BYTES];
    if (call->vote != COSCHED_VOTE_GATHER || cosched_state_environment.task.rank != 0 ||
        cosched_state_environment.requirement == COSCHED_REQUIRE_NONE)
        return;
    if (call->answers != NULL)
        cosched_roll_line(line, call->answers, (uint64_t)cosched_shadow.size);
    else
        cosched_roll_line(line, &call->own, 1);
    cosched_report_job(line);
}

static void finish(struct call *call) {
    report(call);
    free(call->answers);
    call->answers = NULL;
}

/* The job must not run. One rank ends it; the others wait for that end. */
static void end_job(void) {
    MPI_Request never;
    bool joined = cosched_shadow_has_joined();
    if (joined && cosched_state_environment.task.rank != 0 &&
        cosched_pmpi.Ibarrier(cosched_shadow.comm, &never) == MPI_SUCCESS)
        (void)cosched_shadow_completes(&never, NULL);
    cosched_report_warn("the job needs a daemon on each of its nodes (COSCHED_REQUIRE=all)");
    cosched_roll_await_reader(STDERR_FILENO);
    cosched_pmpi.Abort(MPI_COMM_WORLD, 1);
    for (unsigned left_s = COSCHED_ROLL_END_S; left_s > 0;)
        left_s = sleep(left_s);
}

void cosched_roll_call(uint32_t presence) {
    const bool needs_all = cosched_state_environment.requirement == COSCHED_REQUIRE_ALL;
    struct cosched_join_limit limit;
    if (at_start.stage != NOT_YET)
        return;
    begin(&at_start, presence, presence != COSCHED_PRESENT);
    cosched_join_limit_start(&limit, cosched_shadow_patience_ms() * UINT64_C(1000000));
    /* All ranks that have joined take part, so a job that needs the answer waits for it. */
    if (!advance(&at_start, needs_all ? NULL : &limit))
        return;
    finish(&at_start);
    if (needs_all && at_start.vote == COSCHED_VOTE_GATHER)
        end_job();
}

void cosched_roll_close(void) {
    uint32_t presence = cosched_roll_presence_at_end(&cosched_state.link);
    if (at_start.stage == NOT_YET) /* it joined late */
        begin(&at_start, presence, presence != COSCHED_PRESENT);
    if (at_start.stage != OVER && advance(&at_start, NULL))
        finish(&at_start);
    begin(&at_end, presence, presence == COSCHED_LEFT);
    if (advance(&at_end, NULL))
        finish(&at_end);
}
