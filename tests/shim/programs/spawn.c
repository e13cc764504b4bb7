/*
 * spawn - peers that were not started together: children made by MPI_Comm_spawn, which carry no
 * status bytes and may lack the shim. Messages between parents and children must be those of
 * plain MPI. Messages among parents, and among children, are not changed by that.
 *
 *   spawn          children with the inherited environment
 *   spawn bare     children without the preload
 */
#include "check.h"

static void talk(MPI_Comm inter, int parents, int me) {
    MPI_Comm merged;
    MPI_Status status;
    MPI_Message message;
    MPI_Request q[2];
    int remote, out[500], in[500], n, flag = 0, all, mine;
    MPI_Comm_remote_size(inter, &remote);
    for (int i = 0; i < 500; i++)
        out[i] = me * 1000 + i, in[i] = -1;
    if (me < remote) {
        /* One of each kind, each way */
        if (parents)
            MPI_Send(out, 500, MPI_INT, me, 1, inter);
        else {
            MPI_Probe(me, 1, inter, &status);
            MPI_Get_count(&status, MPI_INT, &n);
            CHECK(n == 500, "probed %d", n);
            MPI_Recv(in, 500, MPI_INT, me, 1, inter, &status);
            MPI_Get_count(&status, MPI_BYTE, &n);
            CHECK(n == 2000 && in[499] == me * 1000 + 499, "%d bytes", n);
        }
        MPI_Irecv(in, 500, MPI_INT, me, 2, inter, &q[0]);
        MPI_Isend(out, 7, MPI_INT, me, 2, inter, &q[1]);
        MPI_Wait(&q[1], MPI_STATUS_IGNORE);
        MPI_Wait(&q[0], &status);
        MPI_Get_count(&status, MPI_BYTE, &n);
        CHECK(n == 28, "%d bytes", n);
        if (parents) {
            MPI_Ssend(out, 3, MPI_INT, me, 3, inter);
        } else {
            while (!flag)
                MPI_Improbe(me, 3, inter, &flag, &message, &status);
            MPI_Mrecv(in, 500, MPI_INT, &message, &status);
            MPI_Get_count(&status, MPI_BYTE, &n);
            CHECK(n == 12, "%d bytes", n);
        }
    }
    MPI_Intercomm_merge(inter, !parents, &merged);
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &mine);
    MPI_Sendrecv(&mine, 1, MPI_INT, (mine + 1) % all, 4, &n, 1, MPI_INT, (mine + all - 1) % all, 4,
                 merged, &status);
    CHECK(n == (mine + all - 1) % all, "ring %d", n);
    /* and what is made of that */
    MPI_Comm part;
    MPI_Comm_split(merged, mine % 2, mine, &part);
    MPI_Comm_size(part, &all);
    MPI_Comm_rank(part, &mine);
    MPI_Sendrecv(&mine, 1, MPI_INT, (mine + 1) % all, 5, &n, 1, MPI_INT, (mine + all - 1) % all, 5,
                 part, &status);
    CHECK(n == (mine + all - 1) % all, "ring of a part %d", n);
    MPI_Comm_free(&part);
    MPI_Comm_free(&merged);
}

/* Among those who were started together */
static void home(void) {
    int next = (rank + 1) % size, last = (rank + size - 1) % size, n;
    MPI_Status status;
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 9, &n, 1, MPI_INT, last, 9, MPI_COMM_WORLD, &status);
    CHECK(n == last, "%d", n);
    MPI_Get_count(&status, MPI_BYTE, &n);
    CHECK(n == 4, "%d bytes", n);
}

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        talk(parent, 0, rank);
        home();
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return failures != 0;
    }
    char *bare[] = {"-u", "LD_PRELOAD", "-u", "COSCHED_JOB", argv[0], NULL};
    int without = argc > 1 && strcmp(argv[1], "bare") == 0;
    MPI_Comm_spawn(without ? "/usr/bin/env" : argv[0], without ? bare : MPI_ARGV_NULL, 2,
                   MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    talk(children, 1, rank);
    home();
    MPI_Comm_disconnect(&children);
    print_line("spawned");
    return finish();
}
