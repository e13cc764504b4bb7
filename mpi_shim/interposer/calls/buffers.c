/*
 * Buffers of MPI_Bsend. A user sizes them for his own messages, and each of those grows by
 * one byte. So MPI is given a buffer that is larger by what as many messages as can possibly
 * fit would grow, and the user's own is handed back when it is detached.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "calls/do.h"
#include "base/state.h"

/* A message of one byte more may take that much more, for alignment; and no message takes
 * less than half of what MPI tells users to add for each. */
#define GROWTH 32
#define LEAST (MPI_BSEND_OVERHEAD / 2)

/* A buffer of ours that stands in for a user's. */
struct stand_in {
    struct stand_in *next;
    void *ours;
    void *user;
    MPI_Count user_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stand_in *stand_ins;

static MPI_Count grown(MPI_Count bytes) {
    return bytes + (bytes / LEAST + 1) * GROWTH;
}

/* NULL where the user's own buffer is to be attached: it is none, or there is no memory, in
 * which case the worst is that MPI_Bsend finds it too small and says so. */
static struct stand_in *make(void *buffer, MPI_Count bytes, MPI_Count limit) {
    struct stand_in *made;
    if (!cosched_shim_prefixes() || buffer == NULL || bytes <= 0 || grown(bytes) > limit)
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
    if (rc != MPI_SUCCESS) {
        free(made->ours);
        free(made);
        return;
    }
    pthread_mutex_lock(&lock);
    made->next = stand_ins;
    stand_ins = made;
    pthread_mutex_unlock(&lock);
}

/* MPI gave back *address: if that is ours, the user gets his own. */
static void restore(void **address, MPI_Count *bytes) {
    struct stand_in *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct stand_in **link = &stand_ins; *link != NULL; link = &(*link)->next)
        if ((*link)->ours == *address) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
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

/* Attaching: CALL with (scope's arguments) buffer and size. */
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

/* Detaching: by the form whose size has the type COUNT. */
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
