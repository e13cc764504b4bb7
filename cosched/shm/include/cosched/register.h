/*
 * cosched/register.h - CMDREG: what a process and the scheduler daemon say to each other over
 * the registration socket. Used by cosched_attach (task.h), which maps what it gets.
 */
#ifndef COSCHED_REGISTER_H
#define COSCHED_REGISTER_H

#include <stdint.h>

#include "layout.h"

struct cosched_registration;

/* What a registered task got; the descriptors are the caller's to close. */
struct cosched_admission {
    int region;
    int bell;
    uint32_t slot;
    uint64_t region_bytes;
};

/* Registers this process as `task`. 0 or -errno, with one line in `reason`, which may be
 * empty; see cosched_attach for how long it may take. */
int cosched_register(struct cosched_admission *admission, const char *socket_path,
                     const struct cosched_registration *task, int timeout_ms, char reason[128]);

#endif
