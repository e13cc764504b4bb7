/*
 * small MESSAGES - small messages by blocking calls, there and back. Each rank prints how often the
 * interposer allocated memory (counting.c), and how often for messages that may need memory.
 */
#include "check.h"

extern int counting_begin(void) __attribute__((weak));
extern long counting_end(void) __attribute__((weak));

static void ping_pong(int messages, int bytes) {
    unsigned char out[1024], in[1024];
    MPI_Status status;
    int partner = rank ^ 1;
    fill(out, sizeof out, (unsigned)bytes);
    for (int i = 0; i < messages; i++) {
        memset(in, 0, (size_t)bytes);
        if (rank % 2 == 0)
            MPI_Send(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, i % 2 ? partner : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                 i % 3 ? &status : MPI_STATUS_IGNORE);
        if (rank % 2 != 0)
            MPI_Send(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
        CHECK(differs_at(in, (size_t)bytes, (unsigned)bytes) == (size_t)bytes, "message %d", i);
    }
}

/* A message in a new communicator, by persistent requests. */
static void first_of_a_communicator(void) {
    MPI_Request requests[2];
    MPI_Comm comm;
    int out = rank, in = -1, partner = rank ^ 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Recv_init(&in, 1, MPI_INT, partner, 2, comm, &requests[0]);
    MPI_Send_init(&out, 1, MPI_INT, partner, 2, comm, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(in == partner, "got %d", in);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int messages = argc > 1 ? atoi(argv[1]) : 10000;
    CHECK(counting_begin != NULL && counting_begin(), "nobody counts");
    if (failures == 0) {
        for (int bytes = 8; bytes <= 1024; bytes += 1016) {
            ping_pong(100, bytes);
            counting_begin();
            ping_pong(messages, bytes);
            print_line("%d bytes: %ld", bytes, counting_end());
        }
        counting_begin();
        first_of_a_communicator();
        print_line("others: %ld", counting_end());
    }
    return finish();
}
