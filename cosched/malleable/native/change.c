#include "change.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of the fields: cosched/core/bounds.py. */
static const uint64_t GENERATION_MOST = (UINT64_C(1) << 62) - 1;
static const uint64_t SLOTS_MOST = UINT64_C(1) << 20;

/* The bytes that are not read yet. An error stays, and makes all further reads fail. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    int error;
};

enum kind { INTEGER, TEXT, LIST, MAP, OTHER };

/* The begin of one value. */
struct head {
    enum kind kind;
    uint64_t value;    /* of an integer */
    uint64_t bytes;    /* that follow the head and belong to the value */
    uint64_t children; /* values that follow it and belong to it */
};

static uint64_t read_big_endian(struct reader *reader, uint32_t bytes) {
    uint64_t value = 0;
    if ((uint64_t)(reader->end - reader->at) < bytes) {
        reader->error = -EBADMSG;
        return 0;
    }
    for (uint32_t i = 0; i < bytes; i++)
        value = value << 8 | *reader->at++;
    return value;
}

/* The bytes of a length or a number whose head is one of 1, 2, 4, ... bytes. */
static uint64_t read_sized(struct reader *reader, uint8_t code, uint8_t first) {
    return read_big_endian(reader, UINT32_C(1) << (code - first));
}

static struct head read_long_head(struct reader *reader, uint8_t code) {
    struct head head = {.kind = OTHER};
    if (code >= 0xcc && code <= 0xcf) {
        head.kind = INTEGER;
        head.value = read_sized(reader, code, 0xcc);
    } else if (code >= 0xd9 && code <= 0xdb) {
        head.kind = TEXT;
        head.bytes = read_sized(reader, code, 0xd9);
    } else if (code == 0xdc || code == 0xdd) {
        head.kind = LIST;
        head.children = read_big_endian(reader, code == 0xdc ? 2 : 4);
    } else if (code == 0xde || code == 0xdf) {
        head.kind = MAP;
        head.children = read_big_endian(reader, code == 0xde ? 2 : 4) * 2;
    } else if (code >= 0xc4 && code <= 0xc6) { /* bytes */
        head.bytes = read_sized(reader, code, 0xc4);
    } else if (code >= 0xc7 && code <= 0xc9) { /* an extension, with its type */
        head.bytes = read_sized(reader, code, 0xc7) + 1;
    } else if (code >= 0xd0 && code <= 0xd3) { /* a signed number, here always below 0 */
        head.bytes = UINT64_C(1) << (code - 0xd0);
    } else if (code >= 0xd4 && code <= 0xd8) { /* an extension of fixed size */
        head.bytes = (UINT64_C(1) << (code - 0xd4)) + 1;
    } else if (code == 0xca || code == 0xcb) { /* a float */
        head.bytes = code == 0xca ? 4 : 8;
    } else if (code == 0xc1) {
        reader->error = -EBADMSG;
    }
    return head;
}

static struct head read_head(struct reader *reader) {
    const uint8_t code = (uint8_t)read_big_endian(reader, 1);
    struct head head = {.kind = OTHER};
    if (reader->error)
        return head;
    if (code < 0x80) {
        head.kind = INTEGER;
        head.value = code;
    } else if (code < 0x90) {
        head.kind = MAP;
        head.children = (uint64_t)(code & 15) * 2;
    } else if (code < 0xa0) {
        head.kind = LIST;
        head.children = code & 15;
    } else if (code < 0xc0) {
        head.kind = TEXT;
        head.bytes = code & 31;
    } else if (code < 0xe0) { /* the others are small numbers below 0 */
        head = read_long_head(reader, code);
    }
    if (head.bytes > (uint64_t)(reader->end - reader->at))
        reader->error = -EBADMSG;
    /* A value has one byte at least, so that false numbers make no long loops. */
    if (head.children > (uint64_t)(reader->end - reader->at))
        reader->error = -EBADMSG;
    return head;
}

static void skip_value(struct reader *reader) {
    for (uint64_t left = 1; left > 0 && !reader->error; left--) {
        const struct head head = read_head(reader);
        if (!reader->error)
            reader->at += head.bytes;
        left += head.children;
    }
}

static struct head read_kind(struct reader *reader, enum kind kind) {
    const struct head head = read_head(reader);
    if (!reader->error && head.kind != kind)
        reader->error = -EBADMSG;
    return head;
}

static uint64_t read_integer(struct reader *reader, uint64_t least, uint64_t most) {
    const uint64_t value = read_kind(reader, INTEGER).value;
    if (value < least || value > most)
        reader->error = -EBADMSG;
    return value;
}

/* Returns the number of a name among the fields, counted from 0; their number if it is another. */
static uint32_t read_field(struct reader *reader, const char *const *names, uint32_t count) {
    const struct head head = read_kind(reader, TEXT);
    uint32_t found = 0;
    if (reader->error)
        return count;
    while (found < count && (strlen(names[found]) != head.bytes ||
                             memcmp(names[found], reader->at, head.bytes) != 0))
        found++;
    reader->at += head.bytes;
    return found;
}

static void read_host(struct reader *reader, char host[COSCHED_HOST_BYTES]) {
    const struct head head = read_kind(reader, TEXT);
    if (reader->error)
        return;
    if (head.bytes >= COSCHED_HOST_BYTES || memchr(reader->at, 0, head.bytes) != NULL) {
        reader->error = -EBADMSG;
        return;
    }
    memset(host, 0, COSCHED_HOST_BYTES);
    memcpy(host, reader->at, head.bytes);
    reader->at += head.bytes;
}

static void read_arrival(struct reader *reader, struct cosched_arrival *arrival) {
    static const char *const names[] = {"place", "host", "ranks"};
    uint32_t seen = 0;
    const uint64_t fields = read_kind(reader, MAP).children / 2;
    for (uint64_t i = 0; i < fields && !reader->error; i++) {
        const uint32_t field = read_field(reader, names, 3);
        seen |= UINT32_C(1) << field;
        if (field == 0)
            arrival->spot.place = (uint32_t)read_integer(reader, 0, SLOTS_MOST);
        else if (field == 1)
            read_host(reader, arrival->spot.host);
        else if (field == 2)
            arrival->ranks = (uint32_t)read_integer(reader, 1, SLOTS_MOST);
        else
            skip_value(reader);
    }
    if ((seen & 7) != 7)
        reader->error = -EBADMSG;
}

/* Returns memory for a list, one element at least, and its length. */
static void *read_list(struct reader *reader, uint64_t element, uint32_t *count) {
    const uint64_t length = read_kind(reader, LIST).children;
    void *list;
    if (reader->error)
        return NULL;
    list = calloc(length + 1, element);
    if (list == NULL)
        reader->error = -ENOMEM;
    else
        *count = (uint32_t)length;
    return list;
}

static void read_leaving(struct reader *reader, struct cosched_change *change) {
    free(change->leaving);
    change->leaving = read_list(reader, sizeof *change->leaving, &change->leaving_count);
    for (uint32_t i = 0; !reader->error && i < change->leaving_count; i++)
        change->leaving[i] = (uint32_t)read_integer(reader, 0, SLOTS_MOST);
}

static void read_arriving(struct reader *reader, struct cosched_change *change) {
    free(change->arriving);
    change->arriving = read_list(reader, sizeof *change->arriving, &change->arriving_count);
    for (uint32_t i = 0; !reader->error && i < change->arriving_count; i++)
        read_arrival(reader, &change->arriving[i]);
}

int cosched_change_decode(struct cosched_change *change, const uint8_t *data, uint64_t bytes) {
    static const char *const names[] = {"generation", "leaving", "arriving"};
    struct reader reader = {.at = data, .end = data + bytes};
    uint32_t seen = 0;
    const uint64_t fields = read_kind(&reader, MAP).children / 2;
    memset(change, 0, sizeof *change);
    for (uint64_t i = 0; i < fields && !reader.error; i++) {
        const uint32_t field = read_field(&reader, names, 3);
        seen |= UINT32_C(1) << field;
        if (field == 0)
            change->generation = read_integer(&reader, 1, GENERATION_MOST);
        else if (field == 1)
            read_leaving(&reader, change);
        else if (field == 2)
            read_arriving(&reader, change);
        else
            skip_value(&reader);
    }
    if (!reader.error && ((seen & 7) != 7 || reader.at != reader.end))
        reader.error = -EBADMSG;
    if (reader.error)
        cosched_change_free(change);
    return reader.error;
}

void cosched_change_free(struct cosched_change *change) {
    free(change->leaving);
    free(change->arriving);
    memset(change, 0, sizeof *change);
}
