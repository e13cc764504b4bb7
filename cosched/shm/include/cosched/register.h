/*
 * cosched/register.h - CMDREG: the messages between a process and the scheduler daemon over the
 * registration socket. cosched_attach (task.h) uses it and maps the region.
 */
#ifndef COSCHED_REGISTER_H
#define COSCHED_REGISTER_H

#include <stdint.h>

#include "layout.h"

struct cosched_registration;

/* The result of a registration. The caller closes the descriptors. After an error only
 * `presence` is set (enum cosched_presence). */
struct cosched_admission {
    uint32_t presence;
    int region;
    int bell;
    uint32_t slot;
    uint64_t region_bytes;
};

/* Registers this process as `task`. Returns 0 or -errno with one line in `reason`, which may be
 * empty. cosched_attach describes how long it may take. */
int cosched_register(struct cosched_admission *admission, const char *socket_path,
                     const struct cosched_registration *task, int timeout_ms, char reason[128]);

#endif
