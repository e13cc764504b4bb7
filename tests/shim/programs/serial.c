/*
 * serial - a serial stand-in for MPI, as MUMPS, LAMMPS and CESM bring along: MPI's names, one
 * process. Handles are int, or pointers with -DWIDE. Compiled as a library, -DPROGRAM makes the
 * program that uses it.
 */
#include <stddef.h>
#include <stdio.h>

#ifdef WIDE
typedef char *handle;
#else
typedef int handle;
#endif

int MPI_Init(int *argc, char ***argv);
int MPI_Barrier(handle comm);
int MPI_Sendrecv(const void *out, int sent, handle sent_type, int to, int sent_tag, void *in,
                 int wanted, handle wanted_type, int from, int wanted_tag, handle comm, void *status);
int MPI_Allreduce(const void *in, void *out, int count, handle type, handle op, handle comm);
int MPI_Finalize(void);

/* An address that a handle of 32 bits cannot hold. */
#define COMM ((handle)0x700000000001)
#define TYPE ((handle)0x700000000002)

#ifdef PROGRAM
int main(int argc, char **argv) {
    int in = 5, out = -1, came = -1, status = 0;
    int failures = MPI_Init(&argc, &argv);
    failures += MPI_Barrier(COMM);
    failures += MPI_Allreduce(&in, &out, 1, TYPE, TYPE, COMM);
    failures += MPI_Sendrecv(&in, 1, TYPE, 0, 3, &came, 1, TYPE, 0, 3, COMM, &status);
    failures += MPI_Finalize();
    printf("reduced %d, received %d, failures %d\n", out, came, failures);
    return failures != 0;
}
#else
int MPI_Init(int *argc, char ***argv) { return argc == NULL || argv == NULL; }

int MPI_Barrier(handle comm) { return comm != COMM; }

int MPI_Allreduce(const void *in, void *out, int count, handle type, handle op, handle comm) {
    *(int *)out = *(const int *)in;
    return count != 1 || type != TYPE || op != TYPE || comm != COMM;
}

int MPI_Sendrecv(const void *out, int sent, handle sent_type, int to, int sent_tag, void *in,
                 int wanted, handle wanted_type, int from, int wanted_tag, handle comm,
                 void *status) {
    *(int *)in = *(const int *)out;
    return sent != 1 || wanted != 1 || sent_type != TYPE || wanted_type != TYPE || to != 0 ||
           from != 0 || sent_tag != 3 || wanted_tag != 3 || comm != COMM || status == NULL;
}

int MPI_Finalize(void) { return 0; }
#endif
