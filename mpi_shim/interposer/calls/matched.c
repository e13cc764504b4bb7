#include "calls/matched.h"

#include <stdlib.h>

#include "base/handles.h"
#include "base/state.h"

static struct cosched_handles plain;

static bool is_none(MPI_Message message) {
    return message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC;
}

bool cosched_matched_add_plain(MPI_Message message) {
    struct cosched_entry *entry;
    if (is_none(message))
        return true;
    entry = malloc(sizeof *entry);
    if (entry != NULL)
        cosched_handles_add(&plain, entry, (uintptr_t)message);
    return entry != NULL;
}

bool cosched_matched_carry(MPI_Message message) {
    struct cosched_entry *entry;
    if (!cosched_state_uses_prefix() || is_none(message))
        return false;
    entry = cosched_handles_take(&plain, (uintptr_t)message);
    free(entry);
    return entry == NULL;
}
