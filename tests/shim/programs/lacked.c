/*
 * lacked - sends a message around, and prints the result of MPI_Request_get_status.
 */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int in = -1, flag = 0;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in == (rank + size - 1) % size, "got %d", in);
    int rc = MPI_Request_get_status(MPI_REQUEST_NULL, &flag, MPI_STATUS_IGNORE);
    print_line("%s", rc == MPI_SUCCESS ? "answered" : "refused");
    return finish();
}
