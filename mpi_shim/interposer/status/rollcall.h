/*
 * rollcall.h - the roll call: rank 0 reports the nodes of the job that are not coscheduled
 * (cosched/roll.h), in one line.
 */
#ifndef COSCHED_STATUS_ROLLCALL_H
#define COSCHED_STATUS_ROLLCALL_H

#include <stdint.h>

/* After the registration, or when a task begins to wait for memory: this rank's presence (enum
 * cosched_presence). Collective; a second call does nothing. With COSCHED_REQUIRE=all it ends
 * the job if a node is absent. */
void cosched_roll_call(uint32_t presence);

/* Before the communicator of the shims is freed, collective: the nodes whose daemon has ended
 * since. */
void cosched_roll_close(void);

#endif
