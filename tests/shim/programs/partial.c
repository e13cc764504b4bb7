/*
 * partial - MPI_Waitall on rank 0 gets one message, and one that is too long; a third is sent
 * only after MPI_Waitall has returned. Prints what became of the three requests.
 */
#include "check.h"

static const char *state_of(MPI_Request request) {
    return request == MPI_REQUEST_NULL ? "freed" : "kept";
}

static void receive(void) {
    int in[3] = {-1, -1, -1}, class = MPI_SUCCESS;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Error_class(MPI_Waitall(3, requests, statuses), &class);
    print_line("waitall: %s, received %s, too long %s, pending %s",
        class == MPI_ERR_IN_STATUS ? "in status" : "other", state_of(requests[0]),
        state_of(requests[1]), state_of(requests[2]));
    MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    print_line("values: %d, %d", in[0], in[2]);
}

static void send(void) {
    int out[2] = {10, 11};
    MPI_Send(&out[0], 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Send(out, 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&out[1], 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0)
        receive();
    else
        send();
    return finish();
}
