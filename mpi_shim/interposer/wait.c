#define _GNU_SOURCE
#include "wait.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static bool library_yields;

/* MPICH 5 calls sched_yield each time round in MPI_Recv and MPI_Wait (not in MPI_Probe, and
 * not in MPI_Test); MPICH 4.0 never does. Open MPI yields, when it is told to, inside its
 * progress engine, which MPI_Test enters just as well. */
static void ask_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, major = 0;
    cosched_pmpi.Get_library_version(text, &length);
    library_yields = sscanf(text, "MPICH Version: %d", &major) == 1 && major >= 5;
}

void cosched_wait_turn(struct cosched_wait *wait, bool yields) {
    if (!wait->began) {
        wait->began = true;
        pthread_once(&asked, ask_library);
        cosched_shim_count(&cosched_shim.counters->waits, 1);
    }
    if (cosched_linger(&cosched_shim.link, &wait->spell) == 0 && yields && library_yields)
        sched_yield();
}

int cosched_wait_request(MPI_Request *request, MPI_Status *status) {
    struct cosched_wait wait = {0};
    if (!cosched_shim_attached())
        return cosched_pmpi.Wait(request, status);
    for (;;) {
        int flag = 0;
        int rc = cosched_pmpi.Test(request, &flag, status);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        cosched_wait_turn(&wait, true);
    }
}
