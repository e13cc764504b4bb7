#include "status/copy_memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/lock.h"

/* Size classes of 4 KiB, 8 KiB, ... 16 MiB, each with some extra bytes for what stands in front
 * of the data. For smaller blocks malloc is as good. Larger messages are not copied (wire.h). */
#define FIRST_SHIFT 12
#define CLASSES 13
#define EXTRA 64
#ifdef __SANITIZE_ADDRESS__
#define KEPT_MAX 0u /* to find blocks that are used after they were given back */
#else
#define KEPT_MAX (64u << 20) /* all classes together */
#endif

/* In front of each block: its class, and while it is free the next free one. */
struct head {
    struct head *next;
    uint64_t class;
};
_Static_assert(sizeof(struct head) % 16 == 0, "what follows is aligned");

enum { SMALL = CLASSES };

static struct cosched_lock lock;
static struct head *kept[CLASSES];
static size_t kept_bytes;

static size_t class_bytes(uint64_t class) { return ((size_t)1 << (FIRST_SHIFT + class)) + EXTRA; }

static uint64_t class_of(size_t bytes) {
    uint64_t class = 0;
    if (bytes <= class_bytes(0) / 2)
        return SMALL;
    while (class < CLASSES && bytes > class_bytes(class))
        class++;
    return class;
}

void *cosched_copy_memory_take(size_t bytes) {
    uint64_t class = class_of(bytes);
    struct head *head = NULL;
    if (class < CLASSES) {
        cosched_lock_take(&lock);
        head = kept[class];
        if (head != NULL) {
            kept[class] = head->next;
            kept_bytes -= class_bytes(class);
        }
        cosched_lock_give(&lock);
        bytes = class_bytes(class);
    }
    if (head == NULL)
        head = malloc(sizeof *head + bytes);
    if (head == NULL)
        return NULL;
    head->class = class;
    return head + 1;
}

void cosched_copy_memory_give(void *block) {
    struct head *head = block;
    if (head == NULL)
        return;
    head--;
    if (head->class < CLASSES) {
        size_t bytes = class_bytes(head->class);
        cosched_lock_take(&lock);
        if (kept_bytes + bytes <= KEPT_MAX) {
            head->next = kept[head->class];
            kept[head->class] = head;
            kept_bytes += bytes;
            head = NULL;
        }
        cosched_lock_give(&lock);
    }
    free(head);
}
