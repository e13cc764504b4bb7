/*
 * selftest.c - the program of `cosched shim check`: two ranks send each other messages with
 * every kind of call, check the arrivals and count them.
 *
 * Rank 0 prints one line: "selftest: mpi V.S sent A B received C D wrong E F active G H", with
 * two numbers for the two ranks. If an argument names a FIFO, the program then waits for a byte
 * from it, so that its starter can read the counters of the tasks. (It does not wait for the
 * end of its standard input: Open MPI 5 does not report that end to a rank.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST (3 << 20)
#define TAG 7

static int rank, peer;
static long sent, received, wrong;
static unsigned char *mine, *theirs;

static unsigned char at(int from, size_t i) { return (unsigned char)(from * 101 + i * 7 + i / 251); }

static void look(int bytes, const MPI_Status *status) {
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count != bytes || status->MPI_SOURCE != peer || status->MPI_TAG != TAG)
        wrong++;
    for (int i = 0; i < bytes; i++)
        if (theirs[i] != at(peer, (size_t)i)) {
            wrong++;
            break;
        }
    memset(theirs, 0, (size_t)bytes + 1);
    received++;
}

static void blocking(int bytes) {
    MPI_Status status;
    if (rank == 0)
        MPI_Send(mine, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    MPI_Recv(theirs, bytes + 1, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (rank == 1)
        MPI_Ssend(mine, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    sent++;
    look(bytes, &status);
}

static void nonblocking(int bytes) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(theirs, bytes + 1, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(mine, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    sent++;
    look(bytes, &statuses[0]);
}

static void both(int bytes) {
    MPI_Status status;
    MPI_Sendrecv(mine, bytes, MPI_BYTE, peer, TAG, theirs, bytes + 1, MPI_BYTE, peer, TAG,
                 MPI_COMM_WORLD, &status);
    sent++;
    look(bytes, &status);
}

static void probed(int bytes) {
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    int count = -1;
    MPI_Isend(mine, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request);
    MPI_Mprobe(peer, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != bytes)
        wrong++;
    MPI_Mrecv(theirs, bytes, MPI_BYTE, &message, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sent++;
    look(bytes, &status);
}

static void persistent(int bytes) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Recv_init(theirs, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(mine, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < 2; round++) {
        int done = 0;
        MPI_Startall(2, requests);
        while (!done)
            MPI_Testall(2, requests, &done, statuses);
        sent++;
        look(bytes, &statuses[0]);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void wait_at(const char *fifo) {
    char byte;
    int fd = open(fifo, O_RDONLY);
    if (fd < 0 || read(fd, &byte, 1) < 0)
        fprintf(stderr, "selftest: %s: %s\n", fifo, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void say(void) {
    int version, subversion;
    int (*active)(void);
    void *found = dlsym(RTLD_DEFAULT, "cosched_interposer_active");
    long own[4] = {sent, received, wrong, 0}, all[2][4];
    memcpy(&active, &found, sizeof found);
    own[3] = found != NULL && active();
    MPI_Get_version(&version, &subversion);
    MPI_Gather(own, 4, MPI_LONG, all, 4, MPI_LONG, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    printf("selftest: mpi %d.%d sent %ld %ld received %ld %ld wrong %ld %ld active %ld %ld\n",
           version, subversion, all[0][0], all[1][0], all[0][1], all[1][1], all[0][2], all[1][2],
           all[0][3], all[1][3]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const int sizes[] = {0, 1, 1000, 100000, LARGEST};
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = malloc(LARGEST + 1);
    theirs = calloc(1, LARGEST + 1);
    if (size != 2 || mine == NULL || theirs == NULL) {
        fprintf(stderr, "selftest: %s\n", size != 2 ? "two ranks, please" : "out of memory");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    peer = 1 - rank;
    for (size_t i = 0; i < LARGEST; i++)
        mine[i] = at(rank, i);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        blocking(sizes[i]);
        nonblocking(sizes[i]);
        both(sizes[i]);
        probed(sizes[i]);
        persistent(sizes[i]);
    }
    say();
    if (rank == 0 && argc > 1)
        wait_at(argv[1]);
    /* Rank 1 waits here, registered like the other, until both were looked at. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    free(mine);
    free(theirs);
    return 0;
}
