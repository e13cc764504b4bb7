/*
 * entry.h - decides by the state of the process what an exported function does. An active process
 * serves the call itself, a passive one hands it to the library. One that is no rank of this MPI
 * passes it on to the next definition, and a broken one refuses it.
 */
#ifndef COSCHED_ENTRY_H
#define COSCHED_ENTRY_H

#include "base/next.h"
#include "base/state.h"
#include "calls/do.h"
#include "wait/library_yields.h"

#define COSCHED_ENTRY __attribute__((visibility("default"))) int

/* Whether the call of this PMPI function comes from outside of the MPI library. */
#define COSCHED_ENTRY_FROM_OUTSIDE() (!cosched_pmpi_called_from(__builtin_return_address(0)))

/* Declares `mode`, which an entry needs. The first call starts the state in a function of its own
 * and calls the entry again, so that a later call can become a jump (base/next.h). */
#define COSCHED_ENTRY_FIRST(entry, parameters, arguments)                                          \
    static __attribute__((noinline, cold)) int first_##entry parameters {                          \
        (void)cosched_state_start();                                                               \
        return entry arguments;                                                                    \
    }
#define COSCHED_ENTRY_MODE(entry, arguments)                                                       \
    enum cosched_state_mode mode = __atomic_load_n(&cosched_state.mode, __ATOMIC_ACQUIRE);         \
    if (__builtin_expect(mode == COSCHED_STATE_UNKNOWN, 0))                                        \
        return first_##entry arguments;

/* Returns from the entry with cosched_do_INSTEAD if `active`, otherwise with the library's. next:
 * the table of the definitions behind the entry. */
#define COSCHED_ENTRY_SERVE(name, next, active, instead, arguments)                                \
    if (__builtin_expect(mode == COSCHED_STATE_ASIDE, 0))                                          \
        return next.name arguments;                                                                \
    if (__builtin_expect(mode == COSCHED_STATE_ACTIVE, 1)) {                                       \
        if (active)                                                                                \
            return cosched_do_##instead arguments;                                                 \
        cosched_wait_forget();                                                                     \
    } else if (mode != COSCHED_STATE_PASSIVE || cosched_pmpi.name == NULL)                           \
        return cosched_state_refuse("MPI_" #name);                                                 \
    return cosched_pmpi.name arguments;

#endif
