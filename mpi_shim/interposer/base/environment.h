/*
 * environment.h - what the variables that cosched-run sets say to a process of a job.
 */
#ifndef COSCHED_ENVIRONMENT_H
#define COSCHED_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cosched/task.h"

enum { COSCHED_SOCKET_PATH_BYTES = 512 };

bool cosched_environment_has(const char *name);

/* What follows `head` in `text`, if it is a number to its end. */
bool cosched_environment_number(const char *text, const char *head, uint64_t *number);

/* The node's name, as its daemons have it. Not to be called by two threads at once. */
const char *cosched_environment_node(void);

extern const char *const cosched_carrier_names[COSCHED_CARRIER_SHADOW + 1];

/* NONE also for one that does not exist. */
enum cosched_carrier cosched_environment_carrier(void);

/* The job, its carrier, and what it says of its memory and its submission; whose part of it
 * this process is, the caller says. `path` becomes the registration socket's. -ENAMETOOLONG if it has no
 * room there. */
int cosched_environment_part(struct cosched_part *part, char path[COSCHED_SOCKET_PATH_BYTES]);

#endif
