/*
 * kicker CPU ROUNDS - threads that kick a CPU, started, used and stopped; and one for a CPU
 * that cannot be: it must leave nothing behind.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "kick.h"

int main(int argc, char **argv) {
    struct cosched_kicker *kicker = NULL;
    if (argc != 3)
        return 2;
    uint32_t cpu = (uint32_t)strtoul(argv[1], NULL, 10);
    for (int i = 0; i < atoi(argv[2]); i++) {
        int error = cosched_kicker_start(&kicker, cpu, 3, 100000);
        if (error != 0) {
            fprintf(stderr, "CPU %u: %d\n", cpu, error);
            return error == -EPERM ? 3 : 1;
        }
        cosched_kicker_kick(kicker);
        cosched_kicker_kick(kicker);
        cosched_kicker_stop(kicker);
    }
    if (cosched_kicker_start(&kicker, UINT32_MAX, 3, 100000) != -EINVAL)
        return 1;
    puts("stopped");
    return 0;
}
