/* Starts N chains: processes that fork and end at once, in new sessions, for S seconds.
   They leave the machine's other process numbers to others: dead ones keep theirs until
   their parent has read their status. As root they get a user of their own, because no
   limit counts the processes of root.
   usage: chains S N */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST 4000
#define OWN_USER 64207

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    struct rlimit const few = {MOST, MOST};
    if (setrlimit(RLIMIT_NPROC, &few) != 0 || (geteuid() == 0 && setuid(OWN_USER) != 0)) {
        return 3;
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
