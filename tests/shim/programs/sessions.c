/*
 * sessions [world] - a program that uses sessions and never calls MPI_Init: blocking sends of all
 * kinds, replaced buffers, a derived type and requests, in a communicator that outlives another.
 * With `world` it also calls MPI_Init and MPI_Finalize, and its session outlives those.
 * If the library has no sessions, it prints nothing and succeeds.
 */
#include "check.h"

#include <stdbool.h>

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

static MPI_Comm made_of(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void talk(MPI_Comm comm, int n) {
    int out[64], in[64], to = 1 - rank;
    MPI_Datatype every_other;
    for (int i = 0; i < 64; i++)
        out[i] = 1000 * n + 100 * rank + i, in[i] = -1;
    for (int turn = 0; turn < 2; turn++)
        if (rank == turn) {
            MPI_Send(out, 64, MPI_INT, to, 1, comm);
            MPI_Ssend(out, 64, MPI_INT, to, 2, comm);
        } else {
            MPI_Recv(in, 64, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
            MPI_Recv(in, 64, MPI_INT, to, 2, comm, MPI_STATUS_IGNORE);
        }
    CHECK(in[63] == 1000 * n + 100 * to + 63, "%d", in[63]);
    MPI_Type_vector(16, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Sendrecv(out, 1, every_other, to, 3, in, 16, MPI_INT, to, 3, comm, MPI_STATUS_IGNORE);
    CHECK(in[15] == 1000 * n + 100 * to + 30, "%d", in[15]);
    MPI_Type_free(&every_other);
    MPI_Sendrecv_replace(out, 64, MPI_INT, to, 4, to, 4, comm, MPI_STATUS_IGNORE);
    CHECK(out[5] == 1000 * n + 100 * to + 5, "%d", out[5]);
}

/* The same by requests, and by a matched message. */
static void ask(MPI_Comm comm, int n) {
    int out[64], in[64], to = 1 - rank;
    MPI_Request requests[2], met;
    MPI_Message message;
    for (int i = 0; i < 64; i++)
        out[i] = 1000 * n + 100 * rank + i, in[i] = -1;
    MPI_Send_init(out, 64, MPI_INT, to, 5, comm, &requests[0]);
    MPI_Recv_init(in, 64, MPI_INT, to, 5, comm, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(in[63] == 1000 * n + 100 * to + 63, "%d", in[63]);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Isend(out, 32, MPI_INT, to, 6, comm, &requests[0]);
    MPI_Mprobe(to, 6, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in + 32, 32, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(in[63] == 1000 * n + 100 * to + 31, "%d", in[63]);
    MPI_Ibarrier(comm, &met);
    MPI_Wait(&met, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    const bool world = argc > 1;
    MPI_Session session;
    MPI_Comm first, second;
    if (world)
        MPI_Init(&argc, &argv);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    first = made_of(session, "first");
    second = made_of(session, "second");
    MPI_Comm_rank(first, &rank);
    MPI_Comm_size(first, &size);
    talk(first, 1);
    ask(first, 1);
    if (world)
        MPI_Finalize();
    ask(second, 2);
    talk(second, 2);
    MPI_Comm_free(&second);
    talk(first, 3);
    ask(first, 3);
    MPI_Comm_free(&first);
    MPI_Session_finalize(&session);
    if (failures == 0 && rank == 0)
        printf("all came\n");
    return failures != 0;
}

#else

int main(int argc, char **argv) {
    begin(&argc, &argv);
    return finish();
}

#endif
