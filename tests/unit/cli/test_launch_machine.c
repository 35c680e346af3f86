/* SPDX-License-Identifier: Apache-2.0 */
/* Cores, NUMA nodes and the allowed set are what the kernel's files say, for machines of any kind. */
#include "harness.h"

#include "base/file.h"
#include "cli/launch/machine.h"

#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "machine-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* Writes a file of the fake /sys. */
static void put(const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    *strrchr(path, '/') = '\0';
    assert_ok(cero_file_make_dir(path));
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static cero_launch_machine look(const char *allowed)
{
    cero_cpu_set set = {0};
    cero_launch_machine machine;
    bool is_list = false;

    assert_ok(cero_cpu_set_parse(allowed, &set, &is_list));
    assert_true(is_list);
    assert_ok(cero_launch_machine_look(root, &set, &machine));
    cero_cpu_set_cleanup(&set);
    return machine;
}

static void expect(cero_launch_machine m, int cpus, int cores, int numa_nodes, bool is_restricted)
{
    assert_int_equal(m.cpus, cpus);
    assert_int_equal(m.cores, cores);
    assert_int_equal(m.numa_nodes, numa_nodes);
    assert_int_equal(m.is_restricted, is_restricted);
}

/* Two sockets of two cores of two threads, as Linux numbers them: 0-3 the first threads, 4-7 the second. */
static void put_two_sockets(void)
{
    put("cpu/online", "0-7\n");
    for (int i = 0; i < 8; i++) {
        char name[64];
        char text[16];
        (void)snprintf(name, sizeof(name), "cpu/cpu%d/topology/thread_siblings_list", i);
        (void)snprintf(text, sizeof(text), "%d,%d\n", i % 4, i % 4 + 4);
        put(name, text);
    }
    put("node/online", "0-2\n");
    put("node/node0/cpulist", "0-1,4-5\n");
    put("node/node1/cpulist", "2-3,6-7\n");
    put("node/node2/cpulist", "\n"); // memory alone
}

static void test_two_sockets(void **state)
{
    (void)state;

    put_two_sockets();
    expect(look("0-7"), 8, 4, 2, false);
    expect(look("0,4"), 2, 1, 1, true);
    expect(look("4-7"), 4, 4, 2, true);
    expect(look("5,6"), 2, 2, 2, true);
    expect(look("3"), 1, 1, 1, true);
}

static void test_nothing_in_sys(void **state)
{
    (void)state;

    expect(look("0-3"), 4, 4, 1, false);
}

static void test_nonsense_in_sys(void **state)
{
    (void)state;

    put("cpu/online", "all of them\n");
    put("cpu/cpu0/topology/thread_siblings_list", "0-\n");
    put("node/online", "0-99999999999\n");
    expect(look("0-1"), 2, 2, 1, false);
}

static void test_lists(void **state)
{
    static const char *const bad[] = {"x", "1-", "3-1", "1,,2", "-1", "1 2", "0x1", "65536"};
    cero_cpu_set set = {0};
    bool is_list = false;
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        assert_ok(cero_cpu_set_parse(bad[i], &set, &is_list));
        assert_false(is_list);
        assert_null(set.has);
    }
    assert_ok(cero_cpu_set_parse("1-2,70\n", &set, &is_list));
    assert_true(is_list);
    assert_int_equal(set.count, 71);
    for (int i = 0; i < set.count; i++) {
        assert_int_equal(set.has[i], i == 1 || i == 2 || i == 70);
    }
    cero_cpu_set_cleanup(&set);
}

/* This machine, whatever it is. */
static void test_here(void **state)
{
    cero_cpu_set set = {0};
    cero_launch_machine m;
    (void)state;

    assert_ok(cero_cpu_set_allowed(&set));
    assert_ok(cero_launch_machine_look("/sys/devices/system", &set, &m));
    cero_cpu_set_cleanup(&set);
    assert_true(m.cpus >= 1 && m.cores >= 1 && m.cores <= m.cpus);
    assert_true(m.numa_nodes >= 1 && m.numa_nodes <= m.cpus);
}

static void test_every_failed_allocation(void **state)
{
    int failures = 0;
    (void)state;

    put_two_sockets();
    for (uint64_t n = 1; n < 1000; n++) {
        bool has[8] = {true, true, true, true, true, true, true, true};
        cero_cpu_set set = {.has = has, .count = 8};
        cero_launch_machine m;
        cero_mem_fail_at(n);
        cero_status st = cero_launch_machine_look(root, &set, &m);
        cero_mem_fail_at(0);
        failures += st == CERO_ERR_NOMEM ? 1 : 0;
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
    }
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_sockets, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_nothing_in_sys, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_nonsense_in_sys, make_root, remove_root),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_here),
        cmocka_unit_test_setup_teardown(test_every_failed_allocation, make_root, remove_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
