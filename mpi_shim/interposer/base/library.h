/*
 * library.h - finds which library of this process has a symbol, and which one has an address.
 */
#ifndef COSCHED_LIBRARY_H
#define COSCHED_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>

/* Returns a handle that finds `symbol` outside of the shim. NULL: no library has it. */
void *cosched_library_with(const char *symbol);

/* Finds the object of an address, as dladdr of the C library does. Returns whether there is one. */
bool cosched_library_of(const void *address, Dl_info *where);

/* Whether both addresses belong to one loaded object. */
bool cosched_library_has_both(const void *one, const void *other);

#endif
