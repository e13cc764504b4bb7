/*
 * life HOW - a ring of messages and a sum, both checked, and
 *
 *   plain        the usual end
 *   children     children in the middle that are no ranks: forked ones that end in each
 *                way, one that executes a shell, one that executes a program without MPI
 *   comms        communicators are made in the middle, by blocking and other calls
 *   unfinished   an end without MPI_Finalize
 *   crash        rank 1 dies of a signal
 */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void once_around(int round) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int out = rank * 1000 + round, in = -1, sum = 0;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, before, round, MPI_COMM_WORLD, &request);
    MPI_Send(&out, 1, MPI_INT, next, round, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in == before * 1000 + round, "round %d: got %d", round, in);
    MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * round + 1000 * (size * (size - 1) / 2), "round %d: sum %d", round, sum);
}

static void child(int kind) {
    switch (kind) {
    case 0: _exit(0);
    case 1:
        sched_yield();
        exit(0); /* with everything that is to be done at the exit of a process */
    case 2: execlp("sh", "sh", "-c", "exec true", (char *)NULL); break;
    case 3: execlp("true", "true", (char *)NULL); break;
    default: {
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(0);
        waitpid(grandchild, NULL, 0);
        raise(SIGKILL);
    }
    }
    _exit(1);
}

static void children(void) {
    for (int kind = 0; kind < 5; kind++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            child(kind);
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "child %d", kind);
        CHECK(kind == 4 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "child %d: %#x", kind, (unsigned)status);
        once_around(100 + kind);
    }
}

static void comms(void) {
    MPI_Comm twin, half, later;
    MPI_Request request;
    int half_size = 0, sum = 0, out = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_split(twin, rank % 2, rank, &half);
    MPI_Comm_idup(half, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_size(later, &half_size);
    MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, later);
    CHECK(sum == half_size, "%d of %d ranks", sum, half_size);
    MPI_Iallreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == size, "%d of %d ranks", sum, size);
    MPI_Comm_free(&later);
    MPI_Comm_free(&half);
    MPI_Comm_free(&twin);
    once_around(200);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "plain";
    for (int round = 0; round < 20; round++)
        once_around(round);
    if (strcmp(how, "children") == 0)
        children();
    if (strcmp(how, "comms") == 0)
        comms();
    if (strcmp(how, "crash") == 0 && rank == 1)
        raise(SIGKILL);
    if (strcmp(how, "unfinished") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(failures != 0);
    }
    print_line("all around");
    return finish();
}
