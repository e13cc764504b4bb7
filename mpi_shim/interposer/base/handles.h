/*
 * handles.h - finds entries by the handle of an MPI object or an address, in a hash table.
 *
 * An entry is the first member of a larger struct, which its owner allocates and frees. A
 * handle may be in the table more than once.
 */
#ifndef COSCHED_HANDLES_H
#define COSCHED_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

#define COSCHED_HANDLES_BITS 10

struct cosched_entry {
    struct cosched_entry *next;
    uintptr_t handle;
};

struct cosched_handles {
    struct cosched_lock lock;
    long size;
    struct cosched_entry *buckets[1 << COSCHED_HANDLES_BITS];
};

/* A number of so many bits for a handle, by Fibonacci hashing: also for caches. */
static inline unsigned cosched_handles_hash(uintptr_t handle, unsigned bits) {
    return (unsigned)(((uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits));
}

/* Whether a look-up can be saved. */
static inline bool cosched_handles_is_empty(const struct cosched_handles *table) {
    return __atomic_load_n(&table->size, __ATOMIC_ACQUIRE) == 0;
}

/* These three are called under the table's lock: puts the entry in; takes it out; returns the
 * first entry of its bucket, which entry->next leads on from. */
static inline void cosched_handles_link(struct cosched_handles *table,
                                        struct cosched_entry *entry, uintptr_t handle) {
    struct cosched_entry **bucket =
        &table->buckets[cosched_handles_hash(handle, COSCHED_HANDLES_BITS)];
    entry->handle = handle;
    entry->next = *bucket;
    *bucket = entry;
    __atomic_store_n(&table->size, table->size + 1, __ATOMIC_RELEASE);
}

static inline void cosched_handles_unlink(struct cosched_handles *table,
                                          struct cosched_entry *entry) {
    struct cosched_entry **link =
        &table->buckets[cosched_handles_hash(entry->handle, COSCHED_HANDLES_BITS)];
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    __atomic_store_n(&table->size, table->size - 1, __ATOMIC_RELEASE);
}

static inline struct cosched_entry *cosched_handles_bucket(const struct cosched_handles *table,
                                                           uintptr_t handle) {
    return table->buckets[cosched_handles_hash(handle, COSCHED_HANDLES_BITS)];
}

/* Puts the entry in. */
void cosched_handles_add(struct cosched_handles *table, struct cosched_entry *entry,
                         uintptr_t handle);

/* Takes out an entry with this handle, and returns it. NULL: there is none. */
struct cosched_entry *cosched_handles_take(struct cosched_handles *table, uintptr_t handle);

#endif
