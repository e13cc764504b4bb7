/*
 * optional - a program that works with and without MPI: it has a weak symbol and no library.
 */
#include <stdio.h>

extern int MPI_Init(int *argc, char ***argv) __attribute__((weak));

int main(int argc, char **argv) {
    printf("%d\n", MPI_Init == NULL ? 0 : MPI_Init(&argc, &argv));
    return 0;
}
