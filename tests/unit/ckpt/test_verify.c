/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification finds every bit that is not what was written, every cut, and every file that is not the right one, and
 * names it; digests tell what a checkpoint means, whoever wrote it.
 */
#include "unit/ckpt/checkpoint_dir.h"

#include "ckpt/checkpoint/reader.h"

#include <fcntl.h>

#define OTHER "ffeeddccbbaa99887766554433221100"

/* Opens and verifies. */
static cero_status verify(const char *path)
{
    cero_reader *reader = NULL;
    cero_status st = cero_reader_open(path, &reader);

    st = st != CERO_OK ? st : cero_reader_verify(reader, NULL, NULL);
    cero_reader_close(&reader);
    return st;
}

typedef struct progress_seen {
    int64_t calls;
    int64_t done;
    int64_t total;
} progress_seen;

static void note_progress(void *context, int64_t done, int64_t total)
{
    progress_seen *seen = context;

    assert_true(done >= seen->done && done <= total);
    assert_true(seen->calls == 0 || total == seen->total);
    *seen = (progress_seen){.calls = seen->calls + 1, .done = done, .total = total};
}

static void sound_ones_are_read_once(void **state)
{
    char name[32];

    CERO_UNUSED(state);
    for (int files = 1; files <= 4; files++) {
        cero_reader *reader = NULL;
        int64_t nbytes = 0;
        progress_seen seen = {0};
        checkpoints_params p =
            params_of(files, files % 2 == 0 ? CHECKPOINTS_FLAT : CHECKPOINTS_TENSORS);
        (void)snprintf(name, sizeof(name), "c%d", files);
        assert_ok(cero_reader_open(make(name, &p), &reader));
        for (int64_t i = 0; i < files; i++) {
            nbytes += cero_reader_manifest(reader)->files[i].nbytes;
        }
        assert_ok(cero_reader_verify(reader, note_progress, &seen));
        assert_int_equal(cero_reader_bytes_read(reader), nbytes);
        assert_int_equal(seen.total, nbytes);
        assert_int_equal(seen.done, nbytes);
        cero_reader_close(&reader);
    }
}

static void flip(int fd, int64_t at, int bit)
{
    unsigned char c;

    assert_int_equal(pread(fd, &c, 1, (off_t)at), 1);
    c ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
}

/* Every bit of a file, one after the other. */
static void flip_all(const char *path, const char *name)
{
    const char *file = files_in(path, name);
    int64_t nbytes = 0;
    int fd = open(file, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(cero_file_stat(file, &nbytes), CERO_FILE_REGULAR);
    for (int64_t at = 0; at < nbytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            flip(fd, at, bit);
            cero_status st = verify(path);
            if (st != CERO_ERR_CORRUPT) {
                fail_msg("%s: bit %d of byte %lld: %s", name, bit, (long long)at,
                         cero_status_name(st));
            }
            if (strstr(cero_error_message(), name) == NULL) {
                fail_msg("%s: bit %d of byte %lld: %s", name, bit, (long long)at,
                         cero_error_message());
            }
            flip(fd, at, bit);
        }
    }
    assert_int_equal(close(fd), 0);
    assert_ok(verify(path));
}

static checkpoints_params small_params(void)
{
    static const cero_rank_file_tensor tensors[] = {
        {"w", {.ndim = 2, .dim = {5, 7}}},
        {"optim.exp_avg.w", {.ndim = 2, .dim = {5, 7}}},
    };
    static const cero_manifest_section sections[] = {{"engine", "{\"step\":3,\"applied\":2}"}};
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);

    p.tensors = tensors;
    p.tensor_count = 2;
    p.sections = sections;
    p.section_count = 1;
    return p;
}

static void every_bit_counts(void **state)
{
    checkpoints_params p = small_params();
    const char *path = make("c", &p);

    CERO_UNUSED(state);
    flip_all(path, "rank-00000.safetensors");
    flip_all(path, "rank-00001.safetensors");
    flip_all(path, CERO_MANIFEST_NAME);
}

static void every_cut_is_found(void **state)
{
    static const char *const names[] = {"rank-00000.safetensors", "rank-00001.safetensors",
                                        CERO_MANIFEST_NAME};
    checkpoints_params p = small_params();
    const char *path = make("c", &p);

    CERO_UNUSED(state);
    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        char *bytes = NULL;
        size_t length = 0;
        const char *file = files_in(path, names[i]);
        assert_ok(cero_file_read(file, 0, &bytes, &length));
        for (size_t cut = length; cut-- > 0;) {
            assert_int_equal(truncate(file, (off_t)cut), 0);
            assert_fails(verify(path), CERO_ERR_CORRUPT, names[i]);
        }
        checkpoints_write_file(file, bytes, length);
        assert_ok(verify(path));
        cero_delete(bytes);
    }
}

static void something_added_is_found(void **state)
{
    checkpoints_params p = small_params();
    const char *path = make("c", &p);

    CERO_UNUSED(state);
    FILE *f = fopen(files_in(path, "rank-00001.safetensors"), "ab");
    assert_non_null(f);
    assert_true(fputc(0, f) == 0);
    assert_int_equal(fclose(f), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, "something was added to it");
    f = fopen(files_in(path, CERO_MANIFEST_NAME), "ab");
    assert_non_null(f);
    assert_true(fputc('\n', f) == '\n');
    assert_int_equal(fclose(f), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, CERO_MANIFEST_NAME);
}

static void swap(const char *a, const char *b)
{
    const char *aside = files_in(dir, "aside");

    assert_int_equal(rename(a, aside), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename(aside, b), 0);
}

/* Files of other ranks and steps are told apart from damage, whether their lengths differ or not. */
static void swapped_files_are_named(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    const char *path = make("c", &p);
    cero_reader *reader = NULL;
    float values[131];

    CERO_UNUSED(state);
    swap(files_in(path, "rank-00000.safetensors"), files_in(path, "rank-00001.safetensors"));
    assert_fails(verify(path), CERO_ERR_CORRUPT,
                 "c/rank-00000.safetensors says that it is of checkpoint " ID ", rank 1");
    swap(files_in(path, "rank-00000.safetensors"), files_in(path, "rank-00001.safetensors"));
    assert_ok(verify(path));

    // The same layout: the same lengths.
    p.id = OTHER;
    p.step = 13;
    p.change = (checkpoints_change){.tensor = "wte.weight", .element = 130};
    const char *other = make("d", &p);
    swap(files_in(path, "rank-00001.safetensors"), files_in(other, "rank-00001.safetensors"));
    assert_fails(verify(path), CERO_ERR_CORRUPT,
                 "c/rank-00001.safetensors says that it is of checkpoint " OTHER
                 ", rank 1, not of " ID);
    assert_fails(verify(other), CERO_ERR_CORRUPT,
                 "d/rank-00001.safetensors says that it is of checkpoint " ID);
    assert_ok(cero_reader_open(path, &reader));
    assert_fails(cero_reader_check_file(reader, 1), CERO_ERR_CORRUPT, "put the right file back");
    // A reader that did not look at the header first says the same.
    assert_fails(cero_reader_read(reader, 3, 0, 131, values), CERO_ERR_CORRUPT, OTHER);
    cero_reader_close(&reader);
    swap(files_in(path, CERO_MANIFEST_NAME), files_in(other, CERO_MANIFEST_NAME));
    assert_fails(verify(path), CERO_ERR_CORRUPT,
                 "c/rank-00000.safetensors says that it is of checkpoint " ID);
}

static void what_is_no_file_is_refused(void **state)
{
    checkpoints_params p = small_params();
    const char *path = make("c", &p);
    const char *file = files_in(path, "rank-00001.safetensors");
    const char *aside = files_in(dir, "aside");

    CERO_UNUSED(state);
    assert_int_equal(rename(file, aside), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, "rank-00001.safetensors is missing");
    // The very file, but outside.
    assert_int_equal(symlink(aside, file), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, "rank-00001.safetensors is a symbolic link");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, "rank-00001.safetensors is a directory");
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, "rank-00001.safetensors is a special file");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rename(aside, file), 0);
    assert_ok(verify(path));

    file = files_in(path, CERO_MANIFEST_NAME);
    assert_int_equal(rename(file, aside), 0);
    assert_fails(verify(path), CERO_ERR_IO, "manifest.json");
    assert_int_equal(symlink(aside, file), 0);
    assert_fails(verify(path), CERO_ERR_CORRUPT, "manifest.json is a symbolic link");
}

typedef struct findings_seen {
    int count;
    char text[16][400];
    cero_reader_finding finding[16];
} findings_seen;

static void note_finding(void *context, const cero_reader_finding *finding)
{
    findings_seen *seen = context;

    assert_true(seen->count < 16);
    (void)snprintf(seen->text[seen->count], sizeof(seen->text[0]), "%s", finding->message);
    seen->finding[seen->count++] = *finding;
}

static void flip_in(const char *path, const char *name, int64_t at)
{
    int fd = open(files_in(path, name), O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    flip(fd, at, 5);
    assert_int_equal(close(fd), 0);
}

/* A scan tells of everything: header, ranges of several tensors, a range with several damaged blocks, a lost file. */
static void a_scan_goes_on(void **state)
{
    checkpoints_params p = params_of(3, CHECKPOINTS_TENSORS);
    const char *path = make("c", &p);
    cero_reader *reader = NULL;
    findings_seen seen = {0};
    int64_t findings = -1;
    cero_reader_scan_params scan = {.report = note_finding, .context = &seen};

    CERO_UNUSED(state);
    assert_ok(cero_reader_open(path, &reader));
    assert_ok(cero_reader_scan(reader, &scan, &findings));
    assert_int_equal(findings, 0);
    const cero_manifest *m = cero_reader_manifest(reader);
    int64_t wte = cero_manifest_find(m, "wte.weight");
    int64_t bias = cero_manifest_find(m, "b.bias");
    const cero_manifest_range *r = &m->tensors[wte].ranges[0];
    flip_in(path, "rank-00000.safetensors", 40);
    flip_in(path, "rank-00000.safetensors", r->offset + 5);
    flip_in(path, "rank-00000.safetensors", r->offset + 64 + 5);
    flip_in(path, "rank-00000.safetensors", m->tensors[bias].ranges[0].offset);
    assert_int_equal(unlink(files_in(path, "rank-00001.safetensors")), 0);
    flip_in(path, "rank-00002.safetensors", m->tensors[bias].ranges[2].offset);
    cero_reader_close(&reader);
    assert_ok(cero_reader_open(path, &reader));
    assert_ok(cero_reader_scan(reader, &scan, &findings));
    assert_int_equal(findings, 5);
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.finding[0].tensor, -1);
    assert_non_null(strstr(seen.text[0], "rank-00000.safetensors: the header"));
    int found = 0;
    for (int i = 1; i < 3; i++) {
        assert_int_equal(seen.finding[i].file, 0);
        if (seen.finding[i].tensor == wte) {
            assert_int_equal(seen.finding[i].bad_blocks, 2);
            assert_int_equal(seen.finding[i].begin, 0);
            assert_int_equal(seen.finding[i].end, 32);
            assert_non_null(strstr(seen.text[i], "1 more block"));
            found++;
        } else {
            assert_int_equal(seen.finding[i].tensor, bias);
            assert_int_equal(seen.finding[i].bad_blocks, 1);
            found++;
        }
        assert_int_equal(seen.finding[i].status, CERO_ERR_CORRUPT);
    }
    assert_int_equal(found, 2);
    assert_non_null(strstr(seen.text[3], "rank-00001.safetensors is missing"));
    assert_int_equal(seen.finding[4].file, 2);
    assert_int_equal(seen.finding[4].tensor, bias);
    cero_reader_close(&reader);
}

/* An error of the disk is a finding too, and the scan goes on behind it. */
static void a_scan_survives_the_disk(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    const char *path = make("c", &p);
    cero_reader *reader = NULL;
    findings_seen seen = {0};
    int64_t findings = -1;
    cero_reader_scan_params scan = {.report = note_finding, .context = &seen};

    CERO_UNUSED(state);
    assert_ok(cero_reader_open(path, &reader));
    assert_int_equal(setenv("CERO_FAULT", "read:3:EIO", 1), 0);
    assert_ok(cero_reader_scan(reader, &scan, &findings));
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    assert_int_equal(findings, 1);
    assert_int_equal(seen.finding[0].status, CERO_ERR_IO);
    assert_true(seen.finding[0].tensor >= 0);
    cero_reader_close(&reader);
}

static cero_reader_digest digest_of(const char *path)
{
    cero_reader *reader = NULL;
    cero_reader_digest digest;

    assert_ok(cero_reader_open(path, &reader));
    assert_ok(cero_reader_hash(reader, &digest));
    cero_reader_close(&reader);
    return digest;
}

static cero_reader_digest digest(const char *name, const checkpoints_params *p)
{
    return digest_of(make(name, p));
}

static void digests_do_not_depend_on_the_cut(void **state)
{
    static const cero_manifest_section one[] = {
        {"engine", "{\"step\": 3, \"scale\": 1.5, \"list\": [1, {\"b\": null, \"a\": true}]}"},
        {"train", "{\"seed\": 7, \"name\": \"x\"}"},
        {"config", "{\"any\": 1}"}};
    static const cero_manifest_section two[] = {
        {"train", "{\"name\":\"\\u0078\",\"seed\":7}"},
        {"engine", "{\"list\":[1,{\"a\":true,\"b\":null}],\"scale\":1.5,\"step\":3}"}};
    char name[32];
    checkpoints_params p = params_of(1, CHECKPOINTS_FLAT);
    p.sections = one;
    p.section_count = 3;
    cero_reader_digest expected = digest("first", &p);

    CERO_UNUSED(state);
    assert_true(expected.weights != expected.moments && expected.all != expected.state);
    for (int i = 1; i <= 10; i++) {
        cero_rank_file_tensor turned[8];
        p = params_of(i, i % 2 == 0 ? CHECKPOINTS_FLAT : CHECKPOINTS_TENSORS);
        for (int64_t t = 0; t < p.tensor_count; t++) {
            turned[t] = p.tensors[(t + i) % p.tensor_count];
        }
        p.tensors = turned;
        p.block_nbytes = i % 3 == 0 ? 0 : 4 * i;
        p.id = OTHER;
        p.run = ID;
        p.step = i;
        p.sections = two;
        p.section_count = 2;
        (void)snprintf(name, sizeof(name), "c%d", i);
        cero_reader_digest found = digest(name, &p);
        assert_memory_equal(&found, &expected, sizeof(found));
    }
}

/* One element, a name, a shape, a number of the state: each changes its part and the whole, and nothing else. */
static void digests_see_every_change(void **state)
{
    static const cero_manifest_section one[] = {{"engine", "{\"step\":3}"}};
    static const cero_manifest_section two[] = {{"engine", "{\"step\":3.0}"}};
    static const cero_manifest_section three[] = {{"train", "{\"step\":3}"}};
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    p.sections = one;
    p.section_count = 1;
    cero_reader_digest a = digest("a", &p);

    CERO_UNUSED(state);
    p.change = (checkpoints_change){.tensor = "wte.weight", .element = 77};
    cero_reader_digest b = digest("b", &p);
    assert_true(b.weights != a.weights && b.all != a.all);
    assert_true(b.moments == a.moments && b.state == a.state);
    p.change.tensor = "optim.exp_avg.wte.weight";
    b = digest("c", &p);
    assert_true(b.moments != a.moments && b.all != a.all);
    assert_true(b.weights == a.weights && b.state == a.state);
    p.change.tensor = NULL;
    p.sections = two;
    b = digest("d", &p);
    assert_true(b.state != a.state && b.all != a.all);
    assert_true(b.weights == a.weights && b.moments == a.moments);
    p.sections = three;
    b = digest("e", &p);
    assert_true(b.state != a.state);
    p.sections = one;

    cero_rank_file_tensor tensors[8];
    memcpy(tensors, p.tensors, (size_t)p.tensor_count * sizeof(tensors[0]));
    tensors[0].shape = (cero_shape){.ndim = 2, .dim = {11, 7}};
    p.tensors = tensors;
    b = digest("f", &p);
    assert_true(b.weights != a.weights && b.moments == a.moments);
}

static void each_tensor_has_a_hash(void *context, int64_t tensor, uint64_t hash)
{
    uint64_t *hashes = context;

    assert_true(hashes[tensor] == 0);
    hashes[tensor] = hash;
}

static void digests_verify(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    const char *path = make("c", &p);
    cero_reader *reader = NULL;
    cero_reader_digest ignored;
    uint64_t hashes[8] = {0};

    CERO_UNUSED(state);
    assert_ok(cero_reader_open(path, &reader));
    assert_ok(cero_reader_hash_tensors(reader, each_tensor_has_a_hash, hashes, &ignored));
    int64_t nbytes = 0;
    for (int64_t t = 0; t < p.tensor_count; t++) {
        assert_true(hashes[t] != 0);
        nbytes += cero_shape_numel(&p.tensors[t].shape) * 4;
    }
    assert_int_equal(cero_reader_bytes_read(reader), nbytes);
    flip_in(path, "rank-00001.safetensors", cero_reader_manifest(reader)->files[1].nbytes - 1);
    assert_fails(cero_reader_hash(reader, &ignored), CERO_ERR_CORRUPT, "the file is damaged");
    cero_reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sound_ones_are_read_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_bit_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_cut_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(something_added_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(swapped_files_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_scan_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_scan_survives_the_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(digests_do_not_depend_on_the_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(digests_see_every_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(digests_verify, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
