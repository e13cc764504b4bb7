/* One rank of the runs in test_cosched_run.py; its first argument selects the action. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void print_environment(int count, char **names)
{
    for (int i = 0; i < count; i++) {
        const char *value = getenv(names[i]);
        printf("%d %s=%s\n", rank, names[i], value ? value : "");
    }
}

/* Up to "end": Open MPI 5.0 does not pass the end of a piped input on. */
static void copy_input(void)
{
    char line[256];
    while (rank == 0 && fgets(line, sizeof line, stdin) && strcmp(line, "end\n"))
        fputs(line, stdout);
}

static void print_lines(int count)
{
    for (int i = 0; rank == 0 && i < count; i++)
        printf("line %d of many\n", i);
}

static void add_ranks(void)
{
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, sum %d\n", size, sum);
}

static void wait_for_ever(void)
{
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "add";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "add"))
        add_ranks();
    else if (!strcmp(what, "environment"))
        print_environment(argc - 2, argv + 2);
    else if (!strcmp(what, "copy"))
        copy_input();
    else if (!strcmp(what, "lines"))
        print_lines(atoi(argv[2]));
    else if (!strcmp(what, "wait"))
        wait_for_ever();
    else if (!strcmp(what, "die") && rank == size - 1)
        raise(SIGKILL);
    MPI_Finalize();
    return !strcmp(what, "exit") ? atoi(argv[2]) : 0;
}
