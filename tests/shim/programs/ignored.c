/*
 * ignored - receives from any source without a status, and an MPI_Isendrecv that receives from
 * MPI_PROC_NULL, beside other requests from MPI_PROC_NULL.
 */
#include "check.h"

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAS_ISENDRECV 1
#else
#define HAS_ISENDRECV 0
#endif

static unsigned char buffer[1 << 22];

/* Each rank sends to itself, so that a job of one rank can. */
static void from_anyone(MPI_Comm comm, size_t bytes) {
    unsigned char *out = malloc(bytes + 1);
    MPI_Message message;
    MPI_Request q;
    fill(out, bytes, 7);
    for (int how = 0; how < 4; how++) {
        memset(buffer, 0, bytes);
        if (how < 3)
            MPI_Isend(out, (int)bytes, MPI_BYTE, rank, 5, comm, &q);
        if (how == 0)
            MPI_Recv(buffer, (int)bytes, MPI_BYTE, MPI_ANY_SOURCE, 5, comm, MPI_STATUS_IGNORE);
        else if (how == 1) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
            MPI_Recv(buffer, (int)bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                     MPI_STATUS_IGNORE);
        } else if (how == 2) {
            MPI_Mprobe(MPI_ANY_SOURCE, 5, comm, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(buffer, (int)bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        } else
            MPI_Sendrecv(out, (int)bytes, MPI_BYTE, rank, 5, buffer, (int)bytes, MPI_BYTE,
                         MPI_ANY_SOURCE, 5, comm, MPI_STATUS_IGNORE);
        if (how < 3)
            MPI_Wait(&q, MPI_STATUS_IGNORE);
        CHECK(differs_at(buffer, bytes, 7) == bytes, "how %d", how);
    }
    print_line("%zu bytes from anyone", bytes);
    free(out);
}

/* Rank 1 takes the long message only after rank 0 is past a wait for something else. */
static void from_nobody(MPI_Comm comm) {
    int go = 0;
    if (rank == 0) {
        MPI_Request exchange = MPI_REQUEST_NULL, other;
        fill(buffer, sizeof buffer, 9);
#if HAS_ISENDRECV
        MPI_Isendrecv(buffer, (int)sizeof buffer, MPI_BYTE, 1, 6, &go, 1, MPI_INT, MPI_PROC_NULL,
                      6, comm, &exchange);
#else
        MPI_Isend(buffer, (int)sizeof buffer, MPI_BYTE, 1, 6, comm, &exchange);
#endif
        MPI_Irecv(&go, 1, MPI_INT, MPI_PROC_NULL, 6, comm, &other);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
        MPI_Send(&go, 1, MPI_INT, 1, 7, comm);
        MPI_Wait(&exchange, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&go, 1, MPI_INT, 0, 7, comm, MPI_STATUS_IGNORE);
        MPI_Recv(buffer, (int)sizeof buffer, MPI_BYTE, 0, 6, comm, MPI_STATUS_IGNORE);
        CHECK(differs_at(buffer, sizeof buffer, 9) == sizeof buffer, "torn");
    }
    print_line("beside nobody");
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    from_anyone(MPI_COMM_WORLD, 8);
    from_anyone(comm, 100000);
    MPI_Barrier(comm); /* no rank must take a message of the next part */
    if (size > 1)
        from_nobody(comm);
    MPI_Comm_free(&comm);
    return finish();
}
