/* The file system of the node: a file of SIZE_BYTES, written and read forward, backward and
   in random order, by blocks. Written blocks are forced to the disk, and read blocks are
   dropped from the page cache, so that the kernel measures the disk and not the memory.
   Work: bytes. Each block holds its number and the time of its write; each read checks them. */

#define _GNU_SOURCE
#include "kernel.h"

#include <fcntl.h>

enum { BLOCK = 65536, WORDS = BLOCK / 8, BATCH = 16 };
static int file;
static uint64_t *block, *written;
static uint64_t blocks, position, wrong, chance = 88172645463325252u;
static unsigned phase; /* odd ones read */
static uint64_t stamp;

static uint64_t place_of(uint64_t count)
{
    switch (phase / 2 % 3) {
    case 0:
        return count;
    case 1:
        return blocks - 1 - count;
    default: /* xorshift64 */
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        return chance % blocks;
    }
}

static void write_block(uint64_t place)
{
    stamp++;
    for (int word = 0; word < WORDS; word++)
        block[word] = place * 0x9e3779b97f4a7c15u + stamp + (uint64_t)word;
    if (pwrite(file, block, BLOCK, (off_t)(place * BLOCK)) != BLOCK)
        kernel_fail("io", "the file cannot be written; is there room in --folder?");
    written[place] = stamp;
}

static void read_block(uint64_t place)
{
    if (pread(file, block, BLOCK, (off_t)(place * BLOCK)) != BLOCK)
        kernel_fail("io", "the file cannot be read");
    for (int word = 0; word < WORDS; word++)
        wrong += block[word] != place * 0x9e3779b97f4a7c15u + written[place] + (uint64_t)word;
}

/* A few blocks; after the last one of a pass the next pass begins. */
static double round_once(void)
{
    uint64_t left = blocks - position, now = left < BATCH ? left : BATCH;
    for (uint64_t count = 0; count < now; count++, position++)
        (phase % 2 ? read_block : write_block)(place_of(position));
    if (phase % 2 == 0 && fdatasync(file) != 0)
        kernel_fail("io", "the file cannot be forced to the disk");
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (position == blocks) {
        position = 0;
        phase++;
    }
    kernel_moves((double)(now * BLOCK));
    return (double)(now * BLOCK);
}

static const char *verify(void)
{
    for (uint64_t place = 0; place < blocks; place++)
        if (written[place])
            read_block(place);
    return wrong ? "verification failed: a block is not what was written" : NULL;
}

int main(int argc, char **argv)
{
    struct kernel_arguments arguments = kernel_parse(argc, argv);
    blocks = arguments.size / BLOCK;
    block = kernel_allocate("io", BLOCK);
    written = kernel_allocate("io", blocks * sizeof *written);
    memset(written, 0, blocks * sizeof *written);
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/kernel-XXXXXX", arguments.folder);
    if (length < 0 || (size_t)length >= sizeof path || (file = mkstemp(path)) < 0)
        kernel_fail("io", "no file can be made in --folder");
    unlink(path); /* gone with the process, whatever ends it */
    return kernel_main("io", &arguments, round_once, verify);
}
