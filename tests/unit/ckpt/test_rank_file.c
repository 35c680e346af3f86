/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's file is as long as was said before it was written, opens as a safetensors file with the values that the
 * source gave, and its hashes find every byte that changed; what the ranks say of their files makes a manifest, or
 * names the tensor and the ranks where one is missing.
 */
#include "files.h"

#include "base/xxh3.h"
#include "ckpt/checkpoint/manifest_impl.h"
#include "ckpt/checkpoint/rank_file.h"
#include "ckpt/safetensors.h"

#include <fcntl.h>

#define ID "0123456789abcdef0123456789abcdef"

enum {
    BLOCK = 64,
    LARGE = 3000000 /* elements: several parts, the last one odd */
};

static const cero_rank_file_tensor tensors[] = {
    {"embed", {2, {7, 5}}}, {"scalar", {0}},         {"none", {2, {0, 3}}},
    {"bi\"as", {1, {40}}},  {"large", {1, {LARGE}}},
};

/* Values that say where they belong. */
static float value_of(int64_t tensor, int64_t element)
{
    return (float)tensor * 0.5F + (float)(element % 8000000);
}

/* A source that lends views, or fills the room, or fails. */
typedef struct source {
    const cero_rank_file_range *ranges;
    float *values; /* [LARGE]; NULL: fill the room */
    int64_t largest;
    int fail_at; /* call; 0: never */
    int calls;
} source;

static cero_status give(void *context, int64_t range, int64_t begin, int64_t n, float *room,
                        const float **out)
{
    source *s = context;
    float *to = s->values != NULL ? s->values : room;

    if (++s->calls == s->fail_at) {
        return CERO_FAIL(CERO_ERR_REMOTE, "the source has gone");
    }
    assert_true(begin >= s->ranges[range].begin && begin + n <= s->ranges[range].end && n > 0);
    for (int64_t i = 0; i < n; i++) {
        to[i] = value_of(s->ranges[range].tensor, begin + i);
    }
    s->largest = n > s->largest ? n : s->largest;
    *out = to;
    return CERO_OK;
}

static cero_rank_file *make(int rank, const cero_rank_file_range *ranges, int64_t count)
{
    cero_rank_file *file = NULL;

    assert_ok(cero_rank_file_create(
        &(cero_rank_file_params){tensors, CERO_COUNT_OF(tensors), ranges, count, rank, BLOCK},
        &file));
    return file;
}

static const cero_rank_file_range of_rank_0[] = {{4, 0, 1500001},
                                                 {0, 0, 12},
                                                 {1, 0, 1},
                                                 {3, 0, 40}};
static const cero_rank_file_range of_rank_1[] = {{0, 12, 35}, {4, 1500001, LARGE}};

static cero_status save(cero_rank_file *file, const cero_rank_file_range *ranges, const char *dir)
{
    source s = {.ranges = ranges};

    return cero_rank_file_write(file, dir, ID, give, &s, NULL);
}

static void expect_tensor(cero_safetensors *archive, const char *name, const char *shape,
                          int64_t tensor, int64_t begin, int64_t n)
{
    char text[64];
    const cero_safetensors_tensor *t = cero_safetensors_find(archive, name);
    float *values = cero_new((size_t)n, sizeof(float));

    if (t == NULL) {
        fail_msg("no tensor %s", name);
        return;
    }
    assert_string_equal(cero_safetensors_shape_format(t, text, sizeof(text)), shape);
    assert_int_equal(t->dtype, CERO_SAFETENSORS_F32);
    assert_int_equal(t->numel, n);
    assert_ok(cero_safetensors_read_f32(archive, t, 0, n, values));
    for (int64_t i = 0; i < n; i++) {
        assert_true(values[i] == value_of(tensor, begin + i));
    }
    cero_delete(values);
}

static void expect_archive(const char *path, int64_t nbytes)
{
    cero_safetensors *archive = NULL;
    const char *key;
    const char *value;
    int64_t found = 0;

    assert_int_equal(cero_file_stat(path, &found), CERO_FILE_REGULAR);
    assert_int_equal(found, nbytes);
    assert_ok(cero_safetensors_open(path, &archive));
    assert_int_equal(cero_safetensors_count(archive), 4);
    assert_int_equal(cero_safetensors_data_offset(archive) % 64, 0);
    expect_tensor(archive, "embed[0:12]", "[12]", 0, 0, 12);
    expect_tensor(archive, "scalar", "[]", 1, 0, 1);
    expect_tensor(archive, "bi\"as", "[40]", 3, 0, 40);
    expect_tensor(archive, "large[0:1500001]", "[1500001]", 4, 0, 1500001);
    assert_true(cero_safetensors_metadata(archive, 0, &key, &value));
    assert_string_equal(key, "format");
    assert_string_equal(value, CERO_MANIFEST_FORMAT);
    assert_true(cero_safetensors_metadata(archive, 1, &key, &value));
    assert_string_equal(key, "id");
    assert_string_equal(value, ID);
    assert_true(cero_safetensors_metadata(archive, 2, &key, &value));
    assert_string_equal(key, "rank");
    assert_string_equal(value, "0");
    cero_safetensors_close(&archive);
}

static void test_write(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    float *values = cero_new(LARGE, sizeof(float));
    cero_rank_file *file = make(0, of_rank_0, 4);

    files_make_dir(dir, sizeof(dir));
    const char *path = files_in(dir, "rank-00000.safetensors");
    assert_int_equal(cero_rank_file_data_bytes(file), 4 * (1500001 + 12 + 1 + 40));
    // By tensor: embed, scalar, bi"as, large.
    assert_int_equal(cero_rank_file_data_offset(file, 1), 0);
    assert_int_equal(cero_rank_file_data_offset(file, 2), 48);
    assert_int_equal(cero_rank_file_data_offset(file, 3), 52);
    assert_int_equal(cero_rank_file_data_offset(file, 0), 212);
    for (int lends = 0; lends <= 1; lends++) {
        source s = {.ranges = of_rank_0, .values = lends == 1 ? values : NULL};
        cero_rank_file_seconds seconds = {-1, -1, -1};
        assert_ok(cero_rank_file_write(file, dir, ID, give, &s, &seconds));
        assert_true(seconds.hash >= 0 && seconds.write >= 0 && seconds.sync >= 0);
        assert_int_equal(s.largest, 1 << 20);
        expect_archive(path, cero_rank_file_bytes(file));
        assert_ok(cero_rank_file_check(file, dir));
        assert_int_equal(unlink(path), 0);
    }
    cero_rank_file_destroy(&file);
    cero_delete(values);
    files_remove(dir);
}

/* A rank that owns nothing has a file without tensors; a short id takes the room of a long one. */
/* Blocks that are written and hashed in several pieces have the hash of the whole. */
static void test_default_blocks(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    source s = {.ranges = of_rank_0};
    cero_rank_file *file = NULL;

    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_rank_file_create(
        &(cero_rank_file_params){tensors, CERO_COUNT_OF(tensors), of_rank_0, 4, 0, 0}, &file));
    assert_ok(cero_rank_file_write(file, dir, ID, give, &s, NULL));
    assert_ok(cero_rank_file_check(file, dir));
    cero_rank_file_destroy(&file);
    files_remove(dir);
}

static void test_empty(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    cero_safetensors *archive = NULL;
    cero_rank_file *file = make(12345, NULL, 0);
    source s = {0};

    files_make_dir(dir, sizeof(dir));
    assert_int_equal(cero_rank_file_data_bytes(file), 0);
    assert_ok(cero_rank_file_write(file, dir, "7", give, &s, NULL));
    assert_ok(cero_rank_file_check(file, dir));
    assert_ok(cero_safetensors_open(files_in(dir, "rank-12345.safetensors"), &archive));
    assert_int_equal(cero_safetensors_count(archive), 0);
    assert_int_equal(cero_safetensors_data_offset(archive), cero_rank_file_bytes(file));
    cero_safetensors_close(&archive);
    cero_rank_file_destroy(&file);
    files_remove(dir);
}

static cero_status create(const cero_rank_file_tensor *t, int64_t tensor_count,
                          const cero_rank_file_range *ranges, int64_t count, int64_t block)
{
    cero_rank_file *file = NULL;
    cero_status st = cero_rank_file_create(
        &(cero_rank_file_params){t, tensor_count, ranges, count, 3, block}, &file);

    cero_rank_file_destroy(&file);
    return st;
}

static void test_create_refuses(void **state)
{
    CERO_UNUSED(state);
    const cero_rank_file_range outside[] = {{9, 0, 1}};
    const cero_rank_file_range beyond[] = {{0, 3, 36}};
    const cero_rank_file_range empty[] = {{2, 0, 0}};
    const cero_rank_file_range twice[] = {{0, 3, 9}, {0, 0, 4}};
    const cero_rank_file_range one[] = {{0, 0, 1}};
    const cero_rank_file_range both[] = {{0, 0, 2}, {1, 0, 2}};
    const cero_rank_file_tensor huge = {"huge", {2, {INT64_MAX, 2}}};
    const cero_rank_file_tensor strange = {"a\xff", {1, {1}}};
    const cero_rank_file_tensor same[] = {{"x[0:2]", {1, {2}}}, {"x", {1, {3}}}};

    assert_fails(create(tensors, 5, outside, 1, 0), CERO_ERR_INVALID,
                 "range 0 of rank 3 is of tensor 9 of 5");
    assert_fails(create(tensors, 5, beyond, 1, 0), CERO_ERR_INVALID,
                 "rank 3 cannot write elements 3 to 36 of tensor \"embed\", which has 35");
    assert_fails(create(tensors, 5, empty, 1, 0), CERO_ERR_INVALID, "elements 0 to 0");
    assert_fails(create(tensors, 5, twice, 2, 0), CERO_ERR_INVALID,
                 "elements 3 to 4 of tensor \"embed\" twice");
    assert_fails(create(&huge, 1, one, 1, 0), CERO_ERR_INVALID, "no file can hold");
    assert_fails(create(&strange, 1, one, 1, 0), CERO_ERR_INVALID, "its name is not UTF-8");
    assert_fails(create(same, 2, both, 2, 0), CERO_ERR_INVALID, "could not be read again");
    assert_fails(create(tensors, 5, one, 1, 6), CERO_ERR_INVALID, "blocks of 6 bytes");
    assert_ok(create(tensors, 5, one, 1, 0));
}

/* Every byte that changes, goes or comes after the write is found. */
static void test_check(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    const cero_rank_file_range small[] = {{0, 0, 35}, {3, 1, 20}};
    cero_rank_file *file = make(0, small, 2);
    source s = {.ranges = small};

    files_make_dir(dir, sizeof(dir));
    const char *path = files_in(dir, "rank-00000.safetensors");
    assert_fails(cero_rank_file_check(file, dir), CERO_ERR_INVALID, "has not been written");
    assert_ok(cero_rank_file_write(file, dir, ID, give, &s, NULL));
    assert_ok(cero_rank_file_check(file, dir));
    int fd = open(path, O_RDWR);
    int64_t nbytes = cero_rank_file_bytes(file);
    int64_t header = nbytes - cero_rank_file_data_bytes(file);
    for (int64_t i = 0; i < nbytes; i++) {
        unsigned char byte;
        assert_int_equal(pread(fd, &byte, 1, i), 1);
        byte ^= 16;
        assert_int_equal(pwrite(fd, &byte, 1, i), 1);
        assert_fails(cero_rank_file_check(file, dir), CERO_ERR_CORRUPT,
                     i < header            ? "its header are not those that were written"
                     : i < header + 4 * 35 ? "tensor \"embed\": the "
                                           : "tensor \"bi\"as\": the ");
        byte ^= 16;
        assert_int_equal(pwrite(fd, &byte, 1, i), 1);
    }
    assert_int_equal(ftruncate(fd, nbytes + 1), 0);
    assert_fails(cero_rank_file_check(file, dir), CERO_ERR_CORRUPT, "does not end at byte");
    assert_int_equal(ftruncate(fd, nbytes - 1), 0);
    assert_fails(cero_rank_file_check(file, dir), CERO_ERR_CORRUPT, "ends at byte");
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    assert_fails(cero_rank_file_check(file, dir), CERO_ERR_IO, "cannot open");
    cero_rank_file_destroy(&file);
    files_remove(dir);
}

/* Each call that fails is named; the same plan can be written again elsewhere. */
static void test_faults(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *fault;
        const char *message;
    } cases[] = {
        {"open:1:EACCES", "cannot create"},
        {"write:1:ENOSPC", "bytes at byte 0 of"},
        {"write:3:ENOSPC", "No space left on device"},
        {"fsync:1:EIO", "bringing the"},
        {"close:1:EDQUOT", "closing"},
    };
    char dir[64];
    cero_rank_file *file = make(0, of_rank_0, 4);

    files_make_dir(dir, sizeof(dir));
    const char *path = files_in(dir, "rank-00000.safetensors");
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_int_equal(setenv("CERO_FAULT", cases[i].fault, 1), 0);
        assert_fails(save(file, of_rank_0, dir), CERO_ERR_IO, cases[i].message);
        assert_non_null(strstr(cero_error_message(), "rank-00000.safetensors"));
        assert_int_equal(unsetenv("CERO_FAULT"), 0);
        (void)unlink(path);
    }
    source s = {.ranges = of_rank_0, .fail_at = 3};
    assert_fails(cero_rank_file_write(file, dir, ID, give, &s, NULL), CERO_ERR_REMOTE,
                 "the source has gone");
    assert_fails(save(file, of_rank_0, dir), CERO_ERR_IO, "File exists");
    assert_int_equal(unlink(path), 0);
    s = (source){.ranges = of_rank_0};
    assert_fails(cero_rank_file_write(file, dir, "../x", give, &s, NULL), CERO_ERR_INVALID, "id");
    assert_int_equal(unlink(path), 0);
    // Short counts and interrupts are no failure.
    assert_int_equal(setenv("CERO_FAULT", "write:2:SHORT", 1), 0);
    assert_ok(save(file, of_rank_0, dir));
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    expect_archive(path, cero_rank_file_bytes(file));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(setenv("CERO_FAULT", "write:2:EINTR", 1), 0);
    assert_ok(save(file, of_rank_0, dir));
    assert_int_equal(setenv("CERO_FAULT", "read:2:SHORT", 1), 0);
    assert_ok(cero_rank_file_check(file, dir));
    assert_int_equal(setenv("CERO_FAULT", "read:2:EIO", 1), 0);
    assert_fails(cero_rank_file_check(file, dir), CERO_ERR_IO, "reading back byte");
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    cero_rank_file_destroy(&file);
    files_remove(dir);
}

/* Two ranks' files as packs. */
typedef struct packs {
    cero_rank_file *file[2];
    cero_text text[2];
    const char *packed[2];
    size_t lengths[2];
} packs;

static void make_packs(packs *p, const char *dir, const cero_rank_file_range *second, int64_t count)
{
    memset(p, 0, sizeof(*p));
    p->file[0] = make(0, of_rank_0, 4);
    p->file[1] = make(1, second, count);
    for (int i = 0; i < 2; i++) {
        assert_fails(cero_rank_file_pack(p->file[i], &p->text[i]), CERO_ERR_INVALID,
                     "has not been written");
        assert_ok(save(p->file[i], i == 0 ? of_rank_0 : second, dir));
        assert_ok(cero_rank_file_pack(p->file[i], &p->text[i]));
        p->packed[i] = p->text[i].data;
        p->lengths[i] = p->text[i].length;
    }
    assert_int_equal(unlink(files_in(dir, "rank-00000.safetensors")), 0);
    assert_int_equal(rename(files_in(dir, "rank-00001.safetensors"), files_in(dir, "kept")), 0);
}

static void free_packs(packs *p)
{
    for (int i = 0; i < 2; i++) {
        cero_rank_file_destroy(&p->file[i]);
        cero_text_cleanup(&p->text[i]);
    }
}

static cero_status unpack(const packs *p, cero_manifest *m)
{
    return cero_rank_file_unpack(tensors, CERO_COUNT_OF(tensors), p->packed, p->lengths, 2, BLOCK,
                                 m);
}

static void expect_ranges(const cero_manifest *m, const packs *p)
{
    const cero_manifest_tensor *embed = &m->tensors[cero_manifest_find(m, "embed")];
    const cero_manifest_tensor *none = &m->tensors[cero_manifest_find(m, "none")];

    assert_int_equal(m->file_count, 2);
    assert_string_equal(m->files[1].name, "rank-00001.safetensors");
    assert_int_equal(m->files[1].nbytes, cero_rank_file_bytes(p->file[1]));
    assert_int_equal(m->tensor_count, 5);
    assert_int_equal(none->range_count, 0);
    assert_int_equal(embed->range_count, 2);
    assert_int_equal(embed->ranges[0].file, 0);
    assert_int_equal(embed->ranges[1].begin, 12);
    assert_int_equal(embed->ranges[1].end, 35);
    assert_int_equal(embed->ranges[1].offset, m->files[1].header_nbytes);
    for (int64_t b = 0; b < 2; b++) {
        float values[16];
        int64_t n = b == 0 ? 16 : 7;
        for (int64_t i = 0; i < n; i++) {
            values[i] = value_of(0, 12 + 16 * b + i);
        }
        char tail[CERO_MANIFEST_TAIL + 1];
        uint64_t hash = 0;
        (void)cero_manifest_tail((const char *)values, (size_t)n * 4, tail);
        assert_true(cero_manifest_parse_hash(tail + 8, &hash));
        assert_int_equal(embed->ranges[1].hashes[b], hash);
    }
}

static void test_pack(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    packs p;
    cero_manifest m = {.run = ID, .id = ID, .step = 3, .mesh = {2, 2, 1, 1, 1, 0}};
    cero_manifest again;
    cero_text text = {0};

    files_make_dir(dir, sizeof(dir));
    make_packs(&p, dir, of_rank_1, 2);
    assert_ok(unpack(&p, &m));
    assert_int_equal(m.step, 3);
    expect_ranges(&m, &p);
    assert_ok(cero_manifest_write(&m, NULL, 0, &text));
    assert_ok(cero_manifest_parse("m", text.data, text.length, &again));
    expect_ranges(&again, &p);
    cero_manifest_cleanup(&again);
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&text);
    cero_status st = CERO_ERR_NOMEM;
    uint64_t n = 1;
    for (; st == CERO_ERR_NOMEM; n++) {
        cero_mem_fail_at(n);
        st = unpack(&p, &m);
    }
    cero_mem_fail_at(0);
    assert_ok(st);
    assert_true(n > 20);
    cero_manifest_cleanup(&m);
    free_packs(&p);
    files_remove(dir);
}

/* Any bit of a pack, and any length. */
static void test_damaged_pack(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    packs p;
    cero_manifest m;
    const cero_rank_file_range second[] = {{0, 12, 35}};

    files_make_dir(dir, sizeof(dir));
    make_packs(&p, dir, second, 1);
    char *copy = cero_new(p.lengths[1], 1);
    memcpy(copy, p.packed[1], p.lengths[1]);
    p.packed[1] = copy;
    // The first pack has megabytes; the same small one stands for it.
    for (size_t i = 0; i < 8 * p.lengths[1]; i++) {
        copy[i / 8] = (char)(copy[i / 8] ^ (1 << i % 8));
        assert_fails(cero_rank_file_unpack(tensors, 5, &p.packed[1], &p.lengths[1], 1, BLOCK, &m),
                     CERO_ERR_CORRUPT, "what pack 0 says");
        copy[i / 8] = (char)(copy[i / 8] ^ (1 << i % 8));
    }
    for (size_t n = 0; n < p.lengths[1]; n++) {
        assert_fails(cero_rank_file_unpack(tensors, 5, &p.packed[1], &n, 1, BLOCK, &m),
                     CERO_ERR_CORRUPT, "what pack 0 says");
    }
    cero_delete(copy);
    free_packs(&p);
    files_remove(dir);
}

static void expect_cover(const cero_rank_file_range *second, int64_t count, const char *message)
{
    char dir[64];
    packs p;
    cero_manifest m;

    files_make_dir(dir, sizeof(dir));
    make_packs(&p, dir, second, count);
    assert_fails(unpack(&p, &m), CERO_ERR_CORRUPT, message);
    free_packs(&p);
    files_remove(dir);
}

static void test_cover(void **state)
{
    CERO_UNUSED(state);
    const cero_rank_file_range hole[] = {{0, 13, 35}, {4, 1500001, LARGE}};
    const cero_rank_file_range overlap[] = {{0, 11, 35}, {4, 1500001, LARGE}};
    const cero_rank_file_range end[] = {{0, 12, 34}, {4, 1500001, LARGE}};
    const cero_rank_file_range start[] = {{0, 12, 35}};
    packs p;
    char dir[64];
    cero_manifest m;

    expect_cover(hole, 2,
                 "tensor \"embed\": no rank wrote elements 12 to 13 of 35; rank 0 wrote those "
                 "before; rank 1 wrote those after");
    expect_cover(overlap, 2,
                 "tensor \"embed\": elements 11 to 12 were written by rank 0 and by rank 1");
    expect_cover(end, 2, "no rank wrote elements 34 to 35 of 35; rank 1 wrote those before");
    expect_cover(start, 1, "tensor \"large\": no rank wrote elements 1500001 to 3000000");
    files_make_dir(dir, sizeof(dir));
    make_packs(&p, dir, of_rank_1, 2);
    assert_fails(cero_rank_file_unpack(tensors, 5, &p.packed[1], &p.lengths[1], 1, BLOCK, &m),
                 CERO_ERR_CORRUPT,
                 "no rank wrote elements 0 to 12 of 35; rank 1 wrote those after");
    assert_fails(cero_rank_file_unpack(tensors, 5, p.packed, p.lengths, 2, 128, &m),
                 CERO_ERR_INVALID, "rank 0 has blocks of 64 bytes, expected 128");
    assert_fails(cero_rank_file_unpack(tensors, 4, p.packed, p.lengths, 2, BLOCK, &m),
                 CERO_ERR_INVALID, "rank 0 knows 5 tensors, expected 4");
    p.packed[1] = p.packed[0];
    p.lengths[1] = p.lengths[0];
    assert_fails(unpack(&p, &m), CERO_ERR_INVALID, "rank 0 comes after rank 0");
    free_packs(&p);
    files_remove(dir);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_write), cmocka_unit_test(test_default_blocks),
        cmocka_unit_test(test_empty), cmocka_unit_test(test_create_refuses),
        cmocka_unit_test(test_check), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_pack),  cmocka_unit_test(test_damaged_pack),
        cmocka_unit_test(test_cover),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
