#define _GNU_SOURCE
#include "boundaries.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "cosched/mark.h"
#include "cosched/page.h"

/* The path of the page, set by the node's agent. */
static const char VARIABLE[] = "COSCHED_MALLEABLE";
/* Defined by the shim, if it is loaded. */
static const char WAITS[] = "cosched_interposer_waited_ns";
/* A rank that waits looks again this often. */
static const uint64_t NAP_NS = 100000000;
static const double NS_PER_S = 1e9;

static const uint64_t *find_waits(void) {
    const uint64_t *(*function)(void);
    *(void **)&function = dlsym(RTLD_DEFAULT, WAITS);
    return function == NULL ? NULL : function();
}

static int explain(char *why, const char *path, const char *what, int error) {
    snprintf(why, COSCHED_WHY_BYTES, "page %.150s: %s", path, what);
    return error;
}

static int check_page(const struct cosched_page *page, uint64_t bytes, const char *path,
                      char *why) {
    const int checked = cosched_page_check(page, bytes);
    if (checked == -EPROTONOSUPPORT)
        return explain(why, path,
                       "made by another version of cosched; use that of the node's agent "
                       "(cosched --version)",
                       checked);
    return checked == 0 ? 0 : explain(why, path, "is not a page of cosched", checked);
}

static int map_page(struct cosched_link *link, int file, const char *path, char *why) {
    struct stat found;
    void *mapped;
    int error;
    if (fstat(file, &found) != 0)
        return explain(why, path, strerror(errno), -errno);
    if ((uint64_t)found.st_size < sizeof *link->page ||
        (found.st_uid != 0 && found.st_uid != geteuid()))
        return explain(why, path, "is not the page of a job of this user", -EPERM);
    mapped = mmap(NULL, sizeof *link->page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return explain(why, path, strerror(errno), -errno);
    error = check_page(mapped, (uint64_t)found.st_size, path, why);
    if (error != 0)
        munmap(mapped, sizeof *link->page);
    else
        link->page = mapped;
    return error;
}

static int take_slot(struct cosched_link *link, char *why) {
    const int slot = cosched_page_join(link->page, getpid());
    if (slot >= 0) {
        link->slot = (uint32_t)slot;
        return 0;
    }
    munmap(link->page, sizeof *link->page);
    link->page = NULL;
    snprintf(why, COSCHED_WHY_BYTES, "a node has %d ranks of the job, which is the most",
             COSCHED_PAGE_SLOTS);
    return slot;
}

int cosched_link_open(struct cosched_link *link, char why[COSCHED_WHY_BYTES]) {
    const char *path = getenv(VARIABLE);
    int file, error;
    memset(link, 0, sizeof *link);
    link->waits_ns = find_waits();
    if (path == NULL || *path == 0)
        return 0;
    file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return explain(why, path, strerror(errno), -errno);
    error = map_page(link, file, path, why);
    close(file);
    if (error == 0)
        error = take_slot(link, why);
    link->has_agent = error == 0;
    return error;
}

int cosched_link_without_agent(struct cosched_link *link) {
    void *mapped;
    cosched_link_leave(link);
    mapped = mmap(NULL, sizeof *link->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0);
    if (mapped == MAP_FAILED)
        return -errno;
    link->page = mapped;
    link->slot = (uint32_t)cosched_page_join(link->page, getpid());
    return 0;
}

struct cosched_spot cosched_link_spot(const struct cosched_link *link) {
    struct cosched_spot spot = {.place = link->page->header.place};
    memcpy(spot.host, link->page->header.host, COSCHED_HOST_BYTES - 1);
    return spot;
}

void cosched_link_enter(struct cosched_link *link, int64_t step, int32_t rank) {
    cosched_page_enter(link->page, link->slot, (uint64_t)step, rank);
}

bool cosched_link_stops_at(struct cosched_link *link, int64_t step) {
    const uint64_t boundary = (uint64_t)step;
    int turn = cosched_page_boundary(link->page, link->slot, boundary, link->waits_ns);
    uint64_t since_ns;
    cosched_mark();
    if (turn == COSCHED_PAGE_GO_ON)
        return false;
    since_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    while (turn == COSCHED_PAGE_WAIT)
        turn = cosched_page_wait(link->page, link->slot, boundary, NAP_NS);
    link->waited_ns = cosched_clock_ns(CLOCK_MONOTONIC) - since_ns;
    return turn == COSCHED_PAGE_CHANGE;
}

int cosched_link_change(const struct cosched_link *link, struct cosched_change *change) {
    const struct cosched_page_order *order = &link->page->order;
    const uint32_t bytes =
        order->bytes < COSCHED_PAGE_ORDER_BYTES ? order->bytes : COSCHED_PAGE_ORDER_BYTES;
    const int error = cosched_change_decode(change, order->data, bytes);
    change->generation = order->generation;
    return error;
}

void cosched_link_begin_last_change(struct cosched_link *link) {
    cosched_page_set_state(link->page, link->slot, COSCHED_PAGE_LEAVING);
}

void cosched_link_end_loop(struct cosched_link *link) {
    if (link->page != NULL)
        cosched_page_set_state(link->page, link->slot, COSCHED_PAGE_ENDED);
}

void cosched_link_leave(struct cosched_link *link) {
    if (link->page == NULL)
        return;
    cosched_page_leave(link->page, link->slot);
    munmap(link->page, sizeof *link->page);
    link->page = NULL;
    link->has_agent = false;
}

void cosched_link_want(struct cosched_link *link, int32_t minimum, int32_t ideal) {
    link->page->wants.ideal = (uint32_t)ideal;
    link->page->wants.minimum = (uint32_t)minimum;
}

void cosched_link_predict(struct cosched_link *link,
                          const struct cosched_page_prediction *prediction) {
    cosched_page_predict(link->page, prediction);
}

void cosched_link_ask(struct cosched_link *link, int32_t nodes) {
    cosched_page_ask(link->page, (uint32_t)nodes);
}

void cosched_link_report(struct cosched_link *link, uint64_t generation, int32_t ranks,
                         const struct cosched_times *times, uint64_t moved_bytes,
                         const char *refused) {
    struct cosched_page_result *result = &link->page->result;
    result->wait_ns = times->wait_ns;
    result->spawn_ns = times->spawn_ns;
    result->connect_ns = times->connect_ns;
    result->start_ns = times->start_ns;
    result->move_ns = times->move_ns;
    result->resume_ns = times->resume_ns;
    result->ranks = (uint32_t)ranks;
    result->moved_bytes = moved_bytes;
    result->outcome = refused == NULL ? COSCHED_PAGE_DONE : COSCHED_PAGE_REFUSED;
    snprintf(result->reason, sizeof result->reason, "%s", refused == NULL ? "" : refused);
    cosched_page_report(link->page, generation);
}

static double mean_s(const struct cosched_link *link, uint64_t ns) {
    const uint64_t steps = link->page->slots[link->slot].steps;
    return steps == 0 ? -1.0 : (double)ns / (double)steps / NS_PER_S;
}

double cosched_link_exec_time(const struct cosched_link *link) {
    return link->page == NULL ? -1.0 : mean_s(link, link->page->slots[link->slot].exec_ns);
}

double cosched_link_exec_time_comm(const struct cosched_link *link) {
    return link->page == NULL || link->waits_ns == NULL
               ? -1.0
               : mean_s(link, link->page->slots[link->slot].comm_ns);
}
