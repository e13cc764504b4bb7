/*
 * faulty.c - preloaded behind the shim, in front of the MPI library: two calls fail in ways
 * that MPI allows.
 *
 * PMPI_Isend    fails once, for the first status byte that the shim sends.
 * PMPI_Testall  keeps all requests if one has failed while another is pending. It returns an
 *               error code of its own, of the class MPI_ERR_IN_STATUS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <string.h>

/* The library's own function, as a local variable of its name. */
#define LIBRARY(name)                                                                              \
    __typeof__(P##name) *name;                                                                     \
    void *found_##name = dlsym(RTLD_NEXT, "P" #name);                                              \
    memcpy(&name, &found_##name, sizeof name)

int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request) {
    static int failures;
    LIBRARY(MPI_Isend);
    if (type == MPI_BYTE && count == 1 && tag == 1 && failures++ == 0)
        return MPI_ERR_OTHER;
    return MPI_Isend(buf, count, type, dest, tag, comm, request);
}

int PMPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    int pending = 0, failed = 0, code = MPI_ERR_OTHER;
    LIBRARY(MPI_Testall);
    LIBRARY(MPI_Request_get_status);
    for (int i = 0; i < count; i++) {
        int complete = 0, rc;
        statuses[i].MPI_ERROR = MPI_SUCCESS;
        rc = MPI_Request_get_status(requests[i], &complete, &statuses[i]);
        if (rc != MPI_SUCCESS)
            statuses[i].MPI_ERROR = rc;
        if (!complete && rc == MPI_SUCCESS)
            statuses[i].MPI_ERROR = MPI_ERR_PENDING;
        pending += statuses[i].MPI_ERROR == MPI_ERR_PENDING;
        failed += statuses[i].MPI_ERROR != MPI_SUCCESS;
    }
    if (pending == 0 || failed == pending)
        return MPI_Testall(count, requests, flag, statuses);
    *flag = 0;
    MPI_Add_error_code(MPI_ERR_IN_STATUS, &code);
    return code;
}
