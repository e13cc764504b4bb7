/*
 * threads [ROUNDS] - MPI_THREAD_MULTIPLE: several threads of each rank exchange messages with
 * their partners at once, in one shared communicator and in their own. So requests, records and
 * handles are used and freed by several threads at a time.
 */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, WINDOW = 12 };

static MPI_Comm own[THREADS];
static int rounds = 60;

static void exchange(int thread, int round, int partner, MPI_Comm comm, int bytes, int derived) {
    MPI_Request q[2 * WINDOW];
    MPI_Status statuses[2 * WINDOW];
    unsigned char *in[WINDOW], *out[WINDOW];
    MPI_Datatype type = MPI_BYTE;
    int count = bytes, flag = 0;
    if (derived) {
        MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        count = 1;
    }
    for (int i = 0; i < WINDOW; i++) {
        in[i] = calloc((size_t)bytes * 2 + 1, 1);
        out[i] = malloc((size_t)bytes * 2 + 1);
        fill(out[i], (size_t)bytes * 2, (unsigned)(thread * 7919 + round * 31 + i));
        MPI_Irecv(in[i], count, type, partner, thread * 100 + i, comm, &q[i]);
    }
    for (int i = 0; i < WINDOW; i++)
        if (i % 3 == 0)
            MPI_Issend(out[i], count, type, partner, thread * 100 + i, comm, &q[WINDOW + i]);
        else
            MPI_Isend(out[i], count, type, partner, thread * 100 + i, comm, &q[WINDOW + i]);
    switch (round % 3) {
    case 0: MPI_Waitall(2 * WINDOW, q, statuses); break;
    case 1:
        while (!flag)
            MPI_Testall(2 * WINDOW, q, &flag, statuses);
        break;
    default:
        for (int left = 2 * WINDOW; left > 0; left--) {
            MPI_Status status;
            int index;
            MPI_Waitany(2 * WINDOW, q, &index, &status);
            statuses[index] = status;
        }
    }
    for (int i = 0; i < WINDOW; i++) {
        int n = -1;
        MPI_Get_count(&statuses[i], MPI_BYTE, &n);
        CHECK(n == bytes, "%d of %d bytes", n, bytes);
        for (int k = 0; k < bytes; k++)
            if (in[i][derived ? 2 * k : k] != out[i][derived ? 2 * k : k]) {
                CHECK(0, "thread %d round %d message %d byte %d", thread, round, i, k);
                break;
            }
        free(in[i]);
        free(out[i]);
    }
    if (derived)
        MPI_Type_free(&type);
}

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument, partner = rank ^ 1;
    if (partner >= size)
        return NULL;
    for (int round = 0; round < rounds; round++) {
        /* Both partners fill in the same contents. */
        exchange(thread, round, partner, own[thread], 1 + round * 17, 0);
        exchange(thread, round, partner, MPI_COMM_WORLD, 40 + round, 1);
        char x = (char)round, y = 0;
        MPI_Status status;
        MPI_Sendrecv(&x, 1, MPI_CHAR, partner, thread, &y, 1, MPI_CHAR, partner, thread, own[thread],
                     &status);
        CHECK(y == x, "sendrecv");
    }
    return NULL;
}

int main(int argc, char **argv) {
    int level;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (level < MPI_THREAD_MULTIPLE) {
        print_line("no threads");
        return finish();
    }
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&own[i]);
    print_line("threads done");
    return finish();
}
