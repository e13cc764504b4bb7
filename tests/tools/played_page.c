/*
 * played_page.c - preloaded below a program in C whose agents are played: finds the page of the node
 * that a rank stands on, and sets its variable. The same as malleable_rank.py.
 *
 * COSCHED_PLAYED names the folder with the pages and, for each generation, a file with the nodes of
 * its ranks.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void find_page(void) {
    const char *folder = getenv("COSCHED_PLAYED"), *generation = getenv("COSCHED_GENERATION");
    const char *rank = getenv("PMI_RANK") != NULL ? getenv("PMI_RANK") : getenv("PMIX_RANK");
    char path[4096];
    FILE *file;
    int node = -1;
    if (folder == NULL || rank == NULL)
        return;
    snprintf(path, sizeof path, "%s/nodes-%s", folder, generation == NULL ? "0" : generation);
    file = fopen(path, "r");
    for (int i = 0; file != NULL && i <= atoi(rank); i++)
        if (fscanf(file, "%d", &node) != 1)
            node = -1;
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof path, "%s/page-%d", folder, node);
    setenv("COSCHED_MALLEABLE", path, 1);
}
