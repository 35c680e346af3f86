/* SPDX-License-Identifier: Apache-2.0 */
/* Lines beyond a point are taken off the end of a file, torn ones too; all else stays, byte for byte, or is refused. */
#include "harness.h"
#include "unit/ckpt/files.h"

#include "train/cut_lines.h"

typedef struct cut_case {
    const char *before;
    int64_t limit;
    const char *after; /* NULL: as before */
    int64_t last;
} cut_case;

static void expect(const cero_cut_params *params, const cut_case *c)
{
    char *bytes = NULL;
    size_t length = 0;
    int64_t last = -1;
    cero_cut_params p = *params;

    files_write(p.path, c->before, strlen(c->before));
    p.limit = c->limit;
    assert_ok(cero_cut_lines(&p, &last));
    assert_ok(cero_file_read(p.path, 0, &bytes, &length));
    assert_string_equal(bytes, c->after != NULL ? c->after : c->before);
    assert_int_equal(last, c->last);
    cero_delete(bytes);
}

static void test_metrics(void **state)
{
#define L(n) "{\"step\":" #n ",\"loss\":1}\n"
    static const cut_case cases[] = {
        {"", 5, NULL, 0},
        {L(1) L(2) L(3), 3, NULL, 3},
        {L(1) L(2) L(3), 5, NULL, 3},
        {L(1) L(2) L(3), 2, L(1) L(2), 2},
        {L(1) L(2) L(3), 0, "", 0},
        {L(9) L(10) L(11), 9, L(9), 9},
        // Torn at its end, in its number, and of a step that was to stay.
        {L(1) L(2) "{\"step\":3,\"lo", 5, L(1) L(2), 2},
        {L(1) L(2) "{\"step\":3", 5, L(1) L(2), 2},
        {L(1) "{\"step\":2,\"loss\":1}", 5, L(1), 1},
        {L(1) L(2) L(3) "{", 1, L(1), 1},
        {"{\"st", 5, "", 0},
    };
#undef L
    char dir[64];
    (void)state;

    files_make_dir(dir, sizeof(dir));
    cero_cut_params params = {
        .path = files_in(dir, "metrics.jsonl"), .prefix = "{\"step\":", .last = '}'};
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        expect(&params, &cases[i]);
    }
    files_remove(dir);
}

static void test_csv(void **state)
{
    static const cut_case cases[] = {
        {"step,lr\n", 8, NULL, 0},
        {"step,lr\n4,0.1\n8,0.2\n", 8, NULL, 8},
        {"step,lr\n4,0.1\n8,0.2\n12,0.3\n", 8, "step,lr\n4,0.1\n8,0.2\n", 8},
        {"step,lr\n4,0.1\n8,0.2\n", 0, "step,lr\n", 0},
        {"step,lr\n4,0.1\n8,", 8, "step,lr\n4,0.1\n", 4},
        {"step,l", 8, "", 0},
        // Lines of another run before, with greater numbers.
        {"step,lr\n90,1\n95,1\n4,0.1\n8,0.2\n", 4, "step,lr\n90,1\n95,1\n4,0.1\n", 4},
        {"step,lr\n90,1\n95,1\n4,0.1\n8,0.2\n", 0, "step,lr\n90,1\n95,1\n", 0},
    };
    char dir[64];
    (void)state;

    files_make_dir(dir, sizeof(dir));
    cero_cut_params params = {.path = files_in(dir, "lr.csv"), .prefix = "", .has_heading = true};
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        expect(&params, &cases[i]);
    }
    files_remove(dir);
}

/* Zeros where a machine lost its last blocks go; what a person wrote stays. */
static void test_other_contents(void **state)
{
    static const char zeros[] =
        "{\"step\":1,\"a\":1}\n{\"step\":2,\0\0\0\0\0\n{\"step\":3,\"a\":1}\n";
    static const char text[] = "{\"step\":1,\"a\":1}\nnote to self\n";
    char dir[64];
    char *bytes = NULL;
    size_t length = 0;
    int64_t last = -1;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    cero_cut_params params = {
        .path = files_in(dir, "m"), .prefix = "{\"step\":", .last = '}', .limit = 2};
    assert_ok(cero_cut_lines(&params, &last)); // there is no such file
    assert_int_equal(last, 0);
    files_write(params.path, zeros, sizeof(zeros) - 1);
    assert_ok(cero_cut_lines(&params, &last));
    assert_int_equal(last, 1);
    assert_ok(cero_file_read(params.path, 0, &bytes, &length));
    assert_int_equal(length, 17);
    cero_delete(bytes);
    files_write(params.path, text, sizeof(text) - 1);
    assert_fails(cero_cut_lines(&params, &last), CERO_ERR_CORRUPT, "m:2: found \"note to self");
    assert_ok(cero_file_read(params.path, 0, &bytes, &length));
    assert_string_equal(bytes, text);
    cero_delete(bytes);
    files_remove(dir);
}

/* A line that ends with the file and its page: what is shown of it ends there too. */
static void test_end_of_page(void **state)
{
    static char page[65536];
    char dir[64];
    int64_t last = -1;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    cero_cut_params params = {.path = files_in(dir, "m"), .prefix = "{\"step\":", .limit = 2};
    memset(page, 'x', sizeof(page));
    memcpy(page + sizeof(page) - 4, "\nno\n", 4);
    files_write(params.path, page, sizeof(page));
    assert_fails(cero_cut_lines(&params, &last), CERO_ERR_CORRUPT, "m:2: found \"no\", expected");
    files_remove(dir);
}

/* The n-th call fails, for every n: the file is as it was, or as it should be. */
static void test_failures(void **state)
{
    static const char before[] = "{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":1}\n";
    static const char *const calls[] = {"open", "write", "fsync", "rename"};
    char dir[64];
    int failures = 0;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    cero_cut_params params = {
        .path = files_in(dir, "m"), .prefix = "{\"step\":", .last = '}', .limit = 1};
    for (size_t c = 0; c < CERO_COUNT_OF(calls); c++) {
        cero_status st = CERO_ERR_IO;
        for (int n = 1; n < 20 && st != CERO_OK; n++) {
            char fault[64];
            char *bytes = NULL;
            size_t length = 0;
            int64_t last = -1;
            files_write(params.path, before, sizeof(before) - 1);
            (void)snprintf(fault, sizeof(fault), "%s:%d:EIO", calls[c], n);
            assert_int_equal(setenv("CERO_FAULT", fault, 1), 0);
            st = cero_cut_lines(&params, &last);
            assert_int_equal(unsetenv("CERO_FAULT"), 0);
            assert_true(st == CERO_OK || st == CERO_ERR_IO);
            failures += st != CERO_OK;
            assert_ok(cero_file_read(params.path, 0, &bytes, &length));
            assert_true(length == 17 || (st != CERO_OK && length == 34));
            assert_memory_equal(bytes, before, length);
            cero_delete(bytes);
        }
        assert_ok(st);
    }
    assert_true(failures >= 4);
    files_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_other_contents), cmocka_unit_test(test_end_of_page),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
