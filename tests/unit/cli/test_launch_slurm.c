/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists of hosts and counts are read as Slurm means them. */
#include "harness.h"

#include "cli/launch/launch.h"

#include <stdlib.h>

/* "a:2/8 b:1/4": name, slots, cores of every host. */
static const char *shown(const cero_host_list *list, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int64_t i = 0; i < list->count; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s:%d/%d", i > 0 ? " " : "",
                                 list->host[i].name, list->host[i].slots, list->host[i].cores);
    }
    return text;
}

static void test_expand(void **state)
{
    static const struct {
        const char *text;
        const char *hosts;
    } cases[] = {
        {"node1", "node1:1/0"},
        {"a,b-2", "a:1/0 b-2:1/0"},
        {"node[1-3]", "node1:1/0 node2:1/0 node3:1/0"},
        {"node[08-10]", "node08:1/0 node09:1/0 node10:1/0"},
        {"n[1,3-4,007].x,gpu1", "n1.x:1/0 n3.x:1/0 n4.x:1/0 n007.x:1/0 gpu1:1/0"},
        {"r[1-2]n[1-2]", "r1n1:1/0 r1n2:1/0 r2n1:1/0 r2n2:1/0"},
    };
    char text[256];
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_host_list list = {0};
        assert_ok(cero_launch_slurm_expand(cases[i].text, &list));
        assert_string_equal(shown(&list, text, sizeof(text)), cases[i].hosts);
        cero_host_list_cleanup(&list);
    }
}

static void test_bad_lists(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "the list of hosts ''"},
        {"a,", "'' is not a host name"},
        {"a[1", "is not closed at '[1'"},
        {"a[]", "is not closed"},
        {"a[x]", "is not understood at 'x'"},
        {"a[1-]", "is not understood"},
        {"a[3-1]", "is not understood"},
        {"a[1;2]", "is not understood at ';2'"},
        {"a[0-99999999]", "more than 100000 hosts"},
        {"a b", "'a b' is not a host name"},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_host_list list = {0};
        assert_fails(cero_launch_slurm_expand(cases[i].text, &list), CERO_ERR_INVALID,
                     cases[i].message);
        assert_int_equal(list.count, 0);
    }
}

static void set(const char *name, const char *value)
{
    assert_int_equal(value != NULL ? setenv(name, value, 1) : unsetenv(name), 0);
}

static cero_status hosts_of(const char *nodes, const char *ntasks, const char *tasks,
                            const char *cpus, cero_host_list *out)
{
    set("SLURM_JOB_NODELIST", nodes);
    set("SLURM_NTASKS", ntasks);
    set("SLURM_TASKS_PER_NODE", tasks);
    set("SLURM_JOB_CPUS_PER_NODE", cpus);
    *out = (cero_host_list){0};
    return cero_launch_slurm_hosts(2, out);
}

static void test_allocations(void **state)
{
    static const struct {
        const char *ntasks;
        const char *tasks;
        const char *cpus;
        const char *hosts;
        int room;
    } cases[] = {
        {"4", "2(x2)", "8(x2)", "n1:2/8 n2:2/8", 2},
        {"3", "2,1", "8,4", "n1:2/8 n2:1/4", 2},
        // without --ntasks the tasks that Slurm counts mean nothing
        {NULL, "64(x2)", "64(x2)", "n1:2/64 n2:2/64", 64},
        {NULL, NULL, NULL, "n1:2/0 n2:2/0", 2},
    };
    char text[256];
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_host_list list;
        assert_ok(hosts_of("n[1-2]", cases[i].ntasks, cases[i].tasks, cases[i].cpus, &list));
        assert_string_equal(shown(&list, text, sizeof(text)), cases[i].hosts);
        assert_int_equal(list.host[0].room, cases[i].room);
        cero_host_list_cleanup(&list);
    }
}

static void test_bad_allocations(void **state)
{
    cero_host_list list;
    (void)state;

    assert_fails(hosts_of(NULL, NULL, NULL, NULL, &list), CERO_ERR_INVALID,
                 "SLURM_JOB_NODELIST is not");
    assert_fails(hosts_of("n[1-2]", NULL, NULL, "8", &list), CERO_ERR_INVALID,
                 "SLURM_JOB_CPUS_PER_NODE is '8', which has no number for host 2 of 2");
    assert_fails(hosts_of("n1", NULL, NULL, "x", &list), CERO_ERR_INVALID, "is 'x'");
    assert_fails(hosts_of("n1", NULL, NULL, "8(x", &list), CERO_ERR_INVALID, "is '8(x'");
    assert_fails(hosts_of("n1", NULL, NULL, "0", &list), CERO_ERR_INVALID, "is '0'");
    assert_fails(hosts_of("n1", "2", "-2", "8", &list), CERO_ERR_INVALID,
                 "SLURM_TASKS_PER_NODE is '-2'");
    assert_int_equal(list.count, 0);
}

static void test_no_memory(void **state)
{
    int failures = 0;
    (void)state;

    for (uint64_t n = 1; n < 12; n++) {
        cero_host_list list;
        cero_mem_fail_at(n);
        cero_status st = hosts_of("n[1-2]", NULL, NULL, "8(x2)", &list);
        cero_mem_fail_at(0);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        failures += st == CERO_ERR_NOMEM ? 1 : 0;
        cero_host_list_cleanup(&list);
    }
    assert_true(failures > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand),      cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_bad_allocations),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
