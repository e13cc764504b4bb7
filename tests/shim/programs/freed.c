/*
 * freed - rank 0 sends, frees each request while its message is under way, and never receives
 * or waits: the copies that the messages are sent from must not pile up. The datatype has gaps,
 * so each message is sent from a copy. The messages are too long to be sent at once.
 */
#include "check.h"

#include <sys/resource.h>

enum { TURNS = 200, BYTES = 1 << 19, ROOM_KIB = 48 << 10 };

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(int argc, char **argv) {
    unsigned char *out = malloc(2 * BYTES), *in = malloc(BYTES);
    MPI_Datatype every_other;
    MPI_Request q;
    long before = 0, grown;
    int good = 0;
    begin(&argc, &argv);
    MPI_Type_vector(BYTES, 1, 2, MPI_BYTE, &every_other);
    MPI_Type_commit(&every_other);
    for (size_t i = 0; i < BYTES; i++)
        out[2 * i] = content(5, i);
    for (int turn = 0; turn < TURNS; turn++) {
        if (rank == 0)
            MPI_Isend(out, 1, every_other, 1, 1, MPI_COMM_WORLD, &q);
        MPI_Barrier(MPI_COMM_WORLD); /* it has begun before it is received */
        if (rank == 0)
            MPI_Request_free(&q);
        else if (rank == 1) {
            MPI_Recv(in, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            good += differs_at(in, BYTES, 5) == BYTES;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn == 9)
            before = peak_kib(); /* the library's own buffers are there */
    }
    grown = peak_kib() - before;
    CHECK(rank != 0 || grown < ROOM_KIB, "%ld KiB more", grown);
    if (rank == 1)
        print_line("%d came", good);
    MPI_Type_free(&every_other);
    free(out);
    free(in);
    return finish();
}
