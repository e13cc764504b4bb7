/*
 * corners - truncated, cancelled, freed, empty and wrong calls: MPI must report the same as
 * without the shim. Two ranks exchange messages; the others only join collectives.
 */
#include "check.h"

static MPI_Comm comm;

static const char *class_of(int rc) {
    static char text[4][64];
    static int next;
    int class;
    char *here = text[next++ % 4];
    if (rc == MPI_SUCCESS)
        return "ok";
    MPI_Error_class(rc, &class);
    if (class == MPI_ERR_TRUNCATE) return "truncate";
    if (class == MPI_ERR_COUNT) return "count";
    if (class == MPI_ERR_TYPE) return "type";
    if (class == MPI_ERR_RANK) return "rank";
    if (class == MPI_ERR_TAG) return "tag";
    if (class == MPI_ERR_COMM) return "comm";
    if (class == MPI_ERR_BUFFER) return "buffer";
    if (class == MPI_ERR_REQUEST) return "request";
    if (class == MPI_ERR_IN_STATUS) return "in status";
    snprintf(here, 64, "class %d", class);
    return here;
}

static void show(const char *what, int rc, const MPI_Status *status, MPI_Datatype type) {
    int count = -9, elements = -9, cancelled = -9;
    MPI_Get_count(status, type, &count);
    MPI_Get_elements(status, type, &elements);
    MPI_Test_cancelled(status, &cancelled);
    print_line("%s: %s, source %d tag %d count %d elements %d cancelled %d", what, class_of(rc),
        status->MPI_SOURCE, status->MPI_TAG, count, elements, cancelled);
}

static void barrier(void) { MPI_Barrier(comm); }

/* All calls to and from MPI_PROC_NULL */
static void nobody(void) {
    char x[4] = "abc";
    int flag = 0;
    MPI_Status status;
    MPI_Request q, two[2];
    MPI_Message message;
    MPI_Send(x, 4, MPI_CHAR, MPI_PROC_NULL, 1, comm);
    MPI_Isend(x, 4, MPI_CHAR, MPI_PROC_NULL, 1, comm, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    show("recv from nobody", MPI_Recv(x, 4, MPI_CHAR, MPI_PROC_NULL, 1, comm, &status), &status,
         MPI_CHAR);
    MPI_Irecv(x, 4, MPI_CHAR, MPI_PROC_NULL, 1, comm, &two[0]);
    MPI_Recv_init(x, 4, MPI_CHAR, MPI_PROC_NULL, 1, comm, &two[1]);
    MPI_Start(&two[1]);
    MPI_Wait(&two[0], &status);
    show("irecv from nobody", 0, &status, MPI_CHAR);
    MPI_Wait(&two[1], &status);
    show("started from nobody", 0, &status, MPI_CHAR);
    MPI_Request_free(&two[1]);
    show("probe nobody", MPI_Probe(MPI_PROC_NULL, 1, comm, &status), &status, MPI_CHAR);
    MPI_Iprobe(MPI_PROC_NULL, 1, comm, &flag, &status);
    show("iprobe nobody", flag, &status, MPI_CHAR);
    MPI_Mprobe(MPI_PROC_NULL, 1, comm, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "mprobe");
    show("mprobe nobody", 0, &status, MPI_CHAR);
    show("mrecv nobody", MPI_Mrecv(x, 4, MPI_CHAR, &message, &status), &status, MPI_CHAR);
    show("sendrecv nobody",
         MPI_Sendrecv(x, 4, MPI_CHAR, MPI_PROC_NULL, 1, x, 4, MPI_CHAR, MPI_PROC_NULL, 1, comm,
                      &status),
         &status, MPI_CHAR);
    CHECK(strcmp(x, "abc") == 0, "%s", x);
}

/* Longer than the receive's buffer */
static void truncated(int sent, int room) {
    unsigned char *buf = calloc((size_t)(sent + room) + 1, 1);
    MPI_Status status, three[3];
    MPI_Request q[3];
    MPI_Message message;
    int rc, index = -5;
    if (rank == 0) {
        fill(buf, (size_t)sent, 7);
        for (int i = 0; i < 7; i++)
            MPI_Send(buf, sent, MPI_BYTE, 1, i, comm);
    } else if (rank == 1) {
        print_line("truncated %d in %d", sent, room);
        rc = MPI_Recv(buf, room, MPI_BYTE, 0, 0, comm, &status);
        print_line("recv %s", class_of(rc));
        MPI_Irecv(buf, room, MPI_BYTE, 0, 1, comm, &q[0]);
        rc = MPI_Wait(&q[0], &status);
        print_line("wait %s %d", class_of(rc), q[0] == MPI_REQUEST_NULL);
        MPI_Mprobe(0, 2, comm, &message, &status);
        show("mprobe", 0, &status, MPI_BYTE);
        rc = MPI_Mrecv(buf, room, MPI_BYTE, &message, &status);
        print_line("mrecv %s", class_of(rc));
        rc = MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, buf, room, MPI_BYTE, 0, 3, comm,
                          &status);
        print_line("sendrecv %s", class_of(rc));
        MPI_Irecv(buf, room, MPI_BYTE, 0, 4, comm, &q[0]);
        rc = MPI_Waitany(1, q, &index, &status);
        print_line("waitany %s", class_of(rc));
        /* One of two fails */
        unsigned char *enough = malloc((size_t)sent + 1);
        MPI_Irecv(buf, room, MPI_BYTE, 0, 5, comm, &q[0]);
        MPI_Irecv(enough, sent, MPI_BYTE, 0, 6, comm, &q[1]);
        rc = MPI_Waitall(2, q, three);
        print_line("waitall %s: %s, gone %d", class_of(rc), class_of(three[0].MPI_ERROR),
            q[0] == MPI_REQUEST_NULL);
        MPI_Wait(&q[1], MPI_STATUS_IGNORE); /* may still be pending */
        CHECK(differs_at(enough, (size_t)sent, 7) == (size_t)sent, "the other one");
        free(enough);
    }
    free(buf);
    barrier();
}

/* Longer than the receive's buffer, and with gaps on one side, or sent from a copy */
static void truncated_in_parts(void) {
    enum { N = 1000, ROOM = 40 };
    double *data = calloc(2 * N, sizeof *data);
    MPI_Datatype apart;
    MPI_Status status;
    MPI_Request q;
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &apart);
    MPI_Type_commit(&apart);
    if (rank == 0) {
        MPI_Send(data, 1, apart, 1, 0, comm);
        MPI_Send(data, 2 * N, MPI_DOUBLE, 1, 1, comm);
        MPI_Sendrecv_replace(data, N, MPI_DOUBLE, 1, 2, MPI_PROC_NULL, 0, comm, &status);
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
        MPI_Isendrecv(data, N, MPI_DOUBLE, 1, 3, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, &q);
        MPI_Wait(&q, &status);
#else
        MPI_Send(data, N, MPI_DOUBLE, 1, 3, comm);
#endif
    } else if (rank == 1) {
        for (int tag = 0; tag < 4; tag++) {
            if (tag == 1)
                MPI_Irecv(data, 1, apart, 0, tag, comm, &q);
            else
                MPI_Irecv(data, ROOM, MPI_BYTE, 0, tag, comm, &q);
            print_line("truncated in parts %s", class_of(MPI_Wait(&q, &status)));
        }
    }
    MPI_Type_free(&apart);
    free(data);
    barrier();
}

/* One has gone wrong, one has come, one is under way still: some libraries say so at once,
 * and what they call complete must be there. */
static void halfway(void) {
    enum { N = 1000, LOOKS = 20000 };
    unsigned char *bufs[3];
    MPI_Request q[3];
    MPI_Status three[3];
    int go = 1, rc = MPI_SUCCESS, flag = 0, said = 0;
    for (int i = 0; i < 3; i++)
        bufs[i] = calloc(N, 1);
    if (rank == 0) {
        for (int i = 0; i < 3; i++) {
            fill(bufs[i], N, 20u + (unsigned)i);
            if (i == 2)
                MPI_Recv(&go, 1, MPI_INT, 1, 13, comm, MPI_STATUS_IGNORE);
            MPI_Send(bufs[i], N, MPI_BYTE, 1, 10 + i, comm);
        }
    } else if (rank == 1) {
        for (int i = 0; i < 3; i++)
            MPI_Irecv(bufs[i], i == 0 ? N / 2 : N, MPI_BYTE, 0, 10 + i, comm, &q[i]);
        for (int i = 0; i < LOOKS && !said; i++) {
            memset(three, 0, sizeof three);
            rc = MPI_Testall(3, q, &flag, three);
            said = rc != MPI_SUCCESS && three[1].MPI_ERROR == MPI_SUCCESS;
        }
        CHECK(!flag, "all of it");
        if (said) {
            int n = -1;
            MPI_Get_count(&three[1], MPI_BYTE, &n);
            CHECK(n == N && differs_at(bufs[1], N, 21) == N, "complete, but not there: %d", n);
        }
        MPI_Send(&go, 1, MPI_INT, 0, 13, comm);
        for (int i = 0; i < 3; i++) {
            int n = N;
            if (q[i] != MPI_REQUEST_NULL) {
                rc = MPI_Wait(&q[i], &three[i]);
                MPI_Get_count(&three[i], MPI_BYTE, &n);
            }
            print_line("halfway %d: gone %d", i, q[i] == MPI_REQUEST_NULL);
            CHECK(i == 0 || (n == N && differs_at(bufs[i], N, 20u + (unsigned)i) == N),
                  "%d: %d, %d bytes", i, rc, n);
        }
    }
    for (int i = 0; i < 3; i++)
        free(bufs[i]);
    barrier();
}

/* Open MPI 5 looks into a request before it looks whether it is one. */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
#define WAYS 0
#else
#define WAYS 4
#endif

/* A refused request does not affect others in the same call: a pending one stays pending, and
 * one that was not started sends the data at its start. */
static void refused(void) {
    int x, y, flag, index, outcount, indices[2], good = 0;
    MPI_Request two[2];
    MPI_Status statuses[2];
    for (int how = 0; how < WAYS && rank == 1; how++) {
        int rc = MPI_SUCCESS;
        x = -1, flag = index = outcount = 0;
        MPI_Recv_init(&x, 1, MPI_INT, 0, 930, comm, &two[0]);
        MPI_Start(&two[0]);
        memset(&two[1], 0, sizeof two[1]); /* no library has such a request */
        if (how == 0)
            rc = MPI_Waitall(2, two, statuses);
        else if (how == 1)
            rc = MPI_Testall(2, two, &flag, statuses);
        else if (how == 2)
            rc = MPI_Testany(2, two, &index, &flag, statuses);
        else
            rc = MPI_Testsome(2, two, &outcount, indices, statuses);
        print_line("with one that is none: %s", class_of(rc));
        MPI_Send(NULL, 0, MPI_INT, 0, 931, comm);
        MPI_Wait(&two[0], statuses);
        MPI_Get_count(statuses, MPI_INT, &y);
        good += x == how && y == 1;
        MPI_Request_free(&two[0]);
    }
    for (int how = 0; how < WAYS && rank == 0; how++) {
        MPI_Recv(NULL, 0, MPI_INT, 1, 931, comm, MPI_STATUS_IGNORE);
        MPI_Send(&how, 1, MPI_INT, 1, 930, comm);
    }
    if (rank == 0) {
        x = 1;
        MPI_Send_init(&x, 1, MPI_INT, 1, 932, comm, &two[0]);
        two[1] = MPI_REQUEST_NULL;
        print_line("started with one that is none: %s", class_of(MPI_Startall(2, two)));
        x = 2;
        MPI_Start(&two[0]);
        MPI_Wait(&two[0], MPI_STATUS_IGNORE);
        MPI_Request_free(&two[0]);
    } else if (rank == 1) {
        MPI_Recv(&x, 1, MPI_INT, 0, 932, comm, MPI_STATUS_IGNORE);
        print_line("refused: %d came, then %d", good, x);
    }
    barrier();
}

/* A receive that is cancelled leaves its buffer alone, whatever its request received in a
 * life before. */
static void cancelled(void) {
    enum { N = 1000, TURNS = 5 };
    unsigned char sent[N], got[N], untouched[N];
    int flags = 0, spoilt = 0;
    MPI_Request q;
    MPI_Status status;
    fill(sent, N, 31);
    if (rank < 2)
        for (int i = 0; i < TURNS; i++) {
            MPI_Irecv(got, N, MPI_BYTE, 1 - rank, 920, comm, &q);
            MPI_Send(sent, N, MPI_BYTE, 1 - rank, 920, comm);
            MPI_Wait(&q, MPI_STATUS_IGNORE);
            int flag = 0;
            fill(untouched, N, 32);
            MPI_Irecv(untouched, N, MPI_BYTE, 1 - rank, 921, comm, &q);
            MPI_Cancel(&q);
            MPI_Wait(&q, &status);
            MPI_Test_cancelled(&status, &flag);
            flags += flag;
            spoilt += differs_at(untouched, N, 32) != N;
        }
    print_line("cancelled: %d, of which %d wrote", flags, spoilt);
    CHECK(spoilt == 0, "%d", spoilt);
    barrier();
}

/* Requests that are cancelled, freed early, or never started */
static void unfinished(void) {
    int x[300] = {0}, y = 5, flag, index = 9, outcount = 9, indices[2];
    MPI_Status status, two[2];
    MPI_Request q[2], none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (rank < 2) {
        MPI_Irecv(x, 300, MPI_INT, 1 - rank, 900, comm, &q[0]);
        MPI_Cancel(&q[0]);
        MPI_Wait(&q[0], &status);
        MPI_Test_cancelled(&status, &flag);
        print_line("cancelled irecv %d", flag);
        MPI_Recv_init(x, 300, MPI_INT, 1 - rank, 900, comm, &q[0]);
        MPI_Start(&q[0]);
        MPI_Cancel(&q[0]);
        MPI_Wait(&q[0], &status);
        MPI_Test_cancelled(&status, &flag);
        print_line("cancelled recv_init %d", flag);
        /* and used once more, when the other side's are cancelled, too */
        MPI_Sendrecv(NULL, 0, MPI_INT, 1 - rank, 899, NULL, 0, MPI_INT, 1 - rank, 899, comm,
                     MPI_STATUS_IGNORE);
        MPI_Start(&q[0]);
        MPI_Send(&y, 1, MPI_INT, 1 - rank, 900, comm);
        MPI_Wait(&q[0], &status);
        show("started again", 0, &status, MPI_INT);
        CHECK(x[0] == 5, "%d", x[0]);
        /* inactive */
        MPI_Wait(&q[0], &status);
        show("inactive wait", 0, &status, MPI_INT);
        MPI_Test(&q[0], &flag, &status);
        show("inactive test", flag, &status, MPI_INT);
        q[1] = MPI_REQUEST_NULL;
        MPI_Testany(2, q, &index, &flag, &status);
        print_line("inactive testany %d %d", flag, index == MPI_UNDEFINED);
        MPI_Waitsome(2, q, &outcount, indices, two);
        print_line("inactive waitsome %d", outcount == MPI_UNDEFINED);
        MPI_Request_free(&q[0]);
        print_line("freed %d", q[0] == MPI_REQUEST_NULL);
        MPI_Waitany(2, none, &index, &status);
        print_line("none waitany %d", index == MPI_UNDEFINED);
        MPI_Waitall(2, none, two);
        show("none waitall", 0, &two[1], MPI_INT);
        MPI_Testsome(2, none, &outcount, indices, MPI_STATUSES_IGNORE);
        print_line("none testsome %d", outcount == MPI_UNDEFINED);
        MPI_Wait(&none[0], MPI_STATUS_IGNORE);
        MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    }
    barrier();
    /* Sends and receives whose request is freed while they move */
    if (rank == 0) {
        static int big[100000], small = 3;
        for (int i = 0; i < 100000; i++)
            big[i] = i;
        MPI_Isend(big, 100000, MPI_INT, 1, 901, comm, &q[0]);
        MPI_Request_free(&q[0]);
        MPI_Isend(&small, 1, MPI_INT, 1, 902, comm, &q[0]);
        MPI_Request_free(&q[0]);
        MPI_Issend(&small, 1, MPI_INT, 1, 903, comm, &q[1]);
        MPI_Request_free(&q[1]);
        MPI_Recv(&y, 1, MPI_INT, 1, 904, comm, MPI_STATUS_IGNORE);
        print_line("freed sends: all arrived");
    } else if (rank == 1) {
        int *big = calloc(100000, sizeof *big), small = 0, sum = 0, late = 0;
        MPI_Irecv(&late, 1, MPI_INT, 0, 905, comm, &q[0]);
        MPI_Request_free(&q[0]);
        MPI_Recv(big, 100000, MPI_INT, 0, 901, comm, &status);
        for (int i = 0; i < 100000; i++)
            sum += big[i] == i;
        MPI_Recv(&small, 1, MPI_INT, 0, 902, comm, MPI_STATUS_IGNORE);
        MPI_Recv(&small, 1, MPI_INT, 0, 903, comm, MPI_STATUS_IGNORE);
        print_line("freed sends: %d of 100000, %d", sum, small);
        free(big);
        MPI_Send(&y, 1, MPI_INT, 0, 904, comm);
        /* The message for the freed receive comes before this one. */
        MPI_Recv(&small, 1, MPI_INT, 0, 906, comm, MPI_STATUS_IGNORE);
        print_line("freed receive: %d", late);
    }
    if (rank == 0) {
        y = 77;
        MPI_Send(&y, 1, MPI_INT, 1, 905, comm);
        MPI_Send(&y, 1, MPI_INT, 1, 906, comm);
    }
    barrier();
}

/* Wrong arguments: the error is MPI's own. */
static void wrong(void) {
    int x = 0;
    MPI_Request q;
    MPI_Status status;
    if (rank > 1)
        return;
    print_line("count %s", class_of(MPI_Send(&x, -1, MPI_INT, 1 - rank, 0, comm)));
    print_line("type %s", class_of(MPI_Send(&x, 1, MPI_DATATYPE_NULL, 1 - rank, 0, comm)));
    print_line("rank %s", class_of(MPI_Send(&x, 1, MPI_INT, size + 5, 0, comm)));
    print_line("tag %s", class_of(MPI_Send(&x, 1, MPI_INT, 1 - rank, -7, comm)));
    print_line("irecv count %s", class_of(MPI_Irecv(&x, -1, MPI_INT, 1 - rank, 0, comm, &q)));
    print_line("irecv type %s", class_of(MPI_Irecv(&x, 1, MPI_DATATYPE_NULL, 1 - rank, 0, comm, &q)));
    print_line("recv rank %s", class_of(MPI_Recv(&x, 1, MPI_INT, size + 5, 0, comm, &status)));
    print_line("isend rank %s", class_of(MPI_Isend(&x, 1, MPI_INT, -99, 0, comm, &q)));
    print_line("send_init tag %s", class_of(MPI_Send_init(&x, 1, MPI_INT, 1 - rank, -7, comm, &q)));
    print_line("ssend type %s", class_of(MPI_Ssend(&x, 1, MPI_DATATYPE_NULL, 1 - rank, 0, comm)));
    print_line("sendrecv count %s",
        class_of(MPI_Sendrecv(&x, 1, MPI_INT, 1 - rank, 0, &x, -1, MPI_INT, 1 - rank, 0, comm, &status)));
    print_line("replace count %s",
        class_of(MPI_Sendrecv_replace(&x, -1, MPI_INT, 1 - rank, 0, 1 - rank, 0, comm, &status)));
    print_line("probe rank %s", class_of(MPI_Probe(size + 5, 0, comm, &status)));
    print_line("null buffer %s", class_of(MPI_Send(NULL, 1, MPI_INT, 1 - rank, 0, comm)));
}

/* A buffer that is just large enough, filled again and again */
static void buffered(void) {
    enum { N = 50 };
    double x[N];
    int one, room, back_room = 0;
    void *back = NULL;
    MPI_Pack_size(1, MPI_DOUBLE, comm, &one);
    room = N * (one + MPI_BSEND_OVERHEAD);
    char *buffer = malloc((size_t)room);
    if (rank > 1) {
        free(buffer);
        return;
    }
    for (int round = 0; round < 3; round++) {
        MPI_Buffer_attach(buffer, room);
        for (int i = 0; i < N; i++) {
            x[i] = i + 0.5 + round;
            MPI_Bsend(&x[i], 1, MPI_DOUBLE, 1 - rank, i, comm);
            x[i] = -1;
        }
        for (int i = 0; i < N; i++) {
            MPI_Recv(&x[i], 1, MPI_DOUBLE, 1 - rank, i, comm, MPI_STATUS_IGNORE);
            CHECK(x[i] == i + 0.5 + round, "%d: %g", i, x[i]);
        }
        MPI_Buffer_detach(&back, &back_room);
        CHECK(back == buffer && back_room == room, "%p %d", back, back_room);
    }
    print_line("buffered: %d messages in %d bytes", N, room - N * MPI_BSEND_OVERHEAD);
    free(buffer);
}

/* A buffer whose size just fits an int. Most of it is never written. */
static void buffered_in_much(void) {
    const int room = 1300 * 1000 * 1000;
    char *buffer = malloc((size_t)room);
    int x = 0, back_room = 0, rc;
    void *back = NULL;
    if (buffer == NULL || rank > 1) {
        free(buffer);
        return;
    }
    for (int turn = 0; turn < 2; turn++) {
        rc = MPI_Buffer_attach(buffer, room);
        CHECK(rc == MPI_SUCCESS, "attach: %s", class_of(rc));
        MPI_Bsend(&rank, 1, MPI_INT, 1 - rank, 50, comm);
        MPI_Recv(&x, 1, MPI_INT, 1 - rank, 50, comm, MPI_STATUS_IGNORE);
        CHECK(x == 1 - rank, "%d", x);
        rc = MPI_Buffer_detach(&back, &back_room);
        CHECK(rc == MPI_SUCCESS, "detach: %s", class_of(rc));
        CHECK(back == buffer && back_room == room, "%p %d", back, back_room);
    }
    free(buffer);
}

/* Requests of several kinds in one array */
static int query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 42);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    return MPI_SUCCESS;
}
static int free_grequest(void *extra) { (void)extra; return MPI_SUCCESS; }
static int cancel_grequest(void *extra, int done) { (void)extra, (void)done; return MPI_SUCCESS; }

static void mixed(void) {
    enum { N = 70 }; /* more than fits the shim's own arrays */
    MPI_Request q[N];
    MPI_Status statuses[N];
    int in[N], out[N], sum = 0, total = -1;
    for (int i = 0; i < N; i++)
        q[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < N; i += 3)
        if (rank < 2) {
            out[i] = i * 10 + rank;
            MPI_Irecv(&in[i], 1, MPI_INT, 1 - rank, i, comm, &q[i]);
            if (i + 1 < N)
                MPI_Isend(&out[i], 1, MPI_INT, 1 - rank, i, comm, &q[i + 1]);
            else
                MPI_Send(&out[i], 1, MPI_INT, 1 - rank, i, comm);
        }
    MPI_Iallreduce(&rank, &total, 1, MPI_INT, MPI_SUM, comm, &q[2]);
    MPI_Grequest_start(query, free_grequest, cancel_grequest, NULL, &q[5]);
    MPI_Grequest_complete(q[5]);
    MPI_Waitall(N, q, statuses);
    for (int i = 0; i < N && rank < 2; i += 3) {
        int n = 0;
        MPI_Get_count(&statuses[i], MPI_INT, &n);
        sum += n == 1 && in[i] == i * 10 + 1 - rank;
    }
    show("generalised", 0, &statuses[5], MPI_BYTE);
    print_line("mixed: %d receives, reduced %d", sum, total);
}

/* Handles that are used again: communicators made and freed */
static void reused(void) {
    int x = rank, y = -1, good = 0;
    MPI_Status status;
    for (int i = 0; i < 30; i++) {
        MPI_Comm c;
        MPI_Comm_split(comm, i % 3 == 0 ? 0 : rank / 2, i % 2 ? -rank : rank, &c);
        int r, n;
        MPI_Comm_rank(c, &r);
        MPI_Comm_size(c, &n);
        MPI_Sendrecv(&x, 1, MPI_INT, (r + 1) % n, i, &y, 1, MPI_INT, (r + n - 1) % n, i, c, &status);
        good += status.MPI_SOURCE == (r + n - 1) % n;
        MPI_Comm_free(&c);
    }
    print_line("reused: %d", good);
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
static void isendrecv(void) {
    enum { N = 40000 };
    int *a = malloc(sizeof *a * N), *b = malloc(sizeof *b * N), next = (rank + 1) % size;
    int last = (rank + size - 1) % size, wrong_ones = 0;
    MPI_Request q;
    for (int n = 0; n <= N; n = n * 7 + 1) {
        for (int i = 0; i < n; i++)
            a[i] = rank * 100000 + i, b[i] = -1;
        MPI_Isendrecv(a, n, MPI_INT, next, 3, b, n, MPI_INT, last, 3, comm, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            wrong_ones += b[i] != last * 100000 + i;
        MPI_Isendrecv_replace(a, n, MPI_INT, next, 4, last, 4, comm, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            wrong_ones += a[i] != last * 100000 + i;
    }
    print_line("isendrecv: %d wrong", wrong_ones);
    free(a);
    free(b);
}
#else
static void isendrecv(void) {}
#endif

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* for matched messages */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);  /* the same, since MPI 4 */
    nobody();
    truncated(100, 40);
    truncated(1, 0);
    truncated(8000, 40);
    truncated(17000, 16384);
    truncated(200000, 100000);
    truncated_in_parts();
    halfway();
    refused();
    cancelled();
    unfinished();
    wrong();
    barrier();
    buffered();
    barrier();
    buffered_in_much();
    barrier();
    mixed();
    reused();
    isendrecv();
    barrier();
    MPI_Comm_free(&comm);
    return finish();
}
