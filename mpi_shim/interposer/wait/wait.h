/*
 * wait.h - blocking, for a task that may be unscheduled.
 *
 * The library's blocking calls spin. What a task of cosched does between two tests that
 * found nothing is decided here: spin on exactly as the library would (scheduled), or sleep
 * for a moment (unscheduled, cosched/waiting.h), which leaves the CPU to the job that is
 * scheduled and looks for messages a thousand times a second. COSCHED_WAIT lets a task that
 * may run yield, or spin for a while and then sleep, for the good of whoever shares its CPU.
 *
 * Most libraries let the shim in between two tests of their own (idle.h). Where one does
 * not, the shim makes the blocking call of its non-blocking form and a loop of tests.
 */
#ifndef COSCHED_WAIT_H
#define COSCHED_WAIT_H

#include "base/pmpi.h"
#include "base/state.h"

/* Passes the time between two tests that found nothing. False: by no more than looking at
 * what there is to do. */
bool cosched_wait_turn(struct cosched_wait *wait);

/* After the last test: accounts for the time that passed. */
void cosched_wait_end(struct cosched_wait *wait);

/* MPI_Wait on a request that the shim itself made, or that the user waits for. */
int cosched_wait_request(MPI_Request *request, MPI_Status *status);

#endif
