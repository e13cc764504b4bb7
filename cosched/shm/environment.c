#define _GNU_SOURCE
#include "cosched/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "cosched/rundir.h"

static const char *const carriers[] = {
    [COSCHED_CARRIER_NONE] = "none",
    [COSCHED_CARRIER_PREFIX] = "prefix",
    [COSCHED_CARRIER_SHADOW] = "shadow",
};

_Static_assert(sizeof carriers / sizeof *carriers == COSCHED_CARRIER_SHADOW + 1, "one name each");

/* NULL if the variable is unset or empty. */
static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static void warn(struct cosched_environment *environment, const char *variable, const char *value,
                 const char *problem) {
    if (environment->warning_count < COSCHED_WARNINGS_MAX)
        snprintf(environment->warnings[environment->warning_count++], COSCHED_WARNING_BYTES,
                 "%s=%.96s %s", variable, value, problem);
}

int cosched_environment_number(const char *text, uint64_t *number) {
    uint64_t value = 0;
    if (*text == '\0')
        return -EINVAL;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -EINVAL;
    }
    *number = value;
    return 0;
}

const char *cosched_environment_carrier_name(uint32_t carrier) {
    return carrier <= COSCHED_CARRIER_SHADOW ? carriers[carrier] : "unknown";
}

static uint32_t read_carrier(struct cosched_environment *environment) {
    const char *value = value_of("COSCHED_STATUS");
    if (value == NULL)
        return COSCHED_CARRIER_NONE;
    for (uint32_t i = 0; i <= COSCHED_CARRIER_SHADOW; i++)
        if (strcmp(value, carriers[i]) == 0)
            return i;
    warn(environment, "COSCHED_STATUS", value, "is not prefix, shadow or none: none is used");
    return COSCHED_CARRIER_NONE;
}

/* Whether `text` is `head` and then a number. */
static int is_time(const char *text, const char *head, uint64_t *ns) {
    size_t length = strlen(head);
    return strncmp(text, head, length) == 0 && cosched_environment_number(text + length, ns) == 0;
}

static struct cosched_wait_policy read_wait(struct cosched_environment *environment) {
    struct cosched_wait_policy wait = {.kind = COSCHED_WAIT_SPIN};
    const char *value = value_of("COSCHED_WAIT");
    if (value == NULL || strcmp(value, "spin") == 0)
        return wait;
    if (strcmp(value, "yield") == 0)
        wait.kind = COSCHED_WAIT_YIELD;
    else if (strcmp(value, "busy") == 0)
        wait.kind = COSCHED_WAIT_BUSY;
    else if (is_time(value, "block:", &wait.spin_ns))
        wait.kind = COSCHED_WAIT_BLOCK;
    else if (is_time(value, "auto:", &wait.spin_ns))
        wait.kind = COSCHED_WAIT_AUTO;
    else
        warn(environment, "COSCHED_WAIT", value,
             "is not spin, yield, busy, block:NANOSECONDS or auto:NANOSECONDS: spin is used");
    return wait;
}

static uint32_t read_collectives(struct cosched_environment *environment) {
    const char *value = value_of("COSCHED_COLLECTIVES");
    if (value == NULL || strcmp(value, "blocking") == 0)
        return 0;
    if (strcmp(value, "nonblocking") == 0)
        return 1;
    warn(environment, "COSCHED_COLLECTIVES", value,
         "is neither blocking nor nonblocking: blocking is used");
    return 0;
}

static uint32_t read_require(struct cosched_environment *environment) {
    const char *value = value_of("COSCHED_REQUIRE");
    if (value == NULL || strcmp(value, "any") == 0)
        return COSCHED_REQUIRE_ANY;
    if (strcmp(value, "all") == 0)
        return COSCHED_REQUIRE_ALL;
    if (strcmp(value, "none") == 0)
        return COSCHED_REQUIRE_NONE;
    warn(environment, "COSCHED_REQUIRE", value, "is not any, all or none: any is used");
    return COSCHED_REQUIRE_ANY;
}

static uint32_t read_join(struct cosched_environment *environment) {
    const char *value = value_of("COSCHED_JOIN");
    if (value == NULL || strcmp(value, "probably") == 0)
        return COSCHED_SHIMMED_PROBABLY;
    if (strcmp(value, "surely") == 0)
        return COSCHED_SHIMMED_SURELY;
    if (strcmp(value, "perhaps") == 0)
        return COSCHED_SHIMMED_PERHAPS;
    warn(environment, "COSCHED_JOIN", value,
         "is not probably, surely or perhaps: probably is used");
    return COSCHED_SHIMMED_PROBABLY;
}

/* 0 if the variable is unset or has no such number. */
static uint64_t read_number(struct cosched_environment *environment, const char *variable,
                            const char *problem) {
    const char *value = value_of(variable);
    uint64_t number = 0;
    if (value != NULL && cosched_environment_number(value, &number) != 0)
        warn(environment, variable, value, problem);
    return number;
}

/* Reads a number up to `end` or the end of the text, and moves `text` behind it. */
static int next_number(const char **text, char end, uint64_t *number) {
    char digits[24];
    size_t length = strcspn(*text, (char[]){end, '\0'});
    if (length >= sizeof digits)
        return -EINVAL;
    memcpy(digits, *text, length);
    digits[length] = '\0';
    *text += length;
    if (**text == end)
        (*text)++;
    return cosched_environment_number(digits, number);
}

static int parse_expectation(const char *text, struct cosched_expectation *expectation) {
    if (strchr(text, ':') == NULL || next_number(&text, ':', &expectation->kind) != 0)
        return -EINVAL;
    for (int i = 0; *text != '\0'; i++)
        if (i == COSCHED_LENGTHS_MAX || next_number(&text, ',', &expectation->lengths_ns[i]) != 0)
            return -EINVAL;
    return 0;
}

static struct cosched_expectation read_expectation(struct cosched_environment *environment) {
    struct cosched_expectation expectation = {0};
    const char *value = value_of("COSCHED_EXPECTED");
    if (value == NULL || parse_expectation(value, &expectation) == 0)
        return expectation;
    warn(environment, "COSCHED_EXPECTED", value,
         "is not KIND:NANOSECONDS,... with at most 8 times: it is ignored");
    return (struct cosched_expectation){0};
}

static const struct {
    const char *name;
    uint32_t bit;
} resources[] = {
    {"cpu", COSCHED_LIMITED_BY_CPU},
    {"memory", COSCHED_LIMITED_BY_MEMORY},
    {"io", COSCHED_LIMITED_BY_IO},
    {"network", COSCHED_LIMITED_BY_NETWORK},
};

/* 0: there is no such resource. */
static uint32_t resource_of(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++)
        if (strlen(resources[i].name) == length && memcmp(text, resources[i].name, length) == 0)
            return resources[i].bit;
    return 0;
}

static uint32_t read_limits(struct cosched_environment *environment) {
    const char *value = value_of("COSCHED_LIMITED_BY"), *text = value;
    uint32_t limits = 0;
    while (text != NULL) {
        const size_t length = strcspn(text, ",");
        const uint32_t bit = resource_of(text, length);
        if (bit == 0) {
            warn(environment, "COSCHED_LIMITED_BY", value,
                 "is not a list of cpu, memory, io and network: it is ignored");
            return 0;
        }
        limits |= bit;
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return limits;
}

static void read_node(char node[COSCHED_NODE_BYTES]) {
    struct utsname host;
    const char *name = value_of("COSCHED_NODE");
    if (name == NULL)
        name = uname(&host) == 0 ? host.nodename : "localhost";
    snprintf(node, COSCHED_NODE_BYTES, "%s", name);
}

void cosched_environment_read(struct cosched_environment *environment) {
    const char *run_dir = value_of("COSCHED_RUN_DIR");
    char found[COSCHED_RUNDIR_BYTES];
    const char *verbose = value_of("COSCHED_VERBOSE");
    memset(environment, 0, sizeof *environment);
    environment->verbose = verbose != NULL && strcmp(verbose, "1") == 0;
    environment->wait = read_wait(environment);
    environment->nonblocking_collectives = read_collectives(environment);
    environment->task.job = value_of("COSCHED_JOB");
    environment->task.carrier = read_carrier(environment);
    environment->task.busy = environment->wait.kind == COSCHED_WAIT_BUSY;
    environment->task.memory_bytes = read_number(
        environment, "COSCHED_MEMORY", "is not a number of bytes below 2^64: it is ignored");
    environment->task.submitted_ns =
        read_number(environment, "COSCHED_SUBMITTED",
                    "is not a number of nanoseconds below 2^64: it is ignored");
    environment->task.expectation = read_expectation(environment);
    environment->task.limited_by = read_limits(environment);
    environment->requirement = read_require(environment);
    environment->shimmed = read_join(environment);
    read_node(environment->node);
    if (run_dir == NULL) {
        cosched_rundir_find(found, environment->node);
        run_dir = found;
    }
    snprintf(environment->socket_path, sizeof environment->socket_path, "%s/%s/register.sock",
             run_dir, environment->node);
}

int cosched_environment_takes_part(const struct cosched_environment *environment) {
    const uint32_t kind = environment->wait.kind;
    return environment->task.job != NULL ||
           (kind != COSCHED_WAIT_SPIN && kind != COSCHED_WAIT_BUSY);
}
