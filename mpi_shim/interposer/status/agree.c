#include "status/agree.h"

#include <stdbool.h>
#include <string.h>

#include "base/state.h"
#include "cosched/join.h"

enum { LEADER = 0, VERDICT = -1 };

static const char *job(void) { return cosched_state_environment.task.job; }

static bool publish(int rank, const char *port) {
    char name[COSCHED_JOIN_NAME_BYTES];
    cosched_join_name(name, job(), rank);
    return cosched_pmpi.Publish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS;
}

static void withdraw(int rank) {
    char name[COSCHED_JOIN_NAME_BYTES];
    cosched_join_name(name, job(), rank);
    (void)cosched_pmpi.Unpublish_name(name, MPI_INFO_NULL, "here");
}

/* Returns whether the name is published, and its port. */
static bool look_up(int rank, char port[MPI_MAX_PORT_NAME]) {
    char name[COSCHED_JOIN_NAME_BYTES];
    cosched_join_name(name, job(), rank);
    memset(port, 0, MPI_MAX_PORT_NAME);
    return cosched_pmpi.Lookup_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS;
}

static bool is_present(int rank) {
    char port[MPI_MAX_PORT_NAME];
    return look_up(rank, port);
}

static enum cosched_agreement lead(int world, struct cosched_join_limit *limit) {
    for (int rank = 1; rank < world; rank++) {
        while (!is_present(rank)) {
            if (cosched_join_limit_is_over(limit)) {
                (void)publish(VERDICT, "some");
                return COSCHED_AGREED_SOME;
            }
            cosched_join_nap(world);
        }
    }
    return publish(VERDICT, "all") ? COSCHED_AGREED_ALL : COSCHED_AGREED_SOME;
}

static enum cosched_agreement follow(int own, int world, struct cosched_join_limit *limit) {
    char verdict[MPI_MAX_PORT_NAME];
    bool led = false;
    while (!look_up(VERDICT, verdict)) {
        led = led || is_present(LEADER);
        if (!led && cosched_join_limit_is_over(limit)) {
            withdraw(own);
            led = is_present(LEADER);
            if (!led)
                return COSCHED_AGREED_SOME;
        }
        cosched_join_nap(world);
    }
    return strcmp(verdict, "all") == 0 ? COSCHED_AGREED_ALL : COSCHED_AGREED_SOME;
}

static enum cosched_agreement agree(uint64_t limit_ms) {
    struct cosched_join_limit limit;
    int own = 0, world = 1;
    cosched_pmpi.Comm_rank(MPI_COMM_WORLD, &own);
    cosched_pmpi.Comm_size(MPI_COMM_WORLD, &world);
    if (!cosched_join_names_reach_all() || !publish(own, "here"))
        return COSCHED_AGREED_UNKNOWN;
    cosched_join_limit_start(&limit, limit_ms * UINT64_C(1000000));
    return own == LEADER ? lead(world, &limit) : follow(own, world, &limit);
}

/* A name that is not published is an error, which must not end the program. */
enum cosched_agreement cosched_agree(uint64_t limit_ms) {
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Errhandler before[2];
    for (int i = 0; i < 2; i++) {
        if (cosched_pmpi.Comm_get_errhandler(comms[i], &before[i]) != MPI_SUCCESS)
            return COSCHED_AGREED_UNKNOWN;
        cosched_pmpi.Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
    }
    enum cosched_agreement result = agree(limit_ms);
    for (int i = 0; i < 2; i++) {
        cosched_pmpi.Comm_set_errhandler(comms[i], before[i]);
        cosched_pmpi.Errhandler_free(&before[i]);
    }
    return result;
}
