#include "wait/wait.h"

#include "status/shadow.h"
#include "wait/idle.h"

bool cosched_wait_turn(struct cosched_wait *wait) {
    return cosched_waiting_turn(&cosched_shim.link, &cosched_shim.wait, wait) != 0;
}

void cosched_wait_end(struct cosched_wait *wait) {
    uint64_t now = cosched_waiting_end(&cosched_shim.link, wait);
    if (now != 0)
        cosched_shadow_waited(now);
}

int cosched_wait_request(MPI_Request *request, MPI_Status *status) {
    struct cosched_wait wait = {0};
    int rc, flag = 0;
    if (!cosched_shim_waits(COSCHED_IDLES_MOSTLY))
        COSCHED_LIBRARY_WAITS(rc, cosched_pmpi.Wait(request, status));
    else {
        for (;;) {
            rc = cosched_pmpi.Test(request, &flag, status);
            if (rc != MPI_SUCCESS || flag)
                break;
            cosched_wait_turn(&wait);
        }
        cosched_wait_end(&wait);
    }
    return rc;
}
