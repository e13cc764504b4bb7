/*
 * errors [no-memory|many] - prints which error each call returns, and how often it reaches the
 * error handler of the communicator: once.
 *
 *   (none)      each call with a datatype, with one that was never committed
 *   no-memory   on rank 1, where the shim gets no memory (scarce.c): a send that needs a copy
 *   many        more persistent requests in a call than the shim can handle without memory
 */
#include "check.h"

static MPI_Comm comm;
static int calls, class_seen;

static void count_error(MPI_Comm *where, int *error, ...) {
    (void)where;
    calls++;
    MPI_Error_class(*error, &class_seen);
}

static const char *name_of(int class) {
    return class == MPI_SUCCESS ? "ok" : class == MPI_ERR_TYPE ? "type" : class == MPI_ERR_NO_MEM ? "no memory" : "other";
}

static void print_result(const char *what, int rc) {
    int class = MPI_SUCCESS;
    MPI_Error_class(rc, &class);
    print_line("%s: %s, handler called %d times, with %s", what, name_of(class), calls, name_of(class_seen));
    calls = 0;
    class_seen = MPI_SUCCESS;
}

static void never_committed(void) {
    char in[64] = "", out[64] = "";
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype raw;
    MPI_Request q = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Type_vector(4, 1, 2, MPI_INT, &raw);
    for (int n = 1; n <= 2; n++) {
        print_line("%d elements", n);
        print_result("send", MPI_Send(out, n, raw, to, 1, comm));
        print_result("isend", MPI_Isend(out, n, raw, to, 1, comm, &q));
        print_result("ssend", MPI_Ssend(out, n, raw, to, 1, comm));
        print_result("send_init", MPI_Send_init(out, n, raw, to, 1, comm, &q));
        print_result("recv", MPI_Recv(in, n, raw, from, 1, comm, &status));
        print_result("irecv", MPI_Irecv(in, n, raw, from, 1, comm, &q));
        print_result("recv_init", MPI_Recv_init(in, n, raw, from, 1, comm, &q));
        print_result("sendrecv, sent", MPI_Sendrecv(out, n, raw, to, 1, in, 8, MPI_INT, from, 1, comm, &status));
        print_result("sendrecv, received", MPI_Sendrecv(out, 1, MPI_INT, to, 1, in, n, raw, from, 1, comm, &status));
        print_result("sendrecv_replace", MPI_Sendrecv_replace(in, n, raw, to, 1, from, 1, comm, &status));
    }
    /* Some libraries send zero such elements, others return an error. */
    if (MPI_Send(out, 0, raw, to, 2, comm) == MPI_SUCCESS) {
        print_result("none", MPI_SUCCESS);
        print_result("none received", MPI_Recv(in, 0, raw, from, 2, comm, &status));
        print_result("none sent later", MPI_Isend(out, 0, raw, to, 3, comm, &q));
        print_result("some received", MPI_Recv(in, 2, MPI_INT, from, 3, comm, &status));
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    } else
        print_result("none", MPI_ERR_TYPE);
    MPI_Type_free(&raw);
}

/* Only the rank without memory prints. Its messages must not be sent: no rank receives them. */
static void no_memory(void) {
    static char out[1 << 12];
    MPI_Datatype type;
    MPI_Request q = MPI_REQUEST_NULL;
    if (rank != 1)
        return;
    MPI_Type_vector(1 << 11, 1, 2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    print_result("isend", MPI_Isend(out, 1, type, 0, 1, comm, &q));
    print_result("send_init", MPI_Send_init(out, 1, type, 0, 1, comm, &q));
    MPI_Type_free(&type);
}

static void many(void) {
    enum { N = 40 };
    int in[N], out[N], came = 0, other = 1 - rank;
    MPI_Request q[2 * N];
    for (int i = 0; i < N; i++) {
        MPI_Recv_init(&in[i], 1, MPI_INT, other, i, comm, &q[i]);
        MPI_Send_init(&out[i], 1, MPI_INT, other, i, comm, &q[N + i]);
    }
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < N; i++)
            in[i] = -1, out[i] = i * 10 + turn;
        print_result("startall", MPI_Startall(2 * N, q));
        print_result("waitall", MPI_Waitall(2 * N, q, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            came += in[i] == i * 10 + turn;
    }
    print_line("%d came", came);
    for (int i = 0; i < 2 * N; i++)
        MPI_Request_free(&q[i]);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler;
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    if (argc > 1 && strcmp(argv[1], "many") == 0)
        many();
    else if (argc > 1)
        no_memory();
    else
        never_committed();
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    return finish();
}
