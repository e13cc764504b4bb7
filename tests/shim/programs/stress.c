/*
 * stress - random messages with checked contents: each mode of send with each way to receive,
 * any two datatypes of bytes, in several communicators, with and without wildcards, and shorter
 * than the receive's buffer.
 *
 *   stress SEED ROUNDS [LONGEST]
 *
 * LONGEST is in bytes (300000). Rounds in which any message may match any receive have shorter
 * messages, since each receive must have room for the longest.
 *
 * Every rank draws the same plan from the seed. In the first half of a round the ranks post all
 * messages before they wait for one. In the second half blocking calls follow one global order,
 * so they cannot wait in a circle.
 */
#include "check.h"

enum { MESSAGES = 24, COMMS = 4, WILD_LONGEST = 300000 };

static unsigned longest = WILD_LONGEST;

static uint64_t state;

static unsigned draw(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % below);
}

/* How a rank completes what it posted, drawn by each rank for itself. */
static uint64_t own_state;

static unsigned draw_own(unsigned below) {
    own_state = own_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((own_state >> 33) % below);
}

struct message {
    int from, to; /* ranks in the communicator */
    int comm, tag, bytes, room;
    int send_mode, send_type, receive_mode, receive_type;
};

static MPI_Comm comms[COMMS];
static int comm_rank[COMMS], comm_size[COMMS], to_size[COMMS], other_side[COMMS];

static int draw_bytes(unsigned most) {
    switch (draw(8)) {
    case 0: return 0;
    case 1: return (int)draw(16);
    case 2: return 16380 + (int)draw(10);
    case 3: return (int)draw(most + 1);
    default: return (int)draw(4000);
    }
}

static void draw_message(struct message *m, int tag, int modes, int receives, int wild) {
    m->comm = (int)draw(COMMS);
    m->tag = tag;
    m->from = (int)draw(1000);
    m->to = (int)draw(1000);
    m->bytes = draw_bytes(wild ? WILD_LONGEST : longest);
    m->room = m->bytes + (draw(2) ? (int)draw(5000) : 0);
    m->send_mode = (int)draw((unsigned)modes);
    m->receive_mode = (int)draw((unsigned)receives);
    m->send_type = (int)draw(4);
    m->receive_type = (int)draw(4);
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
    if (m->bytes > 8000) /* MPICH 4.0 truncates long messages of derived types */
        m->send_type = m->receive_type = 0;
#endif
    if (wild)
        m->room = WILD_LONGEST + 5000;
}

/* A view of `bytes` bytes at buf: contiguous, every second byte, pairs with gaps, or
 * absolute addresses in two parts, the second one first. One element each. */
struct view {
    MPI_Datatype type;
    const void *buf;
    int count;
};

static size_t place_of(int kind, int bytes, int i) {
    switch (kind) {
    case 1: return (size_t)i * 2;
    case 2: return (size_t)(i / 2) * 5 + (size_t)(i % 2);
    case 3: return i < bytes / 3 ? (size_t)(bytes - bytes / 3 + 8 + i) : (size_t)(i - bytes / 3);
    default: return (size_t)i;
    }
}

static struct view view_of(int kind, void *buf, int bytes) {
    struct view view = {MPI_BYTE, buf, bytes};
    if (kind == 1) {
        MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &view.type);
        view.count = 1;
    } else if (kind == 2) {
        MPI_Datatype pair;
        MPI_Type_contiguous(2, MPI_BYTE, &pair);
        MPI_Type_create_resized(pair, 0, 5, &view.type);
        MPI_Type_free(&pair);
        view.count = bytes / 2; /* an even number of bytes */
    } else if (kind == 3) {
        MPI_Aint at[2];
        int lengths[2] = {bytes / 3, bytes - bytes / 3};
        MPI_Datatype parts[2] = {MPI_BYTE, MPI_BYTE};
        MPI_Get_address((char *)buf + bytes - bytes / 3 + 8, &at[0]);
        MPI_Get_address(buf, &at[1]);
        MPI_Type_create_struct(2, lengths, at, parts, &view.type);
        view.buf = MPI_BOTTOM;
        view.count = 1;
    }
    if (kind != 0)
        MPI_Type_commit(&view.type);
    return view;
}

static size_t span_of(int bytes) { return (size_t)bytes * 3 + 64; }

static unsigned char *make_out(const struct message *m, unsigned which) {
    unsigned char *buf = malloc(span_of(m->bytes));
    memset(buf, 0x55, span_of(m->bytes));
    for (int i = 0; i < m->bytes; i++)
        buf[place_of(m->send_type, m->bytes, i)] = content(which, (size_t)i);
    return buf;
}

static unsigned char *make_in(const struct message *m) {
    unsigned char *buf = malloc(span_of(m->room));
    memset(buf, 0xaa, span_of(m->room));
    return buf;
}

static void check_in(const struct message *sent, const struct message *posted,
                     const unsigned char *buf, unsigned which, const MPI_Status *status) {
    int bytes = -1, wrong = 0, touched = 0;
    unsigned char *expected = malloc(span_of(posted->room));
    MPI_Get_count(status, MPI_BYTE, &bytes);
    CHECK(bytes == sent->bytes, "message %d: %d bytes of %d", sent->tag, bytes, sent->bytes);
    CHECK(status->MPI_SOURCE == sent->from && status->MPI_TAG == sent->tag, "from %d tag %d",
          status->MPI_SOURCE, status->MPI_TAG);
    memset(expected, 0xaa, span_of(posted->room));
    for (int i = 0; i < sent->bytes; i++)
        expected[place_of(posted->receive_type, posted->room, i)] = content(which, (size_t)i);
    for (size_t i = 0; i < span_of(posted->room); i++)
        if (expected[i] != buf[i])
            wrong++, touched += expected[i] == 0xaa;
    CHECK(wrong == 0, "message %d, %d bytes, mode %d type %d to mode %d type %d: %d wrong, %d outside",
          sent->tag, sent->bytes, sent->send_mode, sent->send_type, posted->receive_mode,
          posted->receive_type, wrong, touched);
    free(expected);
}

static void settle(struct message *m) {
    m->from %= comm_size[m->comm];
    m->to %= to_size[m->comm];
    if (m->send_type == 2 || m->receive_type == 2)
        m->bytes &= ~1, m->room &= ~1;
    if (m->room > 0 && m->receive_type == 3 && m->room < 3)
        m->receive_type = 0;
}

/* Whether this rank takes part. Over the intercommunicator, messages go from group 0 to
 * group 1. */
static int sends(const struct message *m) {
    return comms[m->comm] != MPI_COMM_NULL && m->from == comm_rank[m->comm] &&
           other_side[m->comm] != 1;
}

static int receives(const struct message *m) {
    return comms[m->comm] != MPI_COMM_NULL && m->to == comm_rank[m->comm] &&
           other_side[m->comm] != 0;
}

static void complete(int count, MPI_Request *requests, const int *persistent,
                     MPI_Status *statuses) {
    int left = count, index, flag, out, indices[4 * MESSAGES];
    MPI_Status some[4 * MESSAGES], one;
    char *done = calloc((size_t)count + 1, 1);
    while (left > 0) {
        int how = (int)draw_own(8);
        flag = out = 0;
        switch (how) {
        case 0:
            MPI_Waitany(count, requests, &index, &one);
            flag = 1;
            break;
        case 1: MPI_Testany(count, requests, &index, &flag, &one); break;
        case 2: MPI_Waitsome(count, requests, &out, indices, some); break;
        case 3: MPI_Testsome(count, requests, &out, indices, some); break;
        case 4:
            MPI_Testall(count, requests, &flag, some);
            for (int i = 0; i < count && flag; i++)
                if (!done[i])
                    statuses[i] = some[i];
            left = flag ? 0 : left;
            continue;
        case 5: /* an earlier look must not change anything */
            index = (int)draw_own((unsigned)count);
            if (!persistent[index]) /* MPICH 5.0 loses the status of a persistent one */
                MPI_Request_get_status(requests[index], &flag, &one);
            continue;
        case 6:
            index = (int)draw_own((unsigned)count);
            if (done[index])
                continue;
            MPI_Test(&requests[index], &flag, &one);
            break;
        default:
            index = (int)draw_own((unsigned)count);
            if (done[index])
                continue;
            MPI_Wait(&requests[index], &one);
            flag = 1;
        }
        if (how == 2 || how == 3)
            for (int i = 0; i < out; i++) {
                statuses[indices[i]] = some[i];
                done[indices[i]] = 1;
                left--;
            }
        else if (flag && index != MPI_UNDEFINED) {
            statuses[index] = one;
            done[index] = 1;
            left--;
        }
    }
    free(done);
}

enum { ISEND, ISSEND, IBSEND, SEND_INIT, SSEND_INIT, BSEND_INIT, BSEND, POSTED_SENDS };
enum { IRECV, RECV_INIT, MRECV, IMRECV, RECV, PROBED, POSTED_RECEIVES };

/* Everything at once */
static void posted(unsigned round) {
    struct message all[MESSAGES];
    unsigned char *in[MESSAGES] = {0}, *out[MESSAGES] = {0};
    MPI_Request requests[2 * MESSAGES];
    MPI_Status statuses[2 * MESSAGES];
    int which[2 * MESSAGES], persistent[2 * MESSAGES], n = 0, wild = draw(3) == 0;
    for (int i = 0; i < MESSAGES; i++) {
        draw_message(&all[i], (int)round + i, POSTED_SENDS, POSTED_RECEIVES, wild);
        settle(&all[i]);
        if (wild)
            all[i].receive_type = 0, all[i].receive_mode = IRECV;
    }
    /* A receive with wildcards must not match messages of another half. */
    if (wild)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++)
        if (receives(&all[i]) && all[i].receive_mode <= RECV_INIT) {
            struct message *m = &all[i];
            in[i] = make_in(m);
            struct view v = view_of(m->receive_type, in[i], m->room);
            int source = wild || draw_own(3) == 0 ? MPI_ANY_SOURCE : m->from;
            int tag = wild ? MPI_ANY_TAG : m->tag;
            if (m->receive_mode == IRECV)
                MPI_Irecv((void *)(uintptr_t)v.buf, v.count, v.type, source, tag, comms[m->comm],
                          &requests[n]);
            else {
                MPI_Recv_init((void *)(uintptr_t)v.buf, v.count, v.type, source, tag, comms[m->comm],
                              &requests[n]);
                MPI_Start(&requests[n]);
            }
            if (m->receive_type != 0)
                MPI_Type_free(&v.type); /* allowed at once */
            persistent[n] = m->receive_mode == RECV_INIT;
            which[n++] = i;
        }
    for (int i = 0; i < MESSAGES; i++)
        if (sends(&all[i])) {
            struct message *m = &all[i];
            MPI_Comm c = comms[m->comm];
            MPI_Request *q = &requests[n];
            out[i] = make_out(m, (unsigned)m->tag);
            struct view v = view_of(m->send_type, out[i], m->bytes);
            *q = MPI_REQUEST_NULL;
            switch (m->send_mode) {
            case ISEND: MPI_Isend(v.buf, v.count, v.type, m->to, m->tag, c, q); break;
            case ISSEND: MPI_Issend(v.buf, v.count, v.type, m->to, m->tag, c, q); break;
            case IBSEND: MPI_Ibsend(v.buf, v.count, v.type, m->to, m->tag, c, q); break;
            case SEND_INIT: MPI_Send_init(v.buf, v.count, v.type, m->to, m->tag, c, q); break;
            case SSEND_INIT: MPI_Ssend_init(v.buf, v.count, v.type, m->to, m->tag, c, q); break;
            case BSEND_INIT: MPI_Bsend_init(v.buf, v.count, v.type, m->to, m->tag, c, q); break;
            case BSEND: MPI_Bsend(v.buf, v.count, v.type, m->to, m->tag, c); break;
            }
            persistent[n] = m->send_mode >= SEND_INIT && m->send_mode <= BSEND_INIT;
            if (persistent[n])
                MPI_Start(q);
            if (m->send_type != 0)
                MPI_Type_free(&v.type);
            if (m->send_mode != BSEND)
                which[n++] = -1;
        }
    for (int i = 0; i < MESSAGES; i++)
        if (receives(&all[i]) && all[i].receive_mode > RECV_INIT) {
            struct message *m = &all[i];
            MPI_Message message;
            MPI_Request q;
            MPI_Status status;
            in[i] = make_in(m);
            struct view v = view_of(m->receive_type, in[i], m->room);
            void *buf = (void *)(uintptr_t)v.buf;
            int bytes = -1, flag = 0;
            switch (m->receive_mode) {
            case MRECV:
            case IMRECV:
                if (m->receive_mode == MRECV)
                    MPI_Mprobe(m->from, m->tag, comms[m->comm], &message, &status);
                while (m->receive_mode == IMRECV && !flag)
                    MPI_Improbe(MPI_ANY_SOURCE, m->tag, comms[m->comm], &flag, &message, &status);
                MPI_Get_count(&status, MPI_BYTE, &bytes);
                CHECK(bytes == m->bytes, "probed %d of %d", bytes, m->bytes);
                if (m->receive_mode == MRECV)
                    MPI_Mrecv(buf, v.count, v.type, &message, &status);
                else {
                    MPI_Imrecv(buf, v.count, v.type, &message, &q);
                    MPI_Wait(&q, &status);
                }
                break;
            case PROBED:
                MPI_Probe(m->from, m->tag, comms[m->comm], &status);
                MPI_Get_count(&status, MPI_BYTE, &bytes);
                CHECK(bytes == m->bytes, "probed %d of %d", bytes, m->bytes);
                /* fall through */
            default:
                MPI_Recv(buf, v.count, v.type, m->from, m->tag, comms[m->comm], &status);
            }
            if (m->receive_type != 0)
                MPI_Type_free(&v.type);
            check_in(m, m, in[i], (unsigned)m->tag, &status);
        }
    memset(statuses, 0, sizeof statuses);
    if (n > 0)
        complete(n, requests, persistent, statuses);
    for (int k = 0; k < n; k++) {
        if (which[k] >= 0) {
            const struct message *sent =
                &all[wild ? statuses[k].MPI_TAG - (int)round : which[k]];
            check_in(sent, &all[which[k]], in[which[k]], (unsigned)sent->tag, &statuses[k]);
        }
        if (persistent[k])
            MPI_Request_free(&requests[k]);
    }
    for (int i = 0; i < MESSAGES; i++) {
        free(in[i]);
        free(out[i]);
    }
    if (wild)
        MPI_Barrier(MPI_COMM_WORLD);
}

enum { B_SEND, B_SSEND, B_BSEND, B_SENDRECV, B_REPLACE, BLOCKING_SENDS };
enum { B_RECV, B_MRECV, B_IRECV, B_R_SENDRECV, B_R_REPLACE, BLOCKING_RECEIVES };

/* One after the other */
static void blocking(unsigned round) {
    for (int i = (int)round; i < (int)round + MESSAGES; i++) {
        struct message m;
        draw_message(&m, i, BLOCKING_SENDS, BLOCKING_RECEIVES, 0);
        settle(&m);
        if (sends(&m) && receives(&m))
            continue; /* to oneself, blocking */
        if (sends(&m)) {
            unsigned char *buf = make_out(&m, (unsigned)i);
            struct view v = view_of(m.send_type, buf, m.bytes);
            void *out = (void *)(uintptr_t)v.buf;
            MPI_Comm c = comms[m.comm];
            switch (m.send_mode) {
            case B_SEND: MPI_Send(out, v.count, v.type, m.to, i, c); break;
            case B_SSEND: MPI_Ssend(out, v.count, v.type, m.to, i, c); break;
            case B_BSEND: MPI_Bsend(out, v.count, v.type, m.to, i, c); break;
            case B_SENDRECV:
                MPI_Sendrecv(out, v.count, v.type, m.to, i, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, c,
                             MPI_STATUS_IGNORE);
                break;
            case B_REPLACE:
                MPI_Sendrecv_replace(out, v.count, v.type, m.to, i, MPI_PROC_NULL, 0, c,
                                     MPI_STATUS_IGNORE);
                break;
            }
            if (m.send_type != 0)
                MPI_Type_free(&v.type);
            free(buf);
        }
        if (receives(&m)) {
            unsigned char *buf = make_in(&m);
            struct view v = view_of(m.receive_type, buf, m.room);
            void *in = (void *)(uintptr_t)v.buf;
            MPI_Comm c = comms[m.comm];
            MPI_Status status;
            MPI_Message message;
            MPI_Request q;
            switch (m.receive_mode) {
            case B_RECV: MPI_Recv(in, v.count, v.type, m.from, i, c, &status); break;
            case B_MRECV:
                MPI_Mprobe(m.from, i, c, &message, MPI_STATUS_IGNORE);
                MPI_Mrecv(in, v.count, v.type, &message, &status);
                break;
            case B_IRECV:
                MPI_Irecv(in, v.count, v.type, MPI_ANY_SOURCE, i, c, &q);
                MPI_Waitall(1, &q, &status);
                break;
            case B_R_SENDRECV:
                MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, in, v.count, v.type, m.from, i, c,
                             &status);
                break;
            case B_R_REPLACE:
                MPI_Sendrecv_replace(in, v.count, v.type, MPI_PROC_NULL, 0, m.from, i, c, &status);
                break;
            }
            if (m.receive_type != 0)
                MPI_Type_free(&v.type);
            check_in(&m, &m, buf, (unsigned)i, &status);
            free(buf);
        }
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    own_state = state + 1000 + (unsigned)rank;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 20;
    longest = argc > 3 ? (unsigned)atoi(argv[3]) : WILD_LONGEST;
    size_t most = longest > WILD_LONGEST ? longest : WILD_LONGEST;
    size_t room = (size_t)MESSAGES * (most + MPI_BSEND_OVERHEAD);
    void *buffer = malloc(room);
    MPI_Comm half;
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 77, &comms[3]);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_rank(comms[i], &comm_rank[i]);
        MPI_Comm_size(comms[i], &comm_size[i]);
        to_size[i] = comm_size[i];
        other_side[i] = 2;
    }
    other_side[3] = rank % 2; /* even ranks send to odd ones */
    comm_size[3] = (size + 1) / 2;
    to_size[3] = size / 2;
    MPI_Buffer_attach(buffer, (int)room);
    for (unsigned round = 0; round < rounds; round++) {
        posted(round * 2 * MESSAGES);
        blocking((round * 2 + 1) * MESSAGES);
    }
    MPI_Buffer_detach(&buffer, &(int){0});
    free(buffer);
    MPI_Comm_free(&comms[3]);
    MPI_Comm_free(&comms[2]);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&half);
    print_line("%u rounds", rounds);
    return finish();
}
