/*
 * meet MODE ROUNDS - two ranks: in each round rank 0 comes late to a call in which rank 1 waits
 * for it. Checks the contents.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank;
static MPI_Comm comm;    /* ranks in the other order than in MPI_COMM_WORLD */
static MPI_Comm between; /* one rank on either side */
static int me, other;

static void expect(int got, int wanted) {
    if (got != wanted) {
        fprintf(stderr, "FAIL: rank %d got %d, not %d\n", rank, got, wanted);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void send_late(int value) { MPI_Send(&value, 1, MPI_INT, other, 7, comm); }

static void round_of(const char *mode, int value, MPI_Win win, int *shared) {
    MPI_Request request, requests[2];
    MPI_Status status;
    MPI_Message message;
    int got = -1, index = -1, sum = 0, late = rank == 0;
    if (strcmp(mode, "barrier") == 0)
        MPI_Barrier(comm);
    else if (strcmp(mode, "allreduce") == 0) {
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
        expect(sum, 2 * value);
    } else if (strcmp(mode, "inter") == 0) {
        MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, between);
        expect(got, value);
    } else if (strcmp(mode, "iallreduce") == 0) {
        MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(sum, 2 * value);
    } else if (strcmp(mode, "bcast") == 0) {
        got = late ? value : -1;
        MPI_Bcast(&got, 1, MPI_INT, late ? me : other, comm);
        expect(got, value);
    } else if (strcmp(mode, "fence") == 0) {
        if (late)
            MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        if (!late)
            expect(*shared, value);
        MPI_Win_fence(0, win); /* the next value may come only after the check */
    } else if (strcmp(mode, "sendrecv") == 0) {
        MPI_Sendrecv(&value, 1, MPI_INT, other, 7, &got, 1, MPI_INT, other, 7, comm,
                     MPI_STATUS_IGNORE);
        expect(got, value);
    } else if (late)
        send_late(value);
    else {
        if (strcmp(mode, "recv") == 0)
            MPI_Recv(&got, 1, MPI_INT, other, 7, comm, MPI_STATUS_IGNORE);
        else if (strcmp(mode, "any") == 0)
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        else if (strcmp(mode, "wait") == 0) {
            MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (strcmp(mode, "waitany") == 0) {
            MPI_Irecv(&got, 1, MPI_INT, other, 7, comm, &requests[0]);
            requests[1] = MPI_REQUEST_NULL;
            MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        } else if (strcmp(mode, "status") == 0) {
            MPI_Irecv(&got, 1, MPI_INT, other, 7, comm, &request);
            for (int flag = 0; !flag;)
                MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
        } else if (strcmp(mode, "some") == 0) {
            MPI_Irecv(&got, 1, MPI_INT, other, 7, comm, &request);
            for (int count = 0; count == 0;)
                MPI_Request_get_status_some(1, &request, &count, &index, MPI_STATUSES_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
        } else if (strcmp(mode, "probe") == 0) {
            MPI_Probe(MPI_ANY_SOURCE, 7, comm, &status);
            MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 7, comm, MPI_STATUS_IGNORE);
        } else if (strcmp(mode, "mprobe") == 0) {
            MPI_Mprobe(MPI_ANY_SOURCE, 7, comm, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        } else {
            fprintf(stderr, "FAIL: no mode %s\n", mode);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        expect(got, value);
    }
}

int main(int argc, char **argv) {
    const struct timespec pause = {.tv_nsec = 60000000};
    int size, *shared;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 || size != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Comm_rank(comm, &me);
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 9, &between);
    other = 1 - me;
    MPI_Win_allocate(sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &win);
    *shared = -1;
    MPI_Win_fence(0, win);
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (rank == 0)
            nanosleep(&pause, NULL);
        round_of(argv[1], i, win, shared);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&between);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    if (rank == 0)
        puts("met");
    return 0;
}
