#include "base/table.h"

void cosched_table_add(struct cosched_table *table, struct cosched_entry *entry,
                       uintptr_t handle) {
    cosched_lock_take(&table->lock);
    cosched_table_link(table, entry, handle);
    cosched_lock_give(&table->lock);
}

struct cosched_entry *cosched_table_take(struct cosched_table *table, uintptr_t handle) {
    struct cosched_entry *entry;
    if (cosched_table_is_empty(table))
        return NULL;
    cosched_lock_take(&table->lock);
    entry = cosched_table_bucket(table, handle);
    while (entry != NULL && entry->handle != handle)
        entry = entry->next;
    if (entry != NULL)
        cosched_table_unlink(table, entry);
    cosched_lock_give(&table->lock);
    return entry;
}
