/* Starts N chains: processes that fork and end at once, in new sessions, for S seconds.
   usage: chains S N */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    time_t const end = time(NULL) + atoi(argv[1]);
    int const count = atoi(argv[2]);

    for (int number = 0; number < count; number++) {
        if (fork() != 0) {
            continue;
        }
        close(0);
        close(1);
        close(2);
        signal(SIGTERM, SIG_IGN);
        while (time(NULL) < end) {
            pid_t const next = fork();
            if (next > 0) {
                _exit(0);
            }
            if (next == 0) {
                setsid();
            }
        }
        _exit(0);
    }
    return 0;
}
