/*
 * scarce.c - preloaded: in the process with COSCHED_NODE=b, which is rank 1 of two (jobs.py), the
 * shim gets no memory; other code does. With SCARCE_FROM the shim gets pieces of fewer bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);

static bool is_refused(const void *caller, size_t bytes) {
    const char *node = getenv("COSCHED_NODE"), *from = getenv("SCARCE_FROM");
    Dl_info where;
    if (from != NULL && bytes < strtoul(from, NULL, 10))
        return false;
    return node != NULL && strcmp(node, "b") == 0 && dladdr(caller, &where) != 0 &&
           where.dli_fname != NULL && strstr(where.dli_fname, "libcosched_mpi") != NULL;
}

void *malloc(size_t bytes) {
    return is_refused(__builtin_return_address(0), bytes) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return is_refused(__builtin_return_address(0), count * bytes) ? NULL
                                                                  : __libc_calloc(count, bytes);
}
