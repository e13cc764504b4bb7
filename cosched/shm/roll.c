#define _GNU_SOURCE
#include "cosched/roll.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A daemon that restarts takes over within this time. */
#define PATIENCE_STEPS 40
#define STEP_NS 50000000
/* How long a launcher may take to read. */
#define READ_STEPS 2000
#define READ_STEP_NS 1000000
#define SHOWN_MAX 8 /* names of nodes in a list */

_Static_assert(sizeof(struct cosched_answer) == 1 + COSCHED_ROLL_NODE_BYTES, "bytes alone");

static const struct {
    uint8_t presence;
    const char *words;
} groups[] = {
    {COSCHED_NO_DAEMON, "no daemon on"},
    {COSCHED_OTHER_VERSION, "a daemon of another version on"},
    {COSCHED_REFUSED, "refused by the daemon on"},
    {COSCHED_LEFT, "the daemon ended on"},
    {COSCHED_CUT, "the job's shared memory was cut on"},
};

struct text {
    char *line;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
    size_t room = COSCHED_ROLL_LINE_BYTES - text->used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->line + text->used, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->used += (size_t)length < room ? (size_t)length : room - 1;
}

void cosched_roll_answer(struct cosched_answer *answer, const char *node, uint32_t presence) {
    memset(answer, 0, sizeof *answer);
    answer->presence = (uint8_t)presence;
    memcpy(answer->node, node, strnlen(node, sizeof answer->node));
}

static int is_same_node(const struct cosched_answer *a, const struct cosched_answer *b) {
    return memcmp(a->node, b->node, sizeof a->node) == 0;
}

/* Whether no answer before this one, with the same presence or with any (0xff), is of its node. */
static int is_first(const struct cosched_answer *answers, uint64_t index, uint8_t presence) {
    for (uint64_t i = 0; i < index; i++)
        if ((presence == UINT8_MAX || answers[i].presence == presence) &&
            is_same_node(&answers[i], &answers[index]))
            return 0;
    return 1;
}

static uint64_t count_nodes(const struct cosched_answer *answers, uint64_t count) {
    uint64_t nodes = 0;
    for (uint64_t i = 0; i < count; i++)
        nodes += (uint64_t)is_first(answers, i, UINT8_MAX);
    return nodes;
}

/* Counts the nodes of which a rank is not present: each at its first such rank. */
static uint64_t count_absent(const struct cosched_answer *answers, uint64_t count) {
    uint64_t nodes = 0;
    for (uint64_t i = 0; i < count; i++) {
        int first = answers[i].presence != COSCHED_PRESENT;
        for (uint64_t j = 0; first && j < i; j++)
            first = answers[j].presence == COSCHED_PRESENT ||
                    !is_same_node(&answers[j], &answers[i]);
        nodes += (uint64_t)first;
    }
    return nodes;
}

/* Whether the presence has changed since the first roll call. */
static int is_loss(uint32_t presence) {
    return presence == COSCHED_LEFT || presence == COSCHED_CUT;
}

static int has_loss(const struct cosched_answer *answers, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (is_loss(answers[i].presence))
            return 1;
    return 0;
}

static void add_group(struct text *text, const struct cosched_answer *answers, uint64_t count,
                      uint8_t presence, const char *words) {
    uint64_t names = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (answers[i].presence != presence || !is_first(answers, i, presence))
            continue;
        if (names == 0)
            add(text, "; %s ", words);
        if (names < SHOWN_MAX)
            add(text, "%s%.*s", names == 0 ? "" : ", ", COSCHED_ROLL_NODE_BYTES, answers[i].node);
        names++;
    }
    if (names > SHOWN_MAX)
        add(text, " and %llu more", (unsigned long long)(names - SHOWN_MAX));
}

void cosched_roll_line(char line[512], const struct cosched_answer *answers, uint64_t count) {
    struct text text = {.line = line};
    uint64_t nodes = count_nodes(answers, count);
    uint64_t present = nodes - count_absent(answers, count);
    line[0] = '\0';
    if (present == 0)
        add(&text, "not coscheduled");
    else
        add(&text, "coscheduled on %llu of %llu node%s", (unsigned long long)present,
            (unsigned long long)nodes, nodes == 1 ? "" : "s");
    if (has_loss(answers, count))
        add(&text, " to the end");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        add_group(&text, answers, count, groups[i].presence, groups[i].words);
}

/* Returns the presence of a task that is about to end: that of its link, or why it has lost the
 * daemon since. */
static uint32_t presence_at_end(const struct cosched_link *link) {
    const struct timespec step = {.tv_nsec = STEP_NS};
    if (link->presence != COSCHED_PRESENT)
        return link->presence;
    if (cosched_link_region(link) == NULL)
        return COSCHED_CUT;
    for (int i = 0; i < PATIENCE_STEPS; i++) {
        if (cosched_is_attended(link))
            return COSCHED_PRESENT;
        (void)nanosleep(&step, NULL);
    }
    return COSCHED_LEFT;
}

static int is_unread(int descriptor) {
    struct stat about;
    int unread = 0;
    return fstat(descriptor, &about) == 0 && S_ISFIFO(about.st_mode) &&
           ioctl(descriptor, FIONREAD, &unread) == 0 && unread > 0;
}

void cosched_roll_await_reader(int descriptor) {
    const struct timespec step = {.tv_nsec = READ_STEP_NS};
    for (int i = 0; i < READ_STEPS && is_unread(descriptor); i++)
        (void)nanosleep(&step, NULL);
}

static void begin(struct cosched_roll_call *call, const struct cosched_join *join,
                  uint32_t presence, int absent) {
    cosched_roll_answer(&call->own, join->environment->node, presence);
    call->vote = absent ? COSCHED_VOTE_GATHER : COSCHED_VOTE_PRESENT;
    call->stage = COSCHED_ROLL_OVER;
    if (join->stage != COSCHED_JOIN_INSIDE)
        return;
    if (join->rank == 0) {
        call->answers = calloc((size_t)join->world, sizeof *call->answers);
        if (call->answers == NULL)
            call->vote = COSCHED_VOTE_SILENT;
    }
    if (join->mpi->find_least(join->shim, &call->vote) == 0)
        call->stage = COSCHED_ROLL_VOTING;
}

/* The other nodes' reasons do not travel; each of their tasks reports its own with -v. */
static void add_own_reason(char line[512], const struct cosched_roll_call *call,
                           const struct cosched_join *join) {
    struct text text = {.line = line, .used = strlen(line)};
    if (call->own.presence == COSCHED_REFUSED && join->link->reason[0] != '\0')
        add(&text, " (%s)", join->link->reason);
}

/* At rank 0. Without the answers of the others: about its own node. */
static void report(const struct cosched_roll_call *call, const struct cosched_join *join) {
    char line[COSCHED_ROLL_LINE_BYTES];
    if (call->vote != COSCHED_VOTE_GATHER || join->rank != 0 ||
        join->environment->requirement == COSCHED_REQUIRE_NONE)
        return;
    if (call->answers != NULL)
        cosched_roll_line(line, call->answers, (uint64_t)join->world);
    else
        cosched_roll_line(line, &call->own, 1);
    add_own_reason(line, call, join);
    (void)join->mpi->print(join->shim, COSCHED_LINE_JOB, line);
}

/* Returns whether the call is over within the limit. Rank 0 reports at its end. */
static int advance(struct cosched_roll_call *call, const struct cosched_join *join,
                   struct cosched_join_limit *limit) {
    if (call->stage == COSCHED_ROLL_VOTING && cosched_join_completes(join, limit))
        call->stage = call->vote == COSCHED_VOTE_GATHER &&
                              join->mpi->gather(join->shim, &call->own, call->answers,
                                                (int32_t)sizeof call->own) == 0
                          ? COSCHED_ROLL_GATHERING
                          : COSCHED_ROLL_OVER;
    if (call->stage == COSCHED_ROLL_GATHERING && cosched_join_completes(join, limit))
        call->stage = COSCHED_ROLL_OVER;
    if (call->stage != COSCHED_ROLL_OVER)
        return 0;
    report(call, join);
    free(call->answers);
    call->answers = NULL;
    return 1;
}

/* The job must not run. One rank ends it; the others wait for that end. */
static void end_job(const struct cosched_join *join) {
    struct cosched_join_limit limit;
    cosched_join_limit_start(&limit, UINT64_MAX);
    if (join->stage == COSCHED_JOIN_INSIDE && join->rank != 0 &&
        join->mpi->meet(join->shim) == 0)
        (void)cosched_join_completes(join, &limit);
    (void)join->mpi->print(join->shim, COSCHED_LINE_WARNING,
                           "the job needs a daemon on each of its nodes (COSCHED_REQUIRE=all)");
    cosched_roll_await_reader(STDERR_FILENO);
    if (join->mpi->end_job(join->shim) != 0)
        return;
    for (unsigned left_s = COSCHED_ROLL_END_S; left_s > 0;)
        left_s = sleep(left_s);
}

void cosched_roll_call(struct cosched_roll *roll, uint32_t presence) {
    const struct cosched_join *join = roll->join;
    const int needs_all = join->environment->requirement == COSCHED_REQUIRE_ALL;
    struct cosched_join_limit limit;
    if (roll->at_start.stage != COSCHED_ROLL_NOT_YET)
        return;
    begin(&roll->at_start, join, presence, presence != COSCHED_PRESENT);
    /* All ranks that have joined take part, so a job that needs the answer waits for it. */
    cosched_join_limit_start(&limit, needs_all ? UINT64_MAX : join->patience_ms);
    if (advance(&roll->at_start, join, &limit) && needs_all &&
        roll->at_start.vote == COSCHED_VOTE_GATHER)
        end_job(join);
}

/* Returns whether both roll calls are over within the limit. */
static int call_at_end(struct cosched_roll *roll, struct cosched_join_limit *limit) {
    const struct cosched_join *join = roll->join;
    uint32_t presence = presence_at_end(join->link);
    if (roll->at_start.stage == COSCHED_ROLL_NOT_YET) /* it joined late */
        begin(&roll->at_start, join, presence, presence != COSCHED_PRESENT);
    if (roll->at_start.stage != COSCHED_ROLL_OVER && !advance(&roll->at_start, join, limit))
        return 0;
    begin(&roll->at_end, join, presence, is_loss(presence));
    return advance(&roll->at_end, join, limit);
}

void cosched_roll_close(struct cosched_roll *roll, uint64_t limit_ms) {
    struct cosched_join_limit limit;
    cosched_join_limit_start(&limit, limit_ms);
    if (!cosched_join_stop(roll->join) || call_at_end(roll, &limit))
        cosched_join_close(roll->join, &limit);
}
