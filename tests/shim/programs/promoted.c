/*
 * promoted - loads MPI as Python extensions do. The program opens a module RTLD_LOCAL. The module is
 * linked with MPI; it opens the library of MPI_Init again with RTLD_GLOBAL, so that a later module
 * without MPI finds its calls.
 *
 *   promoted MODULE LATE    -DMODULE, -DLATE make these two
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#if defined(LATE)
int rank_of_world(void) {
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}
#elif defined(MODULE)
int run(const char *late_path) {
    Dl_info where;
    int rank = -1;
    if (dladdr(dlsym(RTLD_DEFAULT, "MPI_Init"), &where) == 0 ||
        dlopen(where.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) == NULL)
        return 2;
    void *late = dlopen(late_path, RTLD_NOW | RTLD_LOCAL);
    if (late == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    int (*rank_of_world)(void) = (int (*)(void))dlsym(late, "rank_of_world");
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("%s\n", rank_of_world() == rank ? "found" : "lost");
    return MPI_Finalize();
}
#else
int main(int argc, char **argv) {
    void *module = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (module == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return ((int (*)(const char *))dlsym(module, "run"))(argv[2]);
}
#endif
