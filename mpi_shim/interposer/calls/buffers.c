/*
 * Replaces the buffers of MPI_Bsend by larger ones. Users size them for their own messages, and
 * the status byte makes each message one byte longer. So MPI gets a larger buffer, which has
 * room for the growth of as many messages as can possibly fit. When it is detached, the user
 * gets the user's own back.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/handles.h"
#include "base/state.h"
#include "calls/do.h"

/* One byte more may cost a message that much more, for alignment. No message takes less than
 * half of what MPI asks users to add for each. */
#define GROWTH 32
#define LEAST (MPI_BSEND_OVERHEAD / 2)

/* A buffer of the shim's own that stands in for a user's; its address is the handle. */
struct stand_in {
    struct cosched_entry entry;
    void *ours;
    void *user;
    MPI_Count user_bytes;
};
_Static_assert(offsetof(struct stand_in, entry) == 0, "an entry is its stand-in");

static struct cosched_handles stand_ins;

static MPI_Count grown(MPI_Count bytes) {
    return bytes + (bytes / LEAST + 1) * GROWTH;
}

/* NULL where the user's own buffer is to be attached: where there is no real buffer, or no
 * memory. Without memory MPI_Bsend may find the buffer too small, and returns that error. */
static struct stand_in *make(void *buffer, MPI_Count bytes, MPI_Count limit) {
    struct stand_in *made;
    if (!cosched_state_uses_prefix() || buffer == NULL || bytes <= 0 || grown(bytes) > limit)
        return NULL;
#ifdef MPI_BUFFER_AUTOMATIC
    if (buffer == MPI_BUFFER_AUTOMATIC)
        return NULL;
#endif
    made = malloc(sizeof *made);
    if (made == NULL)
        return NULL;
    made->ours = malloc((size_t)grown(bytes));
    made->user = buffer;
    made->user_bytes = bytes;
    if (made->ours != NULL)
        return made;
    free(made);
    return NULL;
}

static void keep_or_drop(struct stand_in *made, int rc) {
    if (made == NULL)
        return;
    if (rc == MPI_SUCCESS) {
        cosched_handles_add(&stand_ins, &made->entry, (uintptr_t)made->ours);
        return;
    }
    free(made->ours);
    free(made);
}

/* Replaces the buffer that MPI gave back by the user's, if it is a stand-in. */
static void restore(void **address, MPI_Count *bytes) {
    struct stand_in *found =
        (struct stand_in *)cosched_handles_take(&stand_ins, (uintptr_t)*address);
    if (found == NULL)
        return;
    *address = found->user;
    *bytes = found->user_bytes;
    free(found->ours);
    free(found);
}

#if MPI_VERSION >= 4
#define LIMIT LLONG_MAX
#else
#define LIMIT INT_MAX
#endif

/* Defines a call that attaches `buffer` of `size` bytes. */
#define ATTACH(name, parameters, ...)                                                              \
    int cosched_do_##name parameters {                                                             \
        struct stand_in *made = make(buffer, size, LIMIT);                                         \
        if (made != NULL) {                                                                        \
            buffer = made->ours;                                                                   \
            size = (cosched_count)grown(size);                                                     \
        }                                                                                          \
        int rc = cosched_pmpi.COSCHED_LARGE(name)(__VA_ARGS__);                                    \
        keep_or_drop(made, rc);                                                                    \
        return rc;                                                                                 \
    }

/* Defines a call that detaches a buffer, and returns its size as a COUNT. */
#define DETACH(name, COUNT, parameters, ...)                                                       \
    int cosched_do_##name parameters {                                                             \
        int rc = cosched_pmpi.name(__VA_ARGS__);                                                   \
        if (rc == MPI_SUCCESS) {                                                                   \
            MPI_Count bytes = *size;                                                               \
            restore(address, &bytes);                                                              \
            *size = (COUNT)bytes;                                                                  \
        }                                                                                          \
        return rc;                                                                                 \
    }

ATTACH(Buffer_attach, (void *buffer, cosched_count size), buffer, size)
DETACH(Buffer_detach, int, (void *address, int *size), address, size)
#if MPI_VERSION >= 4
DETACH(Buffer_detach_c, MPI_Count, (void *address, MPI_Count *size), address, size)
#endif
#if COSCHED_MPI_HAS_4_1
ATTACH(Comm_attach_buffer, (MPI_Comm comm, void *buffer, cosched_count size), comm, buffer, size)
DETACH(Comm_detach_buffer, int, (MPI_Comm comm, void *address, int *size), comm, address, size)
DETACH(Comm_detach_buffer_c, MPI_Count, (MPI_Comm comm, void *address, MPI_Count *size), comm,
       address, size)
ATTACH(Session_attach_buffer, (MPI_Session session, void *buffer, cosched_count size), session,
       buffer, size)
DETACH(Session_detach_buffer, int, (MPI_Session session, void *address, int *size), session,
       address, size)
DETACH(Session_detach_buffer_c, MPI_Count, (MPI_Session session, void *address, MPI_Count *size),
       session, address, size)
#endif
