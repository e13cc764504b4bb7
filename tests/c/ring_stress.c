/*
 * Producers race into one ring while a consumer empties it; some producers are killed
 * in mid-post. Every request that was reported as posted must be taken exactly once, and
 * the ring must still work afterwards.
 *
 *   ring_stress PRODUCERS POSTS      threads: checks exactly-once (run under TSan too)
 *   ring_stress kill ROUNDS          processes: checks that a killed producer blocks no other
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cosched/ring.h"

struct producer {
    pthread_t thread;
    struct cosched_ring *ring;
    uint32_t number;
    uint32_t posts;
    uint32_t dropped;
    unsigned char *taken;
};

static void *produce(void *argument) {
    struct producer *self = argument;
    for (uint32_t i = 0; i < self->posts; i++)
        if (cosched_ring_post(self->ring, ((uint64_t)self->number << 32) | i) == 0)
            __atomic_store_n(&self->taken[i], (unsigned char)(self->taken[i] | 1), __ATOMIC_RELAXED);
        else {
            self->dropped++;
            sched_yield(); /* let the consumer in, or nearly everything is dropped */
        }
    return NULL;
}

static int race(uint32_t producers, uint32_t posts) {
    static struct cosched_ring ring;
    struct producer *all = calloc(producers, sizeof *all);
    unsigned char **seen = calloc(producers, sizeof *seen);
    uint64_t payload, taken = 0, dropped = 0;
    int wrong = 0, running = 1;
    for (uint32_t p = 0; p < producers; p++) {
        all[p] = (struct producer){.ring = &ring, .number = p, .posts = posts};
        all[p].taken = calloc(posts, 1);
        seen[p] = calloc(posts, 1);
        pthread_create(&all[p].thread, NULL, produce, &all[p]);
    }
    while (running || taken + dropped < (uint64_t)producers * posts) {
        while (cosched_ring_take(&ring, &payload)) {
            uint32_t p = (uint32_t)(payload >> 32), i = (uint32_t)payload;
            if (p >= producers || i >= posts || seen[p][i]++)
                wrong++;
            taken++;
        }
        if (running && __atomic_load_n(&ring.dropped, __ATOMIC_RELAXED) + taken ==
                           (uint64_t)producers * posts) {
            for (uint32_t p = 0; p < producers; p++) {
                pthread_join(all[p].thread, NULL);
                dropped += all[p].dropped;
            }
            running = 0;
        }
    }
    for (uint32_t p = 0; p < producers; p++)
        for (uint32_t i = 0; i < posts; i++)
            if ((all[p].taken[i] & 1) != seen[p][i])
                wrong++;
    printf("taken %llu dropped %llu wrong %d\n", (unsigned long long)taken,
           (unsigned long long)dropped, wrong);
    return wrong != 0 || taken + dropped != (uint64_t)producers * posts;
}

static int survive_kills(uint32_t rounds) {
    struct cosched_ring *ring =
        mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t payload, taken = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t before = taken;
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                cosched_ring_post(ring, 7);
        }
        while (taken < before + 100 + round % 97)
            taken += (uint64_t)cosched_ring_take(ring, &payload);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while (cosched_ring_take(ring, &payload))
            ;
        /* A ring that a dead producer blocks would refuse this or never give it back. */
        if (cosched_ring_post(ring, 9) != 0 || !cosched_ring_take(ring, &payload) || payload != 9) {
            printf("blocked after round %u\n", round);
            return 1;
        }
    }
    printf("survived %u kills\n", rounds);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "kill") == 0)
        return survive_kills((uint32_t)atoi(argv[2]));
    if (argc == 3)
        return race((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]));
    fprintf(stderr, "usage: ring_stress PRODUCERS POSTS | ring_stress kill ROUNDS\n");
    return 2;
}
