#include "base/handles.h"

void cosched_handles_add(struct cosched_handles *table, struct cosched_entry *entry,
                         uintptr_t handle) {
    cosched_lock_take(&table->lock);
    cosched_handles_link(table, entry, handle);
    cosched_lock_give(&table->lock);
}

struct cosched_entry *cosched_handles_take(struct cosched_handles *table, uintptr_t handle) {
    struct cosched_entry *entry;
    if (cosched_handles_is_empty(table))
        return NULL;
    cosched_lock_take(&table->lock);
    entry = cosched_handles_bucket(table, handle);
    while (entry != NULL && entry->handle != handle)
        entry = entry->next;
    if (entry != NULL)
        cosched_handles_unlink(table, entry);
    cosched_lock_give(&table->lock);
    return entry;
}
