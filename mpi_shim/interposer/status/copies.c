#define _GNU_SOURCE
#include "status/copies.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/pmpi.h"

/* In shared memory every library copies straight from user to user: there, and before
 * MPI_Init has ended, only short messages are copied. */
struct cosched_copies cosched_copies = {COSCHED_COPIES_ROOM, COSCHED_COPIES_ROOM, false};

/* Over TCP under UCX, sending a long datatype of two parts takes two to three times as long as
 * sending a plain one, because UCX packs it piece by piece. A copy costs a tenth to a third.
 * A receive is faster without a copy: the data must be taken out of the socket in any case, and
 * pieces are handed out while later ones travel. docs/dev/measurements.md has the figures. */
static const struct cosched_copies between_nodes = {16 << 20, COSCHED_COPIES_ROOM, false};

/* Whether the launcher's variables show that all ranks share this node. */
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
/* For Open MPI's own ob1, which moves a message of two parts as fast as a plain one. With
 * single copies in shared memory (CMA), ob1 reads a contiguous message of more than 4 KiB,
 * headers included, from the sender in one piece. If the receive buffer is shorter, it overwrites
 * the memory behind it, which is the shim's own if the message is copied. So only messages below
 * that length are copied. docs/families.md shows the error without the shim. */
static const struct cosched_copies with_ob1 = {3968, COSCHED_COPIES_ROOM, true};

/* Whether Open MPI's messages go through UCX. The only sign is the address of the first
 * function of the chosen component, which is `add_procs` in every version. */
static bool uses_ucx(void) {
    void *const *chosen = dlsym(RTLD_DEFAULT, "mca_pml");
    Dl_info where;
    if (chosen == NULL || *chosen == NULL || !cosched_library_of(*chosen, &where))
        return false;
    return (where.dli_sname != NULL && strstr(where.dli_sname, "pml_ucx") != NULL) ||
           (where.dli_fname != NULL && strstr(where.dli_fname, "pml_ucx") != NULL);
}

void cosched_copies_choose(void) {
    if (!uses_ucx())
        cosched_copies = with_ob1;
    else if (!is_single_node())
        cosched_copies = between_nodes;
}
#else
void cosched_copies_choose(void) {
    if (!is_single_node())
        cosched_copies = between_nodes;
}
#endif
