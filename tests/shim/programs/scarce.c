/*
 * scarce.c - preloaded: in the process with COSCHED_NODE=b, which is rank 1 of two
 * (jobs.py), the shim asks for memory and gets none; everybody else does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);

static bool is_refused(const void *caller) {
    const char *node = getenv("COSCHED_NODE");
    Dl_info where;
    return node != NULL && strcmp(node, "b") == 0 && dladdr(caller, &where) != 0 &&
           where.dli_fname != NULL && strstr(where.dli_fname, "libcosched_mpi") != NULL;
}

void *malloc(size_t bytes) {
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}
