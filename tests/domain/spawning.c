/* Spawns itself: spawning CHILDREN [MORE]. Parents and children add up their ranks over a
   merged communicator; rank 0 of the parents prints the sum. With MORE a second program of
   so many ranks is spawned, and children check MPI_APPNUM. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int appnum(void) {
    int *value, found;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &found);
    return found ? *value : -1;
}

static MPI_Comm spawn(char *program, int children, int more) {
    MPI_Comm others;
    if (more == 0) {
        MPI_Comm_spawn(program, MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &others, MPI_ERRCODES_IGNORE);
        return others;
    }
    char *programs[] = {program, program};
    int ranks[] = {children, more}, errors[children + more];
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm_spawn_multiple(2, programs, MPI_ARGVS_NULL, ranks, infos, 0, MPI_COMM_WORLD,
                            &others, errors);
    for (int i = 0; i < children + more; i++)
        if (errors[i] != MPI_SUCCESS)
            MPI_Abort(MPI_COMM_WORLD, 9);
    return others;
}

int main(int argc, char **argv) {
    int rank, mine, size;
    MPI_Comm others, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&others);
    int child = others != MPI_COMM_NULL;
    if (!child)
        others = spawn(argv[0], atoi(argv[1]), argc > 2 ? atoi(argv[2]) : 0);
    MPI_Intercomm_merge(others, child, &all);
    MPI_Comm_rank(all, &mine);
    MPI_Comm_size(all, &size);
    int value[2] = {mine, child ? appnum() : 0}, sums[2];
    MPI_Allreduce(value, sums, 2, MPI_INT, MPI_SUM, all);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!child && rank == 0)
        printf("%d ranks, sum %d, programs %d\n", size, sums[0], sums[1]);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
    MPI_Finalize();
    return 0;
}
