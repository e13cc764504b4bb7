#define _GNU_SOURCE
#include "status/copies.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "status/wire.h"

const struct cosched_copies cosched_copies_safe = {COSCHED_WIRE_ROOM, COSCHED_WIRE_ROOM};

/* Over TCP the send of a long two-part datatype is two to three times a plain one under UCX
 * (it is packed piece by piece), a copy costs a tenth to a third. The receive is better off
 * without a copy: what comes must be taken out of the socket anyhow, and pieces are handed out
 * while later ones travel. docs/measurements.md has the figures. */
static const struct cosched_copies between_nodes = {16 << 20, COSCHED_WIRE_ROOM};

/* Whether a launcher's variables say that all ranks share this node. */
static bool is_single_node(void) {
    static const char *const sizes[][2] = {
        {"MPI_LOCALNRANKS", "PMI_SIZE"},                         /* Hydra */
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},  /* Open MPI's mpirun, PRRTE */
        {"SLURM_NTASKS_PER_NODE", "SLURM_NTASKS"},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *local = getenv(sizes[i][0]), *all = getenv(sizes[i][1]);
        if (local != NULL && all != NULL)
            return strcmp(local, all) == 0;
    }
    return false;
}

#ifdef OPEN_MPI
/* Whether Open MPI's messages go through UCX. It says so nowhere but in the functions of the
 * component that it chose, the first of which is `add_procs` in every version. Open MPI's own
 * ob1 takes a long two-part message as fast as a plain one, everywhere. */
static bool copying_pays(void) {
    void *const *chosen = dlsym(RTLD_DEFAULT, "mca_pml");
    Dl_info where;
    if (chosen == NULL || *chosen == NULL || dladdr(*chosen, &where) == 0)
        return false;
    return (where.dli_sname != NULL && strstr(where.dli_sname, "pml_ucx") != NULL) ||
           (where.dli_fname != NULL && strstr(where.dli_fname, "pml_ucx") != NULL);
}
#else
static bool copying_pays(void) { return true; }
#endif

/* In shared memory every library copies straight from user to user. */
struct cosched_copies cosched_copies_choose(void) {
    return is_single_node() || !copying_pays() ? cosched_copies_safe : between_nodes;
}
