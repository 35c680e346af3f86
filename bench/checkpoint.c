/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving and loading a checkpoint against plain writing and reading of the same bytes in the same run:
 * `bench_checkpoint [MiB [FOLDER [ROUNDS]]]`, under mpirun with that many MiB over all ranks together.
 *
 * The default, 1424 MiB, is GPT-2 124M: 12 bytes of weights and moments for each parameter. Each measurement is
 * made by both ways in turn, and the one that goes first changes from round to round; the seconds of the slowest
 * rank count, and the median of the rounds' ratios is the figure to quote, with the range beside it. Every file is
 * new and removed after its round, and what other writers left to the disk is brought there before a round begins.
 * "Cold" is the page cache of this system: the disk below a virtual machine may have one of its own.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/xxh3.h"
#include "ckpt/checkpoint/rank_file.h"
#include "ckpt/checkpoint/reader.h"
#include "comm/comm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_ROUNDS = 99,
    MAX_PATH = 4096,
    DEFAULT_MIB = 1424,
    DEFAULT_ROUNDS = 6,    /* even: both ways are first equally often */
    PLAIN_BYTES = 8 << 20, /* of one write or read */
    KINDS = 3,             /* weights and two moments */
    MAX_NAME = 32
};

/* A block of GPT-2 and the share of its table of tokens: what tensors look like. */
static const int64_t block_shapes[][2] = {{768, 2304}, {2304, 1}, {768, 768},  {768, 1},
                                          {768, 1},    {768, 1},  {768, 3072}, {3072, 1},
                                          {3072, 768}, {768, 1},  {768, 1},    {768, 1}};
#define TABLE_SHARE 0.31

typedef struct bench {
    cero_comm *comm;
    cero_mem *mem;
    const char *dir;
    int rank;
    int rounds;
    cero_rank_file_tensor *tensors;
    int64_t tensor_count;
    int64_t numel;                /* of all tensors */
    cero_rank_file_range *ranges; /* this rank's */
    int64_t range_count;
    cero_rank_file *file;
    float *data; /* of this rank's ranges, one after the other, and of its file when that is read */
    size_t capacity;
    char path[MAX_PATH];          /* of the plain file */
    cero_rank_file_seconds parts; /* of the last save */
    double *hash_shares;          /* [rounds], of our saves */
    double *plain_shares;         /* [rounds], of the plain ones beside them */
    cero_text manifest;           /* rank 0's */
    XXH64_hash_t sum;             /* so that nothing is left out */
} bench;

static void check(const bench *b, cero_status st)
{
    if (st != CERO_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", b->rank, cero_error_string());
        cero_comm_abort(b->comm, EXIT_FAILURE);
        exit(EXIT_FAILURE);
    }
}

static void check_call(const bench *b, bool is_fine, const char *what)
{
    check(b, is_fine ? CERO_OK : CERO_FAIL(CERO_ERR_IO, "%s fails in %s", what, b->dir));
}

/* One tensor more of rows x columns; the last is cut to what is left. */
static void add_tensor(bench *b, int64_t rows, int64_t columns, int64_t left)
{
    char *name = cero_new(MAX_NAME, 1);
    cero_shape shape = {.ndim = columns > 1 ? 2 : 1, .dim = {rows, columns > 1 ? columns : 0}};

    if (rows * columns > left) {
        shape = (cero_shape){.ndim = 1, .dim = {left}};
    }
    (void)snprintf(name, MAX_NAME, "tensor.%05lld", (long long)b->tensor_count);
    b->tensors = cero_renew(b->tensors, (size_t)b->tensor_count + 1, sizeof(*b->tensors));
    b->tensors[b->tensor_count++] = (cero_rank_file_tensor){.name = name, .shape = shape};
}

static int64_t numel_of(const cero_rank_file_tensor *tensor)
{
    int64_t numel = 1;
    for (int i = 0; i < tensor->shape.ndim; i++) {
        numel *= tensor->shape.dim[i];
    }
    return numel;
}

static void make_tensors(bench *b, int64_t mib)
{
    b->numel = mib * (1 << 20) / (int64_t)sizeof(float);
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t left = b->numel / KINDS + (kind == 0 ? b->numel % KINDS : 0);
        int64_t rows = (int64_t)((double)left * TABLE_SHARE) / 768;
        if (rows > 0) {
            add_tensor(b, rows, 768, left);
            left -= rows * 768;
        }
        for (size_t i = 0; left > 0; i = (i + 1) % CERO_COUNT_OF(block_shapes)) {
            add_tensor(b, block_shapes[i][0], block_shapes[i][1], left);
            left -= numel_of(&b->tensors[b->tensor_count - 1]);
        }
    }
}

/* Rank r of N owns elements r/N .. (r + 1)/N of all tensors one after the other. */
static void make_ranges(bench *b)
{
    int size = cero_comm_size(b->comm);
    int64_t begin = b->numel / size * b->rank;
    int64_t end = b->rank == size - 1 ? b->numel : b->numel / size * (b->rank + 1);
    int64_t at = 0;

    b->ranges = cero_new((size_t)b->tensor_count, sizeof(*b->ranges));
    for (int64_t t = 0; t < b->tensor_count; t++) {
        int64_t numel = numel_of(&b->tensors[t]);
        int64_t from = begin > at ? begin - at : 0;
        int64_t to = end < at + numel ? end - at : numel;
        if (from < to) {
            b->ranges[b->range_count++] =
                (cero_rank_file_range){.tensor = t, .begin = from, .end = to};
        }
        at += numel;
    }
}

static void open_bench(bench *b, int64_t mib)
{
    void *data = NULL;

    make_tensors(b, mib);
    make_ranges(b);
    check(b, cero_rank_file_create(&(cero_rank_file_params){.tensors = b->tensors,
                                                            .tensor_count = b->tensor_count,
                                                            .ranges = b->ranges,
                                                            .range_count = b->range_count,
                                                            .rank = b->rank},
                                   &b->file));
    b->capacity = (size_t)cero_rank_file_bytes(b->file) + PLAIN_BYTES;
    check(b, cero_mem_create(0, &b->mem));
    check(b, cero_mem_alloc(b->mem, b->capacity, CERO_MEM_IO, "data", &data));
    b->data = data;
    for (size_t i = 0; i < b->capacity / sizeof(uint64_t); i++) {
        // Bits that no file system can make smaller; as numbers they may be anything.
        ((uint64_t *)data)[i] = (i + 1) * 0x9e3779b97f4a7c15U ^ (uint64_t)b->rank << 40;
    }
    b->hash_shares = cero_new((size_t)b->rounds, sizeof(double));
    b->plain_shares = cero_new((size_t)b->rounds, sizeof(double));
    check(b, cero_file_make_dir(b->dir));
    (void)snprintf(b->path, sizeof(b->path), "%s/plain-%05d", b->dir, b->rank);
}

static void close_bench(bench *b)
{
    for (int64_t t = 0; t < b->tensor_count; t++) {
        cero_delete((void *)(uintptr_t)b->tensors[t].name);
    }
    cero_rank_file_destroy(&b->file);
    cero_mem_free(b->mem, b->data);
    cero_delete(b->tensors);
    cero_delete(b->ranges);
    cero_delete(b->hash_shares);
    cero_delete(b->plain_shares);
    cero_text_cleanup(&b->manifest);
    cero_comm_destroy(&b->comm);
    cero_mem_destroy(&b->mem);
}

static const char *file_path(const bench *b, char path[MAX_PATH])
{
    char name[CERO_MANIFEST_MAX_FILE_NAME];

    (void)snprintf(path, MAX_PATH, "%s/%s", b->dir, cero_rank_file_name(b->rank, name));
    return path;
}

static cero_status give_data(void *context, int64_t range, int64_t begin, int64_t n, float *room,
                             const float **out)
{
    const bench *b = context;

    (void)n;
    (void)room;
    *out = b->data + cero_rank_file_data_offset(b->file, range) / (int64_t)sizeof(float) +
           (begin - b->ranges[range].begin);
    return CERO_OK;
}

static void save(bench *b)
{
    check(b, cero_rank_file_write(b->file, b->dir, "0123456789abcdef0123456789abcdef", give_data, b,
                                  &b->parts));
}

static void plain_save(bench *b)
{
    const char *at = (const char *)b->data;
    size_t left = (size_t)cero_rank_file_bytes(b->file);
    int fd = open(b->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    check_call(b, fd >= 0, "open");
    while (left > 0) {
        ssize_t written = write(fd, at, left < PLAIN_BYTES ? left : PLAIN_BYTES);
        check_call(b, written > 0, "write");
        at += written;
        left -= (size_t)written;
    }
    check_call(b, fsync(fd) == 0 && close(fd) == 0, "fsync");
}

static void load(bench *b)
{
    cero_reader *reader = NULL;
    float *at = b->data;

    check(b, cero_reader_open(b->dir, &reader));
    for (int64_t i = 0; i < b->range_count; i++) {
        const cero_rank_file_range *range = &b->ranges[i];
        int64_t tensor =
            cero_manifest_find(cero_reader_manifest(reader), b->tensors[range->tensor].name);
        check(b, cero_reader_read(reader, tensor, range->begin, range->end - range->begin, at));
        at += range->end - range->begin;
    }
    cero_reader_close(&reader);
}

static void plain_load(bench *b)
{
    char path[MAX_PATH];
    char *at = (char *)b->data;
    ssize_t got = 0;
    int fd = open(file_path(b, path), O_RDONLY | O_CLOEXEC);

    check_call(b, fd >= 0, "open");
    while ((got = read(fd, at, PLAIN_BYTES)) > 0) {
        at += got;
    }
    check_call(b, got == 0 && close(fd) == 0, "read");
}

/* No file of an earlier round is there, and nothing waits to be written. */
static void before_save(bench *b)
{
    char path[MAX_PATH];

    (void)unlink(b->path);
    (void)unlink(file_path(b, path));
    check(b, cero_comm_barrier(b->comm));
    sync();
}

static void before_cold_load(bench *b)
{
    char path[MAX_PATH];
    int fd = open(file_path(b, path), O_RDONLY | O_CLOEXEC);

    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
    check(b, cero_comm_barrier(b->comm));
    fd = b->rank == 0 ? open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        ssize_t written = write(fd, "3", 1); // not root: the files themselves were dropped above
        (void)written;
        (void)close(fd);
    }
}

static void before_warm_load(bench *b)
{
    plain_load(b);
}

/* Of the slowest rank. */
static double seconds_of(bench *b, void (*run)(bench *), void (*before)(bench *))
{
    before(b);
    check(b, cero_comm_barrier(b->comm));
    double begin = cero_clock_now();
    run(b);
    int64_t ns = (int64_t)((cero_clock_now() - begin) * 1e9);
    check(b, cero_comm_all_reduce_i64(b->comm, CERO_COMM_MAX, &ns, 1));
    return (double)ns * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* The plain way is the limit; `goal` is the part of its speed that ours should reach. */
static void compare(bench *b, const char *what, void (*ours)(bench *), void (*plain)(bench *),
                    void (*before)(bench *), double goal)
{
    double seconds[MAX_ROUNDS];
    double limits[MAX_ROUNDS];
    double ratios[MAX_ROUNDS];
    double bytes = (double)b->numel * sizeof(float) * 1e-9;

    for (int k = 0; k < b->rounds; k++) {
        if (k % 2 == 0) {
            limits[k] = seconds_of(b, plain, before);
        }
        seconds[k] = seconds_of(b, ours, before);
        double hash = b->parts.hash; // of rank 0, as what is printed
        if (k % 2 != 0) {
            limits[k] = seconds_of(b, plain, before);
        }
        ratios[k] = limits[k] / seconds[k];
        b->hash_shares[k] = hash / seconds[k] * 100;
        b->plain_shares[k] = hash / limits[k] * 100;
    }
    if (b->rank == 0) {
        double ratio = median(ratios, b->rounds);
        (void)printf(
            "%-9s  plain %6.3f GB/s  cero %6.3f GB/s  ratio %.3f (%.3f - %.3f), goal %.2f %s\n",
            what, bytes / median(limits, b->rounds), bytes / median(seconds, b->rounds), ratio,
            ratios[0], ratios[b->rounds - 1], goal, ratio >= goal ? "reached" : "MISSED");
    }
}

static void measure_save(bench *b)
{
    compare(b, "save", save, plain_save, before_save, 0.85);
    if (b->rank == 0) {
        double share = median(b->hash_shares, b->rounds);
        (void)printf(
            "hashing    %.2f %% of the save (%.2f - %.2f), goal 5 %% %s; %.2f %% of the plain one; "
            "last: hash %.3f s, write %.3f s, sync %.3f s\n",
            share, b->hash_shares[0], b->hash_shares[b->rounds - 1],
            share <= 5 ? "reached" : "MISSED", median(b->plain_shares, b->rounds), b->parts.hash,
            b->parts.write, b->parts.sync);
    }
}

/* What all ranks know of their files becomes rank 0's manifest.json. */
static void write_manifest(bench *b)
{
    cero_text mine = {0};
    int size = cero_comm_size(b->comm);
    int64_t *lengths = cero_new((size_t)size, sizeof(*lengths));
    size_t *sizes = cero_new((size_t)size, sizeof(*sizes));
    const char **packed = cero_new((size_t)size, sizeof(*packed));

    check(b, cero_rank_file_pack(b->file, &mine));
    int64_t length = (int64_t)mine.length;
    check(b, cero_comm_all_gather(b->comm, &length, sizeof(length), lengths));
    if (b->rank != 0) {
        check(b, cero_comm_send(b->comm, 0, 0, mine.data, mine.length));
    } else {
        char path[MAX_PATH];
        cero_manifest manifest = {.block_nbytes = CERO_MANIFEST_BLOCK};
        cero_file_writer *writer = NULL;

        for (int r = 0; r < size; r++) {
            char *bytes = r == 0 ? mine.data : cero_new((size_t)lengths[r], 1);
            if (r > 0) {
                check(b, cero_comm_recv(b->comm, r, 0, bytes, (size_t)lengths[r]));
            }
            packed[r] = bytes;
            sizes[r] = (size_t)lengths[r];
        }
        check(b, cero_rank_file_unpack(b->tensors, b->tensor_count, packed, sizes, size,
                                       CERO_MANIFEST_BLOCK, &manifest));
        cero_manifest_make_id(manifest.id);
        cero_manifest_make_id(manifest.run);
        manifest.mesh = (cero_manifest_mesh){
            .world_size = size, .dp = size, .tp = 1, .pp = 1, .sp = 1, .zero_stage = 1};
        check(b, cero_manifest_write(&manifest, NULL, 0, &b->manifest));
        (void)snprintf(path, sizeof(path), "%s/%s", b->dir, CERO_MANIFEST_NAME);
        check(b, cero_file_writer_open(path, CERO_FILE_REPLACE, &writer));
        check(b, cero_file_writer_write(writer, b->manifest.data, b->manifest.length));
        check(b, cero_file_writer_commit(writer));
        cero_file_writer_close(&writer);
        cero_manifest_cleanup(&manifest);
        for (int r = 1; r < size; r++) {
            cero_delete((void *)(uintptr_t)packed[r]);
        }
    }
    cero_text_cleanup(&mine);
    cero_delete(lengths);
    cero_delete(sizes);
    cero_delete(packed);
    check(b, cero_comm_barrier(b->comm));
}

static void measure_load(bench *b)
{
    before_save(b);
    save(b);
    write_manifest(b);
    compare(b, "load cold", load, plain_load, before_cold_load, 0.85);
    compare(b, "load warm", load, plain_load, before_warm_load, 0.85);
    before_save(b);
    if (b->rank == 0) {
        char path[MAX_PATH];
        (void)snprintf(path, sizeof(path), "%s/%s", b->dir, CERO_MANIFEST_NAME);
        (void)unlink(path);
    }
}

/* GB/s of hashing `nbytes` in blocks, again and again until `least` bytes are done. */
static double hash_speed(bench *b, size_t nbytes, size_t least)
{
    size_t done = 0;
    double begin = cero_clock_now();

    while (done < least) {
        for (size_t at = 0; at + CERO_MANIFEST_BLOCK <= nbytes; at += CERO_MANIFEST_BLOCK) {
            b->sum ^= XXH3_64bits((const char *)b->data + at, CERO_MANIFEST_BLOCK);
            done += CERO_MANIFEST_BLOCK;
        }
    }
    return (double)done * 1e-9 / (cero_clock_now() - begin);
}

static void measure_hash(bench *b)
{
    (void)hash_speed(b, CERO_MANIFEST_BLOCK, (size_t)1 << 28);
    double cached = hash_speed(b, CERO_MANIFEST_BLOCK, (size_t)1 << 30);
    double whole = hash_speed(b, b->capacity, b->capacity / 2);
    if (b->rank == 0) {
        (void)printf(
            "XXH3       %.1f GB/s on one block of 1 MiB, %.1f GB/s through all data (%08x)\n",
            cached, whole, (unsigned)b->sum);
    }
}

int main(int argc, char **argv)
{
    int64_t mib = argc > 1 ? strtol(argv[1], NULL, 10) : DEFAULT_MIB;
    long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : DEFAULT_ROUNDS;
    bench b = {.dir = argc > 2 ? argv[2] : "bench-checkpoint", .rounds = (int)rounds};

    if (argc > 4 || mib < 1 || mib > 1 << 20 || rounds < 1 || rounds > MAX_ROUNDS) {
        (void)fprintf(stderr, "usage: bench_checkpoint [MiB [FOLDER [ROUNDS]]]\n");
        return EXIT_FAILURE;
    }
    check(&b, cero_comm_create_world(NULL, &b.comm));
    b.rank = cero_comm_rank(b.comm);
    open_bench(&b, mib);
    if (b.rank == 0) {
        (void)printf("%d ranks, %lld MiB in %lld tensors, %d rounds, in %s\n",
                     cero_comm_size(b.comm), (long long)mib, (long long)b.tensor_count, b.rounds,
                     b.dir);
    }
    measure_save(&b);
    measure_load(&b);
    measure_hash(&b);
    close_bench(&b);
    return EXIT_SUCCESS;
}
