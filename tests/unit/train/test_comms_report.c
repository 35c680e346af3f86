/* SPDX-License-Identifier: Apache-2.0 */
/* The communication log has DeepSpeed's names and formulas, and every name that a config may give means a kind. */
#include "harness.h"

#include "spec/train_impl.h"
#include "train/comms_report.h"

#include <math.h>

static void expect_rate(cero_comm_kind kind, double throughput, double bus)
{
    // 1000 bytes in 8 microseconds are a gigabit per second.
    cero_comms_rate rate = cero_comms_rate_of(kind, 1000, 8e-6, 4);

    assert_true(fabs(rate.throughput * 1e-9 - throughput) < 1e-9);
    assert_true(fabs(rate.bus * 1e-9 - bus) < 1e-9);
}

/* DeepSpeed's calc_bw_log, for 4 ranks. */
static void test_formulas(void **state)
{
    CERO_UNUSED(state);
    expect_rate(CERO_COMM_ALL_GATHER_UNIT, 4, 3);
    expect_rate(CERO_COMM_REDUCE_UNIT, 4, 3);
    expect_rate(CERO_COMM_ALL_GATHER, 4, 3);
    expect_rate(CERO_COMM_ALL_REDUCE, 2, 1.5);
    expect_rate(CERO_COMM_BROADCAST, 1, 1);
    expect_rate(CERO_COMM_SEND, 1, 1);
    expect_rate(CERO_COMM_RECV, 1, 1);
    expect_rate(CERO_COMM_BARRIER, 1, 1);
    assert_true(cero_comms_rate_of(CERO_COMM_SEND, 1000, 0, 4).bus <= 0);
}

/* The payload of 4 ranks is what 3 peers get; of an all_reduce it is the message. */
static void test_message_sizes(void **state)
{
    CERO_UNUSED(state);
    assert_true(cero_comms_message_bytes(CERO_COMM_ALL_GATHER_UNIT, 300, 4) == 100);
    assert_true(cero_comms_message_bytes(CERO_COMM_REDUCE_UNIT, 300, 4) == 100);
    assert_true(cero_comms_message_bytes(CERO_COMM_ALL_GATHER, 300, 4) == 100);
    assert_true(cero_comms_message_bytes(CERO_COMM_BROADCAST, 300, 4) == 100);
    assert_true(cero_comms_message_bytes(CERO_COMM_ALL_REDUCE, 300, 4) == 300);
    assert_true(cero_comms_message_bytes(CERO_COMM_SEND, 300, 4) == 300);
    assert_true(cero_comms_message_bytes(CERO_COMM_REDUCE_UNIT, 300, 1) == 0);
}

static int kinds_of(const char *name)
{
    cero_train_spec spec = {.comms_logger_prof_ops = {.count = 1}};
    int count = 0;

    (void)snprintf(spec.comms_logger_prof_ops.pattern[0],
                   sizeof(spec.comms_logger_prof_ops.pattern[0]), "%s", name);
    for (int kind = 0; kind < CERO_COMM_KIND_COUNT; kind++) {
        count += cero_comms_is_wanted(&spec, (cero_comm_kind)kind) ? 1 : 0;
    }
    return count;
}

static void test_names(void **state)
{
    static const char *const absent[] = {"all_to_all", "all_to_all_single", "gather", "scatter"};
    int count = 0;
    CERO_UNUSED(state);

    const cero_train_key *key =
        &cero_train_keys(&count)[cero_train_find_key("comms_logger", "prof_ops")];
    for (int i = 0; key->words[i] != NULL; i++) {
        int expected = 1;
        for (size_t k = 0; k < CERO_COUNT_OF(absent); k++) {
            expected = strcmp(key->words[i], absent[k]) == 0 ? 0 : expected;
        }
        if (kinds_of(key->words[i]) != expected) {
            fail_msg("%s means %d kinds", key->words[i], kinds_of(key->words[i]));
        }
    }
    for (int kind = 0; kind < CERO_COMM_KIND_COUNT; kind++) {
        assert_int_equal(kinds_of(cero_comms_op_name((cero_comm_kind)kind)), 1);
        assert_int_equal(kinds_of(cero_comm_kind_name((cero_comm_kind)kind)), 1);
    }
    cero_train_spec all = {.comms_logger_prof_all = true};
    assert_true(cero_comms_is_wanted(&all, CERO_COMM_BARRIER));
    assert_string_equal(cero_comms_op_name(CERO_COMM_REDUCE_UNIT), "reduce_scatter_tensor");
    assert_string_equal(cero_comms_op_name(CERO_COMM_ALL_GATHER_UNIT), "all_gather_into_tensor");
}

static void test_one_rank(void **state)
{
    cero_train_spec spec = {.comms_logger_prof_all = true};
    cero_comms_report *report = NULL;
    cero_comm *comm = NULL;
    cero_text text = {0};
    CERO_UNUSED(state);

    assert_ok(cero_comm_create_self(&comm));
    assert_ok(cero_comms_report_begin(&spec, comm, &report));
    assert_null(report); // not enabled
    cero_comms_report_end(&report);
    spec.comms_logger_enabled = true;
    assert_ok(cero_comms_report_begin(&spec, comm, &report));
    assert_ok(cero_comms_report_write(report, &text));
    assert_non_null(strstr(text.data, "communication of rank 0 of 1 while training\n"));
    assert_non_null(strstr(text.data, "nothing was exchanged\n"));
    cero_text_cleanup(&text);
    cero_comms_report_end(&report);
    cero_comm_destroy(&comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_message_sizes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
