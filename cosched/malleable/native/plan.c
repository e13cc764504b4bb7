#include "plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most ranks of a job. */
#define RANKS_MOST 1048576

static bool has_place(const uint32_t *places, uint32_t count, uint32_t place) {
    for (uint32_t i = 0; i < count; i++)
        if (places[i] == place)
            return true;
    return false;
}

static bool leaves(const struct cosched_change *change, const struct cosched_spot *spot) {
    return has_place(change->leaving, change->leaving_count, spot->place);
}

static int check(const struct cosched_rank *ranks, uint32_t count,
                 const struct cosched_change *change, char *why) {
    uint64_t coming = 0;
    for (uint32_t i = 0; i < change->leaving_count; i++) {
        uint32_t rank = 0;
        while (rank < count && ranks[rank].spot.place != change->leaving[i])
            rank++;
        if (rank == count) {
            snprintf(why, COSCHED_WHY_BYTES,
                     "node %u has no rank of the job, so it cannot leave", change->leaving[i]);
            return -EINVAL;
        }
    }
    for (uint32_t i = 0; i < change->arriving_count; i++) {
        coming += change->arriving[i].ranks;
        if (leaves(change, &change->arriving[i].spot)) {
            snprintf(why, COSCHED_WHY_BYTES, "node %u cannot leave and come in one change",
                     change->arriving[i].spot.place);
            return -EINVAL;
        }
    }
    if (count + coming > RANKS_MOST) {
        snprintf(why, COSCHED_WHY_BYTES, "a job cannot have more than %d ranks", RANKS_MOST);
        return -EINVAL;
    }
    return 0;
}

static int compare_worlds(const void *one, const void *other) {
    const uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;
    return (left > right) - (left < right);
}

/* Finds the worlds that end, without doubles. Their array has room for all ranks. */
static void find_ended(struct cosched_plan *plan, const struct cosched_rank *ranks,
                       const struct cosched_change *change) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < plan->before; i++)
        if (leaves(change, &ranks[i].spot))
            plan->ended_worlds[found++] = ranks[i].world;
    qsort(plan->ended_worlds, found, sizeof *plan->ended_worlds, compare_worlds);
    for (uint32_t i = 0; i < found; i++)
        if (i == 0 || plan->ended_worlds[i] != plan->ended_worlds[i - 1])
            plan->ended_worlds[plan->ended++] = plan->ended_worlds[i];
}

static bool ends(const struct cosched_plan *plan, const struct cosched_rank *rank) {
    return bsearch(&rank->world, plan->ended_worlds, plan->ended, sizeof *plan->ended_worlds,
                   compare_worlds) != NULL;
}

/* A rank of the new world takes the next place in the order. */
static void add_fresh(struct cosched_plan *plan, const struct cosched_spot *spot,
                      uint64_t generation) {
    plan->order[plan->after] = plan->before + plan->spawned;
    plan->ranks[plan->after++] = (struct cosched_rank){generation, *spot};
    plan->spawned_spots[plan->spawned++] = *spot;
}

static int take_memory(struct cosched_plan *plan, const struct cosched_change *change) {
    uint64_t most = (uint64_t)plan->before + 1;
    for (uint32_t i = 0; i < change->arriving_count; i++)
        most += change->arriving[i].ranks;
    plan->spawned_spots = calloc(most, sizeof *plan->spawned_spots);
    plan->order = calloc(most, sizeof *plan->order);
    plan->ranks = calloc(most, sizeof *plan->ranks);
    plan->ended_worlds = calloc(most, sizeof *plan->ended_worlds);
    return plan->spawned_spots && plan->order && plan->ranks && plan->ended_worlds ? 0 : -ENOMEM;
}

int cosched_plan_make(struct cosched_plan *plan, const struct cosched_rank *ranks, uint32_t count,
                      const struct cosched_change *change, char why[256]) {
    int error;
    memset(plan, 0, sizeof *plan);
    plan->before = count;
    if ((error = check(ranks, count, change, why)) != 0)
        return error;
    if ((error = take_memory(plan, change)) != 0) {
        snprintf(why, COSCHED_WHY_BYTES, "no memory for the plan of a change");
        cosched_plan_free(plan);
        return error;
    }
    find_ended(plan, ranks, change);
    for (uint32_t i = 0; i < count; i++) {
        if (!ends(plan, &ranks[i])) {
            plan->order[plan->after] = i;
            plan->ranks[plan->after++] = ranks[i];
        } else if (!leaves(change, &ranks[i].spot)) {
            add_fresh(plan, &ranks[i].spot, change->generation);
        }
    }
    for (uint32_t i = 0; i < change->arriving_count; i++)
        for (uint32_t each = 0; each < change->arriving[i].ranks; each++)
            add_fresh(plan, &change->arriving[i].spot, change->generation);
    if (plan->after == 0) {
        snprintf(why, COSCHED_WHY_BYTES, "no rank of the job would stay");
        cosched_plan_free(plan);
        return -EINVAL;
    }
    return 0;
}

void cosched_plan_free(struct cosched_plan *plan) {
    free(plan->spawned_spots);
    free(plan->order);
    free(plan->ranks);
    free(plan->ended_worlds);
    memset(plan, 0, sizeof *plan);
}
