/*
 * A program may ask for the library of MPI_Init, to open it again with RTLD_GLOBAL: its later
 * modules are not linked with MPI. The address of MPI_Init is in the shim, so dladdr is
 * exported here. For an MPI call of the shim it returns the library that has the call, as
 * without the shim. For all other addresses it is that of the C library.
 */
#define _GNU_SOURCE
#include "base/library.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

/* The nth loaded object. */
struct object {
    int wanted;
    int seen;
    char path[4096];
};

static int pick_object(struct dl_phdr_info *info, size_t size, void *argument) {
    struct object *object = argument;
    (void)size;
    if (object->seen++ != object->wanted)
        return 0;
    snprintf(object->path, sizeof object->path, "%s", info->dlpi_name);
    return 1;
}

/* The preloaded shim comes first in the global scope, so RTLD_NEXT finds a library in that scope.
 * Otherwise it tries each loaded object, one at a time: dlopen must not be called from inside the
 * iteration. */
void *cosched_library_with(const char *symbol) {
    static const char own = 0;
    struct object object = {0};
    if (dlsym(RTLD_NEXT, symbol) != NULL)
        return RTLD_NEXT;
    for (;; object.wanted++) {
        object.seen = 0;
        if (dl_iterate_phdr(pick_object, &object) == 0)
            return NULL;
        if (object.path[0] == '\0')
            continue; /* the executable: it is in the global scope */
        void *handle = dlopen(object.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
        if (handle == NULL)
            continue;
        void *found = dlsym(handle, symbol);
        if (found != NULL && !cosched_library_has_both(found, &own))
            return handle;
        dlclose(handle);
    }
}

bool cosched_library_of(const void *address, Dl_info *where) {
    static int (*real)(const void *address, Dl_info *where);
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "dladdr");
        memcpy(&real, &found, sizeof found);
    }
    return real != NULL && real(address, where) != 0;
}

bool cosched_library_has_both(const void *one, const void *other) {
    Dl_info its, others;
    return cosched_library_of(one, &its) && cosched_library_of(other, &others) &&
           its.dli_fbase == others.dli_fbase;
}

static bool is_call(const char *name) {
    return name != NULL && (strncmp(name, "MPI", 3) == 0 || strncmp(name, "PMPI", 4) == 0);
}

__attribute__((visibility("default"))) int dladdr(const void *address, Dl_info *where) {
    static const char own = 0;
    if (!cosched_library_of(address, where))
        return 0;
    if (!is_call(where->dli_sname) || !cosched_library_has_both(address, &own))
        return 1;
    void *library = cosched_library_with(where->dli_sname);
    const void *behind = library == NULL ? NULL : dlsym(library, where->dli_sname);
    Dl_info found;
    if (behind != NULL && cosched_library_of(behind, &found))
        *where = found;
    return 1;
}
