/*
 * wait.h - what a task does between two tests that found nothing.
 *
 * The library's blocking calls spin. An unscheduled task sleeps for a moment instead
 * (cosched/waiting.h): it leaves the CPU to the scheduled job, and looks for messages a thousand
 * times a second. A scheduled task spins as the library would. With COSCHED_WAIT it yields, or
 * spins for a while and then sleeps, to leave the CPU to other processes. A busy task spins
 * whether it is scheduled or not.
 *
 * Most libraries let the shim act between two tests of their own (idle.h). With the others
 * the shim makes a blocking call from its non-blocking form and a loop of tests.
 */
#ifndef COSCHED_WAIT_H
#define COSCHED_WAIT_H

#include "base/state.h"

/* Passes the time after a test that found nothing. Returns whether it gave up the CPU. */
bool cosched_wait_pause(struct cosched_wait *wait);

/* Counts the time that passed. Call it after the last test. */
void cosched_wait_end(struct cosched_wait *wait);

/* Sets what is called with CLOCK_MONOTONIC after each wait of some microseconds, and after some
 * calls that did not wait. NULL: nothing. */
void cosched_wait_set_hook(void (*hook)(uint64_t now_ns));

/* Calls the hook, if there is one. */
void cosched_wait_call_hook(void);

#endif
