#define _GNU_SOURCE
#include "wait/sharing.h"

#include <sys/resource.h>

#include "cosched/clock.h"
#include "base/state.h"

/* How many turns go by between two looks at the clock. */
#define TURNS_A_LOOK 64u

/* A task is taken for one that shares its CPU when it was taken off twice within so long;
 * kernel threads alone do that now and then. */
#define WINDOW_NS UINT64_C(30000000)
#define TAKEN_OFF 2

/* How long it is taken for one. */
#define KEPT_NS UINT64_C(1000000000)

/* Only the spinning of waits is watched: time between two waits does not count. */
bool cosched_sharing(uint32_t turn) {
    static _Thread_local struct {
        uint64_t from_ns;  /* the window in which switches are counted */
        long switches;     /* at its beginning */
        uint64_t until_ns; /* shared until then */
    } seen;
    struct rusage used;
    uint64_t now;
    if (cosched_is_attended(&cosched_shim.link))
        return cosched_shim_contended();
    if (turn % TURNS_A_LOOK != 0)
        return seen.until_ns != 0;
    now = cosched_clock_ns(CLOCK_MONOTONIC_COARSE);
    if (now < seen.until_ns)
        return true;
    getrusage(RUSAGE_THREAD, &used);
    if (seen.until_ns == 0 && now - seen.from_ns <= WINDOW_NS) {
        if (used.ru_nivcsw - seen.switches < TAKEN_OFF)
            return false;
        seen.until_ns = now + KEPT_NS;
        return true;
    }
    seen.until_ns = 0;
    seen.from_ns = now;
    seen.switches = used.ru_nivcsw;
    return false;
}
