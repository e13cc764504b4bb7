/* exchange BYTES: a task that speaks PMI-1 itself and exchanges tables as MPI_Init does.
 *
 * It puts BYTES and enters a barrier, enters another barrier, and does the first once more.
 * The second exchange lets all nodes begin the third at the same time. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 2048, VALUE = 1000, EXCHANGES = 3 };

static int pmi;
static FILE *answers;

/* Sends what is in line, and reads the answer into it; 0, or -1 if there is none. */
static int ask(char *line)
{
    if (dprintf(pmi, "%s\n", line) < 0)
        return -1;
    return fgets(line, LINE, answers) ? 0 : -1;
}

/* Puts values of size bytes in all under the names of an exchange and a rank. */
static int put(const char *rank, int exchange, size_t size)
{
    char line[LINE], value[VALUE + 1];
    for (int number = 0; size > 0; number++) {
        size_t part = size < VALUE ? size : VALUE;
        memset(value, 'v', part);
        value[part] = '\0';
        snprintf(line, sizeof line, "cmd=put kvsname=k key=%d-%s-%d value=%s", exchange,
                 rank, number, value);
        if (ask(line))
            return -1;
        size -= part;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *number = getenv("PMI_FD"), *rank = getenv("PMI_RANK");
    char line[LINE] = "cmd=init pmi_version=1 pmi_subversion=1";
    if (argc != 2 || !number || !rank) {
        fprintf(stderr, "exchange: needs BYTES, and the PMI of a domain\n");
        return 2;
    }
    pmi = atoi(number);
    answers = fdopen(pmi, "r");
    if (!answers || ask(line))
        return 1;
    for (int exchange = 0; exchange < EXCHANGES; exchange++) {
        if (exchange != 1 && put(rank, exchange, strtoul(argv[1], NULL, 10)))
            return 1;
        strcpy(line, "cmd=barrier_in");
        if (ask(line))
            return 1;
    }
    strcpy(line, "cmd=finalize");
    return ask(line) ? 1 : 0;
}
