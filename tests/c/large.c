/*
 * large - messages whose bytes an int cannot count (mpi_shim/interposer/status/wire.c), laid out
 * but neither sent nor filled in, where the calls of the library at hand count by int.
 * Compiled together with the interposer, but for the calls that it exports (calls/entry.c and life.c).
 */
#include <limits.h>
#include <stdio.h>

#include "base/state.h"
#include "status/wire.h"

/* A library that counts by MPI_Count lays out nothing. The program then needs no part of the
 * interposer, and tests/shim/test_parts.py compiles none. */

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            printf("FAIL line %d: %s\n", __LINE__, #condition);                                    \
        }                                                                                          \
    } while (0)

#if MPI_VERSION < 4
/* The same message either way: the status byte and the user's bytes, none more, none less. */
static void check_typed(struct cosched_wire *wire, int rc, MPI_Count bytes) {
    MPI_Count size = 0;
    CHECK(rc == MPI_SUCCESS);
    CHECK(wire->shape == COSCHED_WIRE_TYPED);
    CHECK(wire->count == 1);
    MPI_Type_size_x(wire->type, &size);
    CHECK(size == bytes + 1);
    cosched_wire_release(wire);
}

static void lay_out(MPI_Count bytes, int count, MPI_Datatype type) {
    static char buf[64];
    struct cosched_wire wire;
    check_typed(&wire, cosched_wire_out(&wire, NULL, buf, count, type), bytes);
    check_typed(&wire, cosched_wire_out_again(&wire, buf, count, type), bytes);
    check_typed(&wire, cosched_wire_in(&wire, NULL, buf, count, type), bytes);
    CHECK(cosched_wire_out_copied(&wire, NULL, buf, count, type) == MPI_ERR_COUNT);
}

static void large(void) {
    MPI_Datatype gaps;
    struct cosched_wire wire;
    static char buf[64];
    CHECK(cosched_state_start() == COSCHED_STATE_PASSIVE);
    MPI_Type_vector(1 << 20, 1, 2, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    lay_out(INT_MAX, INT_MAX, MPI_BYTE);
    lay_out((MPI_Count)INT_MAX * 4, INT_MAX, MPI_INT);
    lay_out((MPI_Count)1 << 31, 1 << 11, gaps);
    lay_out(((MPI_Count)1 << 32) + (1 << 20), (1 << 12) + 1, gaps);
    CHECK(cosched_wire_copy(&wire, buf, 1 << 11, gaps) == MPI_ERR_COUNT);
    MPI_Type_free(&gaps);
}
#else
static void large(void) { CHECK(sizeof(cosched_count) == sizeof(long long)); }
#endif

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    large();
    MPI_Finalize();
    printf("laid out\n");
    return failures != 0;
}
