#define _GNU_SOURCE
#include "base/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/state.h"

bool cosched_environment_has(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

bool cosched_environment_number(const char *text, const char *head, uint64_t *number) {
    size_t length = strlen(head);
    char *end = NULL;
    if (strncmp(text, head, length) != 0)
        return false;
    *number = strtoull(text + length, &end, 10);
    return end != text + length && *end == '\0';
}

/* 0 where it does not say. */
static uint64_t declared(const char *variable, const char *unit) {
    const char *text = getenv(variable);
    uint64_t number = 0;
    if (text != NULL && !cosched_environment_number(text, "", &number))
        cosched_shim_say("%s=%s is not a number of %s: it is ignored", variable, text, unit);
    return number;
}

const char *cosched_environment_node(void) {
    static struct utsname host;
    if (cosched_environment_has("COSCHED_NODE"))
        return getenv("COSCHED_NODE");
    return uname(&host) == 0 ? host.nodename : "localhost";
}

const char *const cosched_carrier_names[COSCHED_CARRIER_SHADOW + 1] = {
    [COSCHED_CARRIER_NONE] = "none",
    [COSCHED_CARRIER_PREFIX] = "prefix",
    [COSCHED_CARRIER_SHADOW] = "shadow",
};

enum cosched_carrier cosched_environment_carrier(void) {
    const char *text = getenv("COSCHED_STATUS");
    if (text == NULL || text[0] == '\0')
        return COSCHED_CARRIER_NONE;
    for (int i = 0; i <= COSCHED_CARRIER_SHADOW; i++)
        if (strcmp(text, cosched_carrier_names[i]) == 0)
            return (enum cosched_carrier)i;
    cosched_shim_say("COSCHED_STATUS=%s is not prefix, shadow or none: none is used", text);
    return COSCHED_CARRIER_NONE;
}

int cosched_environment_part(struct cosched_part *part, char path[COSCHED_SOCKET_PATH_BYTES]) {
    bool told = cosched_environment_has("COSCHED_RUN_DIR");
    const char *run_dir = told ? getenv("COSCHED_RUN_DIR") : "/run/cosched";
    int length = snprintf(path, COSCHED_SOCKET_PATH_BYTES, "%s/%s/register.sock", run_dir,
                          cosched_environment_node());
    if (length >= COSCHED_SOCKET_PATH_BYTES)
        return -ENAMETOOLONG;
    *part = (struct cosched_part){.job = getenv("COSCHED_JOB"),
                                  .carrier = cosched_environment_carrier(),
                                  .memory_bytes = declared("COSCHED_MEMORY", "bytes"),
                                  .submitted_ns = declared("COSCHED_SUBMITTED", "nanoseconds")};
    return 0;
}
