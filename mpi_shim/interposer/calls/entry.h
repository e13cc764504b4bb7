/*
 * entry.h - what one exported function does: it serves the call itself in an active process,
 * hands it to the library in a passive one, and refuses it in a broken one.
 */
#ifndef COSCHED_ENTRY_H
#define COSCHED_ENTRY_H

#include "base/state.h"
#include "calls/do.h"
#include "wait/idle.h"

#define COSCHED_ENTRY __attribute__((visibility("default"))) int

/* Whether the call of this PMPI function comes from outside of the MPI library. */
#define COSCHED_ENTRY_FROM_OUTSIDE() (!cosched_pmpi_called_from(__builtin_return_address(0)))

/* Returns from the entry with cosched_do_INSTEAD if `active`, otherwise with the library's. */
#define COSCHED_ENTRY_SERVE(name, active, instead, arguments)                                      \
    enum cosched_state_mode mode = cosched_state_mode();                                                 \
    if (__builtin_expect(mode == COSCHED_STATE_ACTIVE, 1)) {                                        \
        if (active)                                                                                \
            return cosched_do_##instead arguments;                                                 \
        cosched_idle_forget();                                                                     \
    } else if (mode != COSCHED_STATE_PASSIVE || cosched_pmpi.name == NULL)                          \
        return cosched_state_refuse("MPI_" #name);                                                 \
    return cosched_pmpi.name arguments;

#endif
