/* SPDX-License-Identifier: Apache-2.0 */
/* Hostfiles of three dialects give the same hosts, and a wrong line is named with what is expected. */
#include "harness.h"

#include "cli/launch/hostfile.h"

static cero_status parse(const char *text, cero_host_list *out)
{
    *out = (cero_host_list){0};
    return cero_hostfile_parse("hosts.txt", text, strlen(text), out);
}

static void expect_host(const cero_host_list *list, int64_t i, const char *name, int slots,
                        int max_slots)
{
    assert_true(i < list->count);
    assert_string_equal(list->host[i].name, name);
    assert_int_equal(list->host[i].slots, slots);
    assert_int_equal(list->host[i].room, slots);
    assert_int_equal(list->host[i].max_slots, max_slots);
}

/* Blank lines, comments, spaces, CRLF, a byte-order mark, no newline at the end: two hosts. */
static void test_noise(void **state)
{
    static const char *const texts[] = {
        "node1 slots=2\nnode2 slots=2\n",
        "\n# the cluster\n\nnode1 slots=2   \n\t\nnode2\tslots=2 # rack 7\n\n",
        "node1 slots=2\r\n\r\nnode2 slots=2\r\n",
        "\xEF\xBB\xBFnode1 slots=2\n  node2 slots=2",
        "node1:2\nnode2:2\n",
        "node1\nnode1\nnode2\nnode2\n",
        "node1\nnode2\nnode1\nnode2\n",
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(texts); i++) {
        cero_host_list list;
        assert_ok(parse(texts[i], &list));
        assert_int_equal(list.count, 2);
        expect_host(&list, 0, "node1", 2, 0);
        expect_host(&list, 1, "node2", 2, 0);
        assert_int_equal(cero_host_list_slots(&list), 4);
        cero_host_list_cleanup(&list);
    }
}

static void test_dialects(void **state)
{
    cero_host_list list;
    (void)state;

    assert_ok(parse("a-1.x_y slots=8 max_slots=16\nb max-slots=3\n10.0.0.1:4\nc\n", &list));
    assert_int_equal(list.count, 4);
    expect_host(&list, 0, "a-1.x_y", 8, 16);
    expect_host(&list, 1, "b", 1, 3);
    expect_host(&list, 2, "10.0.0.1", 4, 0);
    expect_host(&list, 3, "c", 1, 0);
    assert_ptr_equal(cero_host_list_find(&list, "b", 1), &list.host[1]);
    assert_null(cero_host_list_find(&list, "a", 1));
    cero_host_list_cleanup(&list);
}

static void test_bad_lines(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"node1 slots=8\nnode2 lots=8\n", "hosts.txt:2: 'node2 lots=8' is no line of a hostfile: "
                                          "'lots=8' is not known; expected 'HOST slots=N'"},
        {"node1 8\n", "hosts.txt:1: 'node1 8' is no line"},
        {"node1 slots\n", "'slots' is not known"},
        {"node1 slots=\n", "'slots=' is not a count from 1 to 1000000"},
        {"node1 slots=0\n", "'slots=0' is not a count"},
        {"node1 slots=-1\n", "'slots=-1' is not a count"},
        {"node1 slots=+1\n", "'slots=+1' is not a count"},
        {"node1 slots=2x\n", "'slots=2x' is not a count"},
        {"node1 slots=1000001\n", "is not a count"},
        {"node1 slots=99999999999999999999\n", "is not a count"},
        {"node1 slots=2 slots=3\n", "'slots=3' is a second count"},
        {"node1:2 slots=3\n", "'slots=3' is a second count"},
        {"node1 slots=4 max_slots=2\n", "'node1' has more slots than max_slots"},
        {"node1:\n", "'node1:' has no count"},
        {"node1:two\n", "'node1:two' has no count"},
        {"fe80::1\n", "has no count"},
        {":4\n", "is not a host name"},
        {"user@node1 slots=2\n", "'user@node1' is not a host name"},
        {"-oProxyCommand=x slots=2\n", "is not a host name"},
        {"a,b slots=2\n", "'a,b' is not a host name"},
        {"node1 slots=2\n\nnode1 slots=2\n", "hosts.txt:3: 'node1 slots=2' is no line of a "
                                             "hostfile: 'node1' came in line 1 already"},
        {"node1\nnode1 slots=2\n", "'node1' came in line 1 already"},
        {"node1:2\nnode1\n", "'node1' came in line 1 already"},
        {"", "hosts.txt: no host in 0 line(s); expected"},
        {"# nothing\n\n", "hosts.txt: no host in 2 line(s)"},
        {"bad\x1b[31m=x\n", "'bad?[31m=x' is not a host name"},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_host_list list;
        assert_fails(parse(cases[i].text, &list), CERO_ERR_INVALID, cases[i].message);
        assert_int_equal(list.count, 0);
        assert_null(list.host);
    }
}

/* A long line is cut in the message, and a NUL is no end of the text. */
static void test_hostile_bytes(void **state)
{
    cero_host_list list = {0};
    char text[2000];
    (void)state;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_fails(parse(text, &list), CERO_ERR_INVALID, "xxx...' is not a host name");
    assert_fails(cero_hostfile_parse("f", "no\0de slots=2\n", 14, &list), CERO_ERR_INVALID,
                 "'no?de' is not a host name");
}

static void test_files(void **state)
{
    char path[] = "hostfile-XXXXXX";
    cero_host_list list = {0};
    int fd = mkstemp(path);
    (void)state;

    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_true(f != NULL && fputs("node1 slots=3\n", f) >= 0 && fclose(f) == 0);
    assert_ok(cero_hostfile_read(path, &list));
    expect_host(&list, 0, "node1", 3, 0);
    cero_host_list_cleanup(&list);
    assert_int_equal(remove(path), 0);
    assert_fails(cero_hostfile_read(path, &list), CERO_ERR_IO, path);
}

static void test_every_failed_allocation(void **state)
{
    (void)state;

    for (uint64_t n = 1; n <= 3; n++) {
        cero_host_list list = {0};
        cero_mem_fail_at(n);
        assert_fails(parse("a\nb\n", &list), CERO_ERR_NOMEM, "no memory");
        cero_mem_fail_at(0);
        assert_null(list.host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),     cmocka_unit_test(test_dialects),
        cmocka_unit_test(test_bad_lines), cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_files),     cmocka_unit_test(test_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
