#define _GNU_SOURCE
#include "cosched/join.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "cosched/spin_or_sleep.h"

/* A process that runs looks at least this often. */
#define LONGEST_STEP_NS UINT64_C(20000000)

/* A look for a name costs one process, which serves all ranks: the more ranks, the longer a nap
 * between two looks. */
#define NAP_NS 1000000
#define NAP_OF_A_RANK_NS 50000
#define RANKS_OF_LONGEST_NAP 300

/* After this many tests, some 20 us, a wait that only spins yields the CPU between two tests. */
#define TESTS_BEFORE_YIELD 50

/* The namespaces of the jobs that srun --mpi=pmix starts begin so. */
#define SRUN_SPACE "slurm.pmix."

enum { LEADER = 0, VERDICT = -1 };

enum agreement {
    ALL,    /* every rank has the shim */
    SOME,   /* a rank has none; all other ranks get the same result */
    ALONE,  /* the same, and rank 0 has none */
    UNKNOWN /* there is no name service for these ranks */
};

void cosched_join_limit_start(struct cosched_join_limit *limit, uint64_t limit_ms) {
    const uint64_t ms = UINT64_C(1000000);
    limit->left_ns = limit_ms > UINT64_MAX / ms ? UINT64_MAX : limit_ms * ms;
    limit->last_ns = cosched_clock_ns(CLOCK_MONOTONIC);
}

int cosched_join_limit_is_over(struct cosched_join_limit *limit) {
    uint64_t now = cosched_clock_ns(CLOCK_MONOTONIC);
    uint64_t passed = now - limit->last_ns;
    if (passed > LONGEST_STEP_NS)
        passed = LONGEST_STEP_NS;
    limit->last_ns = now;
    if (passed >= limit->left_ns) {
        limit->left_ns = 0;
        return 1;
    }
    if (limit->left_ns != UINT64_MAX)
        limit->left_ns -= passed;
    return 0;
}

uint64_t cosched_join_patience_ms(int announced) {
    return announced ? COSCHED_JOIN_LAUNCHED_MS : COSCHED_JOIN_MS;
}

static void print(const struct cosched_join *join, uint32_t kind, const char *line) {
    (void)join->mpi->print(join->shim, kind, line);
}

int32_t cosched_join_partner(int32_t size, int32_t me, uint32_t index) {
    if (size <= 0)
        return -1;
    const int32_t from = me % size;
    if (index == 0)
        return from;
    const uint32_t bit = (index - 1) / 2;
    if (bit > 30 || (INT32_C(1) << bit) >= size)
        return -1;
    const int32_t step = INT32_C(1) << bit;
    return (int32_t)(((int64_t)from + (index % 2 == 1 ? step : size - step)) % size);
}

/* --- the agreement --- */

int cosched_join_names_reach_all(void) {
    const char *space = getenv("PMIX_NAMESPACE");
    if (getenv("HYDI_CONTROL_FD") != NULL)
        return 1;
    if (space != NULL && strncmp(space, SRUN_SPACE, sizeof SRUN_SPACE - 1) == 0)
        return 0; /* Slurm's PMIx has no names, and Open MPI 4 prints an error at each attempt */
    return getenv("SLURM_STEP_ID") == NULL || getenv("PMI_FD") == NULL;
}

/* Writes the name that a rank publishes, or the name of the verdict. */
static void write_name(char name[COSCHED_JOIN_NAME_BYTES], const struct cosched_join *join,
                       int32_t rank) {
    const char *job = join->environment->task.job;
    const char *space = getenv("PMIX_NAMESPACE"); /* Open MPI may run several jobs side by side */
    if (space == NULL)
        space = "";
    if (rank < 0)
        snprintf(name, COSCHED_JOIN_NAME_BYTES, "cosched/%s/%.255s/verdict", job, space);
    else
        snprintf(name, COSCHED_JOIN_NAME_BYTES, "cosched/%s/%.255s/%d", job, space, (int)rank);
}

static int publish(const struct cosched_join *join, int32_t rank, const char *port) {
    char name[COSCHED_JOIN_NAME_BYTES];
    write_name(name, join, rank);
    return join->mpi->publish(join->shim, name, port) == 0;
}

static void withdraw(const struct cosched_join *join, int32_t rank) {
    char name[COSCHED_JOIN_NAME_BYTES];
    write_name(name, join, rank);
    (void)join->mpi->withdraw(join->shim, name);
}

/* Returns 1 if the name is published, 0 if it is not, or a negative error. */
static int look_up(const struct cosched_join *join, int32_t rank, char port[COSCHED_PORT_BYTES]) {
    char name[COSCHED_JOIN_NAME_BYTES];
    write_name(name, join, rank);
    memset(port, 0, COSCHED_PORT_BYTES);
    return join->mpi->look_up(join->shim, name, port);
}

static int is_present(const struct cosched_join *join, int32_t rank) {
    char port[COSCHED_PORT_BYTES];
    return look_up(join, rank, port);
}

static void nap(const struct cosched_join *join) {
    int32_t ranks = join->world < RANKS_OF_LONGEST_NAP ? join->world : RANKS_OF_LONGEST_NAP;
    const struct timespec moment = {.tv_nsec = NAP_NS + (long)ranks * NAP_OF_A_RANK_NS};
    (void)nanosleep(&moment, NULL);
}

static enum agreement lead(const struct cosched_join *join, struct cosched_join_limit *limit) {
    for (int32_t rank = 1; rank < join->world; rank++) {
        int present;
        while ((present = is_present(join, rank)) == 0 && !cosched_join_limit_is_over(limit))
            nap(join);
        if (present <= 0) {
            (void)publish(join, VERDICT, "some");
            return SOME;
        }
    }
    return publish(join, VERDICT, "all") ? ALL : SOME;
}

static enum agreement follow(const struct cosched_join *join, struct cosched_join_limit *limit) {
    char verdict[COSCHED_PORT_BYTES];
    int found, led = 0;
    while ((found = look_up(join, VERDICT, verdict)) == 0) {
        led = led || is_present(join, LEADER) == 1;
        if (!led && cosched_join_limit_is_over(limit)) {
            withdraw(join, join->rank);
            led = is_present(join, LEADER) == 1;
            if (!led)
                return ALONE;
        }
        nap(join);
    }
    return found == 1 && strcmp(verdict, "all") == 0 ? ALL : SOME;
}

static enum agreement agree(const struct cosched_join *join, uint64_t limit_ms) {
    struct cosched_join_limit limit;
    if (!cosched_join_names_reach_all() || !publish(join, join->rank, "here"))
        return UNKNOWN;
    cosched_join_limit_start(&limit, limit_ms);
    return join->rank == LEADER ? lead(join, &limit) : follow(join, &limit);
}

/* Returns whether the ranks may begin to join. Spawned ranks share the names of their parents,
 * and start as these did. */
static int may_begin(const struct cosched_join *join) {
    const uint32_t shimmed = join->environment->shimmed;
    if (shimmed == COSCHED_SHIMMED_SURELY || join->spawned)
        return 1;
    uint64_t limit_ms = join->patience_ms;
    if (shimmed == COSCHED_SHIMMED_PERHAPS && limit_ms > COSCHED_JOIN_MS)
        limit_ms = COSCHED_JOIN_MS;
    enum agreement found = agree(join, limit_ms);
    /* One rank prints the line: rank 0, or rank 1 in its place. */
    if ((found == SOME && join->rank == LEADER) || (found == ALONE && join->rank == 1))
        print(join, COSCHED_LINE_WARNING,
              "a rank has no shim, so the job runs without status: no message is trapped");
    if (found == UNKNOWN && join->rank == LEADER)
        print(join, COSCHED_LINE_DETAIL,
              "the ranks cannot agree whether all have the shim: this MPI publishes no names here");
    return found == ALL || (found == UNKNOWN && shimmed != COSCHED_SHIMMED_PERHAPS);
}

/* --- the join --- */

static void pass_time(const struct cosched_join *join, struct cosched_wait *wait) {
    if (!cosched_pass_time(join->link, &join->environment->wait, wait) &&
        wait->turns > TESTS_BEFORE_YIELD)
        (void)syscall(SYS_sched_yield); /* not sched_yield(): the interposer replaces it */
}

int cosched_join_completes(const struct cosched_join *join, struct cosched_join_limit *limit) {
    struct cosched_wait wait = {0};
    int complete;
    while ((complete = join->mpi->is_complete(join->shim)) == 0) {
        if (cosched_join_limit_is_over(limit))
            break;
        pass_time(join, &wait);
    }
    (void)cosched_count_wait(join->link, &wait);
    return complete == 1;
}

/* Returns whether every rank has joined within the limit. */
static int join_within(struct cosched_join *join, uint64_t limit_ms) {
    struct cosched_join_limit limit;
    cosched_join_limit_start(&limit, limit_ms);
    if (join->stage == COSCHED_JOIN_ENTERING && cosched_join_completes(join, &limit))
        join->stage = join->mpi->entered(join->shim) == 0 &&
                              join->mpi->find_least(join->shim, &join->equipped) == 0
                          ? COSCHED_JOIN_AGREEING
                          : COSCHED_JOIN_OUTSIDE;
    if (join->stage == COSCHED_JOIN_AGREEING && cosched_join_completes(join, &limit))
        join->stage = COSCHED_JOIN_INSIDE;
    return join->stage == COSCHED_JOIN_INSIDE;
}

int cosched_join_open(struct cosched_join *join) {
    char line[COSCHED_WARNING_BYTES];
    if (join->world == 1 || !may_begin(join))
        return 0;
    if (join->mpi->enter(join->shim) != 0) {
        print(join, COSCHED_LINE_WARNING,
              "the MPI library makes no communicator for cosched: this rank traps no messages");
        return 0;
    }
    join->stage = COSCHED_JOIN_ENTERING;
    if (!join_within(join, join->patience_ms)) {
        snprintf(line, sizeof line,
                 "after %llu s not every rank has joined: is one without the shim? This one goes "
                 "on, and traps no messages",
                 (unsigned long long)(join->patience_ms / 1000));
        print(join, COSCHED_LINE_WARNING, line);
        return 0;
    }
    if (!join->equipped && join->rank == LEADER)
        print(join, COSCHED_LINE_WARNING,
              "a rank lacks memory for the status of the others: none of them traps messages");
    return join->equipped;
}

int cosched_join_stop(struct cosched_join *join) {
    if (join->stage == COSCHED_JOIN_ENTERING)
        join->equipped = 0; /* no status was sent, and no rank receives the rest */
    return join_within(join, COSCHED_JOIN_LAST_MS);
}

/* Each rank learns how many status bytes were sent to it in all, and receives the rest. Returns
 * whether it has them. */
static int receive_the_rest(struct cosched_join *join, struct cosched_join_limit *limit) {
    struct cosched_wait wait = {0};
    int received;
    if (join->mpi->sum_sent(join->shim, &join->due) != 0 || !cosched_join_completes(join, limit))
        return 0;
    while ((received = join->mpi->receive(join->shim)) >= 0 && received < join->due) {
        if (cosched_join_limit_is_over(limit))
            return 0;
        pass_time(join, &wait);
    }
    return received >= 0;
}

void cosched_join_close(struct cosched_join *join, struct cosched_join_limit *limit) {
    if (join->stage == COSCHED_JOIN_INSIDE &&
        (!join->equipped || receive_the_rest(join, limit)))
        (void)join->mpi->leave(join->shim);
    join->stage = COSCHED_JOIN_OUTSIDE;
}
