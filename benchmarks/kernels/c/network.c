/* Messages: pairs of ranks send each other a small message and a large one, back and forth.
   Work: round trips of both. Each message says which it is; the receiver checks that. Rank 0
   talks to the driver, and tells the others every few milliseconds whether to go on. */

#include "kernel.h"

#include <mpi.h>

enum { SMALL = 8, LARGE = 65536, TRIPS = 32 };
static int rank, ranks;
static uint64_t wrong, count;
static unsigned char out[LARGE], in[LARGE];

static void fill(unsigned char *message, int size, uint64_t which)
{
    memset(message, (int)(which & 0xff), (size_t)size);
    memcpy(message, &which, sizeof which);
}

static void check(const unsigned char *message, int size, uint64_t which)
{
    uint64_t said;
    memcpy(&said, message, sizeof said);
    wrong += said != which || (size > SMALL && message[size - 1] != (which & 0xff));
}

static void trip(int partner, int size)
{
    uint64_t which = 2 * count++;
    if (rank < partner) {
        fill(out, size, which);
        MPI_Send(out, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(in, size, which + 1);
    } else {
        MPI_Recv(in, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(in, size, which);
        fill(out, size, which + 1);
        MPI_Send(out, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct kernel_arguments arguments = kernel_parse(argc, argv);
    if (ranks % 2)
        kernel_fail("network", "wants an even number of ranks");
    if (rank == 0) {
        kernel_print("ready");
        kernel_wait();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = kernel_now(), work = 0.0;
    int goes_on;
    do {
        for (int again = 0; again < TRIPS; again++) {
            trip(rank ^ 1, SMALL);
            trip(rank ^ 1, LARGE);
        }
        if (rank == 0 && work == 0.0)
            kernel_print("running");
        work += TRIPS;
        goes_on = rank == 0 && kernel_goes_on(&arguments, begin);
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } while (goes_on);
    double seconds = kernel_now() - begin;
    uint64_t all_wrong = 0;
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && all_wrong)
        fprintf(stderr, "network: verification failed: a message is not what was sent\n");
    else if (rank == 0)
        kernel_report(work * ranks / 2, seconds);
    MPI_Finalize();
    return all_wrong != 0;
}
