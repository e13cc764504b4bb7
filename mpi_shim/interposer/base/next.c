#define _GNU_SOURCE
#include "base/next.h"

#include <dlfcn.h>
#include <string.h>

#include "base/library.h"
#include "base/report.h"

struct cosched_pmpi cosched_next_mpi;
struct cosched_pmpi cosched_next_pmpi;

/* The process is alone: there is no rank that a call could reach or wait for. */
static int do_nothing(void) {
    static bool is_reported;
    if (!__atomic_exchange_n(&is_reported, true, __ATOMIC_RELAXED))
        cosched_report_warn("this process has no MPI library, so its MPI calls do nothing");
    return MPI_SUCCESS;
}

static void find(void *library, const char *symbol, void *pointer) {
    int (*nothing)(void) = do_nothing;
    void *found = dlsym(RTLD_NEXT, symbol);
    if (found == NULL && library != NULL)
        found = dlsym(library, symbol);
    if (found != NULL)
        memcpy(pointer, &found, sizeof found);
    else
        memcpy(pointer, &nothing, sizeof nothing);
}

void cosched_next_find(void) {
    void *library = cosched_library_with("MPI_Init");
    if (library == RTLD_NEXT)
        library = NULL;
#define EACH_CALL(name)                                                                             \
    find(library, "MPI_" #name, &cosched_next_mpi.name);                                           \
    find(library, "PMPI_" #name, &cosched_next_pmpi.name);
#include "base/each_call.h"
}
