/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes do not depend on the instructions that make them, nor on how bytes are cut. */
#define XXH_DISPATCH_DISABLE_REPLACE
#include "base/xxh3.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum {
    ROOM = 70000
};

static unsigned char bytes[ROOM];

static const size_t lengths[] = {0,   1,   3,    8,    16,   17,    128,   129,   240,     241,
                                 511, 512, 1023, 1024, 1025, 16384, 16385, 65536, ROOM - 1};

/* Published for the library: of no bytes, with the seed 0. */
static void no_bytes(void **state)
{
    (void)state;
    assert_true(XXH3_64bits(bytes, 0) == 0x2d06800538d394c2U);
}

static void instructions(void **state)
{
    (void)state;
#ifdef CERO_HAVE_XXH_DISPATCH
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t from = 0; from < 2 && lengths[i] + from <= ROOM; from++) {
            assert_true(XXH3_64bits(bytes + from, lengths[i]) ==
                        XXH3_64bits_dispatch(bytes + from, lengths[i]));
        }
    }
#else
    skip();
#endif
}

static void cuts(void **state)
{
    static const size_t steps[] = {1, 7, 64, 255, 256, 257, 4096, 65536};
    (void)state;
#ifdef CERO_HAVE_XXH_DISPATCH
    XXH3_state_t *hash = XXH3_createState();

    assert_non_null(hash);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            (void)XXH3_64bits_reset(hash);
            for (size_t at = 0; at < lengths[i]; at += steps[k]) {
                size_t n = lengths[i] - at < steps[k] ? lengths[i] - at : steps[k];
                (void)XXH3_64bits_update_dispatch(hash, bytes + at, n);
            }
            assert_true(XXH3_64bits_digest(hash) == XXH3_64bits(bytes, lengths[i]));
        }
    }
    (void)XXH3_freeState(hash);
#else
    (void)steps;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bytes),
        cmocka_unit_test(instructions),
        cmocka_unit_test(cuts),
    };

    for (size_t i = 0; i < ROOM; i++) {
        bytes[i] = (unsigned char)((i * 2654435761U) >> 13);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
