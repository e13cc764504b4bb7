/*
 * wait.h - blocking, for a task that may be unscheduled.
 *
 * The library's blocking calls spin. A registered task waits in a loop of its own instead:
 * test, and if there is nothing, either spin on exactly as the library would (scheduled) or
 * sleep for a moment (unscheduled, cosched_pause), which leaves the CPU to the job that is
 * scheduled and looks for messages a thousand times a second. COSCHED_WAIT lets a task that
 * may run yield, or spin for a while and then sleep, for the good of whoever shares its CPU.
 * A task that is not registered and whose COSCHED_WAIT is spin uses the library's own call.
 */
#ifndef COSCHED_WAIT_H
#define COSCHED_WAIT_H

#include "pmpi.h"
#include "shim.h"

/* How a wait has gone so far; zero-initialised. */
struct cosched_wait {
    bool began;
    uint64_t since_ns; /* when its first test failed, where that matters */
    struct cosched_spell spell;
};

/* Passes the time between two tests that found nothing. `yields`: the library's own call
 * would give the processor to whoever wants it, if it is one that does. */
void cosched_wait_turn(struct cosched_wait *wait, bool yields);

/* MPI_Wait on a request that the shim itself made, or that the user waits for. */
int cosched_wait_request(MPI_Request *request, MPI_Status *status);

#endif
