/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks fill hosts in order, never beyond what is permitted, and no rank gets another's cores. */
#include "harness.h"

#include "cli/launch/launch.h"

/* A job on the hosts of a hostfile. */
static void open_job(cero_launch_job *job, const char *hostfile)
{
    *job = (cero_launch_job){0};
    assert_ok(cero_hostfile_parse("f", hostfile, strlen(hostfile), &job->hosts));
}

/* "n1:2 n2:1" */
static const char *placed(const cero_launch_job *job, char *text, size_t size)
{
    size_t used = 0;
    int sum = 0;

    text[0] = '\0';
    for (int64_t i = 0; i < job->hosts.count; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s:%d", i > 0 ? " " : "",
                                 job->hosts.host[i].name, job->hosts.host[i].ranks);
        sum += job->hosts.host[i].ranks;
    }
    assert_int_equal(sum, job->ranks);
    return text;
}

static void test_place(void **state)
{
    static const struct {
        int64_t wanted;
        bool oversubscribe;
        const char *placed;
    } cases[] = {
        {0, false, "n1:2 n2:2 n3:1"}, {1, false, "n1:1"},          {3, false, "n1:2 n2:1"},
        {5, true, "n1:2 n2:2 n3:1"},  {6, true, "n1:3 n2:2 n3:1"}, {8, true, "n1:3 n2:3 n3:2"},
        {12, true, "n1:5 n2:3 n3:4"}, // n2 has max_slots=3
    };
    char text[128];
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_launch_job job;
        open_job(&job, "n1 slots=2\nn2 slots=2 max_slots=3\nn3\n");
        assert_ok(cero_launch_place(cases[i].wanted, cases[i].oversubscribe, &job));
        assert_string_equal(placed(&job, text, sizeof(text)), cases[i].placed);
        cero_launch_job_cleanup(&job);
    }
}

static void test_too_many(void **state)
{
    cero_launch_job job;
    (void)state;

    open_job(&job, "n1 slots=2\n");
    assert_fails(cero_launch_place(4, false, &job), CERO_ERR_INVALID,
                 "4 ranks for 2 slot(s) of 1 host(s); --oversubscribe permits");
    cero_launch_job_cleanup(&job);
    open_job(&job, "n1 slots=2 max_slots=3\nn2 max_slots=1\n");
    assert_fails(cero_launch_place(5, true, &job), CERO_ERR_INVALID,
                 "5 ranks, and max_slots of the hostfile permits 4");
    assert_ok(cero_launch_place(4, true, &job));
    cero_launch_job_cleanup(&job);
}

/* Room beyond the slots is used in turn, without --oversubscribe. */
static void test_room(void **state)
{
    cero_launch_job job;
    char text[128];
    (void)state;

    open_job(&job, "n1\nn2\n");
    job.hosts.host[0].room = 4;
    job.hosts.host[1].room = 4;
    assert_ok(cero_launch_place(6, false, &job));
    assert_string_equal(placed(&job, text, sizeof(text)), "n1:3 n2:3");
    cero_launch_job_cleanup(&job);
    open_job(&job, "n1\n");
    job.hosts.host[0].room = 4;
    assert_fails(cero_launch_place(5, false, &job), CERO_ERR_INVALID, "5 ranks for 4 slot(s)");
    cero_launch_job_cleanup(&job);
}

static void test_threads(void **state)
{
    static const struct {
        const char *hosts;
        cero_launch_threads_params params;
        int threads;
        bool sets_threads;
        bool is_bound;
        bool is_overloaded;
    } cases[] = {
        {"n1:2", {.cores = 8, .may_bind = true}, 4, true, true, false},
        {"n1:3", {.cores = 8, .may_bind = true}, 2, true, true, false},
        {"n1:1\nn2:4", {.cores = 8, .may_bind = true}, 2, true, true, false},
        {"n1:2", {.cores = 8}, 4, true, false, false},
        {"n1:8", {.cores = 2, .may_bind = true}, 1, true, false, true},
        // the user's own count stays; it is bound when the cores suffice, and warned of when not
        {"n1:2", {.cores = 8, .may_bind = true, .asked = 3}, 3, false, true, false},
        {"n1:2", {.cores = 8, .may_bind = true, .asked = 5}, 5, false, false, true},
        {"n1:1", {.cores = 1, .may_bind = true, .asked = 4}, 4, false, false, true},
        // launchers bind to cores outside of this machine's allowed set
        {"localhost:2",
         {.cores = 8, .may_bind = true, .is_restricted_local = true},
         4,
         true,
         false,
         false},
        {"n1:2", {.cores = 8, .may_bind = true, .is_restricted_local = true}, 4, true, true, false},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_launch_job job;
        open_job(&job, cases[i].hosts);
        assert_ok(cero_launch_place(0, false, &job));
        cero_launch_divide_cores(&cases[i].params, &job);
        assert_int_equal(job.threads, cases[i].threads);
        assert_int_equal(job.sets_threads, cases[i].sets_threads);
        assert_int_equal(job.is_bound, cases[i].is_bound);
        assert_int_equal(job.is_overloaded, cases[i].is_overloaded);
        cero_launch_job_cleanup(&job);
    }
}

/* A host that says its own cores is believed. */
static void test_cores_of_hosts(void **state)
{
    cero_launch_job job;
    (void)state;

    open_job(&job, "n1:2\nn2:2\n");
    job.hosts.host[1].cores = 6;
    assert_ok(cero_launch_place(0, false, &job));
    cero_launch_divide_cores(&(cero_launch_threads_params){.cores = 16, .may_bind = true}, &job);
    assert_int_equal(job.threads, 3);
    cero_launch_job_cleanup(&job);
}

static void test_words_about_threads(void **state)
{
    (void)state;

    assert_int_equal(cero_launch_parse_threads(NULL), 0);
    assert_int_equal(cero_launch_parse_threads(""), 0);
    assert_int_equal(cero_launch_parse_threads("4"), 4);
    assert_int_equal(cero_launch_parse_threads("4,2"), 4);
    assert_int_equal(cero_launch_parse_threads("x"), 0);
    assert_int_equal(cero_launch_parse_threads("4x"), 0);
    assert_int_equal(cero_launch_parse_threads("-4"), 0);
    assert_int_equal(cero_launch_parse_threads("99999999999"), 0);
}

static void test_this_machine(void **state)
{
    (void)state;

    assert_true(cero_launch_is_local("localhost"));
    assert_true(cero_launch_is_local("127.0.0.1"));
    assert_false(cero_launch_is_local("no-such-host-here"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),          cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_room),           cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cores_of_hosts), cmocka_unit_test(test_words_about_threads),
        cmocka_unit_test(test_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
