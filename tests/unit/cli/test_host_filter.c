/* SPDX-License-Identifier: Apache-2.0 */
/* Filters keep the hosts and slots that DeepSpeed's would, in the order of the hostfile. */
#include "harness.h"

#include "cli/launch/host_filter.h"

static const char hosts[] = "n1 slots=4\nn2 slots=4 max_slots=8\nn3 slots=1\n";

/* "n1:4 n2:2" of what is left, or the status. */
static cero_status filter(const char *include, const char *exclude, char *out, size_t size)
{
    cero_host_list list = {0};
    size_t used = 0;

    assert_ok(cero_hostfile_parse("f", hosts, strlen(hosts), &list));
    cero_status st = cero_host_filter_apply(&list, include, exclude);
    out[0] = '\0';
    for (int64_t i = 0; i < list.count; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s:%d", i > 0 ? " " : "",
                                 list.host[i].name, list.host[i].slots);
    }
    cero_host_list_cleanup(&list);
    return st;
}

static void test_good(void **state)
{
    static const struct {
        const char *include;
        const char *exclude;
        const char *left;
    } cases[] = {
        {NULL, NULL, "n1:4 n2:4 n3:1"},    {"n2", NULL, "n2:4"},
        {"n3@n1", NULL, "n1:4 n3:1"},      {"n1:0,2", NULL, "n1:2"},
        {"n1:3@n2", NULL, "n1:1 n2:4"},    {"n1:1@n1:2", NULL, "n1:2"},
        {"n1:1,1,1", NULL, "n1:1"},        {"n1@n1:2", NULL, "n1:4"},
        {NULL, "n2", "n1:4 n3:1"},         {NULL, "n1:0,2@n3", "n1:2 n2:4"},
        {NULL, "n1:0,1,2,3", "n2:4 n3:1"}, {NULL, "n3:0", "n1:4 n2:4"},
    };
    char left[128];
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_ok(filter(cases[i].include, cases[i].exclude, left, sizeof(left)));
        assert_string_equal(left, cases[i].left);
    }
}

static void test_bad(void **state)
{
    static const struct {
        const char *include;
        const char *exclude;
        const char *message;
    } cases[] = {
        {"n1", "n2", "--include and --exclude exclude each other"},
        {"n9", NULL, "--include: there is no host 'n9'; there are n1, n2, n3"},
        {"n", NULL, "there is no host 'n'"},
        {NULL, "n1@n22", "--exclude: there is no host 'n22'"},
        {"n1:4", NULL, "--include: host n1 has no slot 4; its 4 slot(s) are 0 to 3"},
        {"n3:1", NULL, "host n3 has no slot 1"},
        {"n1:a", NULL, "'a' is not the number of a slot; expected HOST[:SLOT,SLOT...]@HOST..."},
        {"n1:-1", NULL, "'-1' is not the number"},
        {"n1:0-2", NULL, "'0-2' is not the number"},
        {"n1:", NULL, "'' is not the number"},
        {"n1:0,", NULL, "'' is not the number"},
        {"n1:99999999999", NULL, "'99999999999' is not the number"},
        {"", NULL, "--include: a host is missing in ''"},
        {"n1@", NULL, "a host is missing in 'n1@'"},
        {"n1@@n2", NULL, "a host is missing"},
        {":1", NULL, "a host is missing"},
        {NULL, "n1@n2@n3", "--exclude 'n1@n2@n3' leaves no slot of 3 host(s)"},
    };
    char left[128];
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_fails(filter(cases[i].include, cases[i].exclude, left, sizeof(left)),
                     CERO_ERR_INVALID, cases[i].message);
        assert_string_equal(left, "n1:4 n2:4 n3:1");
    }
}

/* What --oversubscribe may use shrinks with the slots; untouched hosts keep it. */
static void test_bounds(void **state)
{
    cero_host_list list = {0};
    (void)state;

    assert_ok(cero_hostfile_parse("f", hosts, strlen(hosts), &list));
    list.host[0].room = 16;
    assert_ok(cero_host_filter_apply(&list, "n1@n2:0,1,2", NULL));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.host[0].room, 16);
    assert_int_equal(list.host[1].room, 3);
    assert_int_equal(list.host[1].max_slots, 7);
    cero_host_list_cleanup(&list);
}

static void test_many_hosts_in_the_message(void **state)
{
    cero_host_list list = {0};
    char name[16];
    (void)state;

    for (int i = 0; i < 100; i++) {
        int length = snprintf(name, sizeof(name), "h%d", i);
        assert_ok(cero_host_list_add(&list, name, (size_t)length, 1));
    }
    assert_fails(cero_host_filter_apply(&list, "x", NULL), CERO_ERR_INVALID,
                 "there are h0, h1, h2, h3, h4, h5, h6, h7 and 92 more");
    cero_host_list_cleanup(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_many_hosts_in_the_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
