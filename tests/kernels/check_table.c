/* SPDX-License-Identifier: Apache-2.0 */
/* No pointer of any kernel table is NULL, and CERO_ISA picks the table or names what is wrong. */
#include "harness.h"

#include "kernels/kernels.h"

static void check_full(const cero_kernels *k)
{
    for (size_t at = 0; at < sizeof(*k); at += sizeof(void (*)(void))) {
        void (*pointer)(void) = NULL;
        memcpy(&pointer, (const char *)k + at, sizeof(pointer));
        if (pointer == NULL) {
            fail_msg("isa %s: the pointer at byte %zu of cero_kernels is NULL", k->isa, at);
        }
    }
}

static void test_tables_are_full(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; cero_kernels_isa_name(i) != NULL; i++) {
        const cero_kernels *k = NULL;
        cero_status st = cero_kernels_get_isa(cero_kernels_isa_name(i), &k);

        if (st == CERO_ERR_UNSUPPORTED) {
            print_message("skipped: this CPU lacks %s\n", cero_kernels_isa_name(i));
            continue;
        }
        assert_ok(st);
        assert_string_equal(k->isa, cero_kernels_isa_name(i));
        check_full(k);
    }
}

static void test_environment_lowers_the_choice(void **state)
{
    const cero_kernels *k = NULL;

    CERO_UNUSED(state);
    assert_int_equal(setenv("CERO_ISA", "ref", 1), 0);
    assert_ok(cero_kernels_get(&k));
    assert_string_equal(k->isa, "ref");
    assert_int_equal(setenv("CERO_ISA", "sse9", 1), 0);
    assert_fails(cero_kernels_get(&k), CERO_ERR_INVALID, "sse9");
    assert_int_equal(unsetenv("CERO_ISA"), 0);
    assert_ok(cero_kernels_get(&k));
    check_full(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_full),
        cmocka_unit_test(test_environment_lowers_the_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
