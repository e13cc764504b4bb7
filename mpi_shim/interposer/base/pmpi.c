#define _GNU_SOURCE
#include "base/pmpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/handles.h"
#include "base/library.h"

#define REMEMBERED_BITS 6

struct cosched_pmpi cosched_pmpi;
const char *cosched_pmpi_bypassed;

#ifdef OPEN_MPI
struct cosched_pmpi_objects cosched_pmpi_objects;
bool (*cosched_pmpi_yield_when_idle)(bool yields);
#define FAMILY "Open MPI"
#elif defined(MPI_ABI_VERSION)
#define FAMILY "the MPI standard ABI"
#else
#define FAMILY "MPICH"
#endif

/* The library's own code, to recognize its internal calls. */
static struct {
    uintptr_t from;
    uintptr_t to;
} text;

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static const char *path_of(const void *code) {
    Dl_info where;
    return cosched_library_of(code, &where) && where.dli_fname != NULL ? where.dli_fname
                                                                       : "the MPI library";
}

static const char *family_of(void *library, const char *path) {
    if (dlsym(library, "ompi_mpi_comm_world") != NULL)
        return "Open MPI";
    if (strncmp(base_name(path), "libmpi_abi", 10) == 0)
        return "the MPI standard ABI";
    return "MPICH";
}

static int find_text(struct dl_phdr_info *info, size_t size, void *argument) {
    const uintptr_t inside = (uintptr_t)argument;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && inside >= from && inside < from + part->p_memsz) {
            text.from = from;
            text.to = from + part->p_memsz;
            return 1;
        }
    }
    return 0;
}

/* Fills the tables, with NULL for each missing symbol. Returns the first of those, or NULL. */
static const char *fill(void *library) {
    const char *missing = NULL;
#define FIND(member, symbol)                                                                       \
    do {                                                                                           \
        void *found = dlsym(library, symbol);                                                      \
        if (found == NULL && missing == NULL)                                                      \
            missing = symbol;                                                                      \
        memcpy(&cosched_pmpi.member, &found, sizeof found);                                        \
    } while (0);
#define ONE_FIND(name) FIND(name, "PMPI_" #name)
#define EACH_CALL ONE_FIND
#include "base/each_call.h"
#define ONE(name) ONE_FIND(name)
    COSCHED_PMPI_OTHERS(ONE)
#undef ONE
#if MPI_VERSION >= 4
    ONE_FIND(Type_create_struct_c)
    ONE_FIND(Pack_c)
    ONE_FIND(Unpack_c)
#endif
#if COSCHED_MPI_HAS_MPIX
    FIND(Stream_comm_create, "PMPIX_Stream_comm_create")
    FIND(Stream_comm_create_multiplex, "PMPIX_Stream_comm_create_multiplex")
    FIND(Threadcomm_init, "PMPIX_Threadcomm_init")
#endif
#if COSCHED_MPI_HAS_IS_COMPLETE
    FIND(Request_is_complete, "PMPIX_Request_is_complete")
#endif
#ifdef OPEN_MPI
    /* The global scope comes first: an executable may hold the one copy of an object to which
     * all, also the library, are bound. */
#define ONE(name)                                                                                  \
    cosched_pmpi_objects.name = dlsym(RTLD_DEFAULT, #name);                                        \
    if (cosched_pmpi_objects.name == NULL)                                                         \
        cosched_pmpi_objects.name = dlsym(library, #name);                                         \
    if (cosched_pmpi_objects.name == NULL && missing == NULL)                                      \
        missing = #name;
    COSCHED_PMPI_OBJECTS(ONE)
#undef ONE
    void *yields = dlsym(library, "opal_progress_set_yield_when_idle");
    memcpy(&cosched_pmpi_yield_when_idle, &yields, sizeof yields);
#endif
    return missing;
}

/* Returns the path of a profiling tool, or NULL. A tool has some of the MPI_x calls. Where MPI_x
 * and PMPI_x are two libraries of one MPI, the first one has also calls that no tool has. */
static const char *find_tool(void *library, const void *init) {
    void *outer = dlsym(library, "MPI_Init");
    void *never_a_tools = dlsym(library, "MPI_T_init_thread");
    if (outer == NULL || never_a_tools == NULL || cosched_library_has_both(outer, init) ||
        cosched_library_has_both(outer, never_a_tools))
        return NULL;
    return path_of(outer);
}

int cosched_pmpi_load(char *why, unsigned long size) {
    const char *path, *family, *missing;
    void *library = cosched_library_with("PMPI_Init");
    /* A serial stand-in for MPI may have PMPI_Init, but no attributes. */
    if (library == NULL || dlsym(library, "PMPI_Comm_create_keyval") == NULL) {
        snprintf(why, size, "no MPI library is loaded");
        return -ENOENT;
    }
    void *init = dlsym(library, "PMPI_Init");
    path = path_of(init);
    family = family_of(library, path);
    if (strcmp(family, FAMILY) != 0) {
        snprintf(why, size, "built for " FAMILY ", but the program uses %s (%s)", family, path);
        return -ENOEXEC;
    }
    dl_iterate_phdr(find_text, init);
    missing = fill(library);
    if (missing != NULL) {
        snprintf(why, size, "%s has no %s: cosched's interposer was built for another version",
                 path, missing);
        return -ENOSYS;
    }
    cosched_pmpi_bypassed = find_tool(library, init);
    return 0;
}

bool cosched_pmpi_contains(const void *code) {
    Dl_info where;
    const char *name;
    if ((uintptr_t)code >= text.from && (uintptr_t)code < text.to)
        return true;
    if (!cosched_library_of(code, &where) || where.dli_fname == NULL)
        return false;
    name = base_name(where.dli_fname);
    return strncmp(name, "mca_", 4) == 0 || strncmp(name, "libmca_", 7) == 0 ||
           strncmp(name, "libopen-pal.", 12) == 0;
}

bool cosched_pmpi_called_from(const void *caller) {
    static _Thread_local struct {
        const void *caller;
        bool verdict;
    } known[1 << REMEMBERED_BITS];
    unsigned slot = cosched_handles_hash((uintptr_t)caller, REMEMBERED_BITS);
    if (known[slot].caller != caller) {
        known[slot].caller = caller;
        known[slot].verdict = cosched_pmpi_contains(caller);
    }
    return known[slot].verdict;
}
