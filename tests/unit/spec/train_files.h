/* SPDX-License-Identifier: Apache-2.0 */
/* Configs from text, for the tests of the training config. */
#ifndef CERO_TESTS_TRAIN_FILES_H
#define CERO_TESTS_TRAIN_FILES_H

#include "harness.h"

#include "spec/train.h"

#include <unistd.h>

/* Creates a config from text and at most four overrides (NULL ends them) for `dp_size` ranks. */
static inline cero_status create_config(const char *text, const char *const *overrides, int dp_size,
                                        cero_train_config **out)
{
    char path[64];
    cero_train_config_params params = {.path = path, .overrides = overrides, .dp_size = dp_size};

    (void)snprintf(path, sizeof(path), "/tmp/cero-test-train-%ld.json", (long)getpid());
    FILE *f = fopen(path, "wb"); // not our writer: thousands of configs, and it syncs each
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    while (overrides != NULL && overrides[params.override_count] != NULL) {
        params.override_count++;
    }
    *out = NULL;
    cero_status st = cero_train_config_create(&params, out);
    assert_true((st == CERO_OK) == (*out != NULL));
    assert_int_equal(unlink(path), 0);
    return st;
}

/* The effective value and origin of a key as "value origin"; "absent" if it is not listed. */
static inline void expect_effective(const cero_train_config *config, const char *key,
                                    const char *expected)
{
    cero_text text = {0};
    char found[256] = "absent";
    char start[128];

    assert_ok(cero_train_config_write_json(config, &text));
    (void)snprintf(start, sizeof(start), "\"%s\": {\"value\": ", key);
    const char *at = strstr(text.data, start);
    if (at != NULL) {
        at += strlen(start);
        const char *middle = strstr(at, ", \"origin\": \"");
        const char *from = middle + strlen(", \"origin\": \"");
        (void)snprintf(found, sizeof(found), "%.*s %.*s", (int)(middle - at), at,
                       (int)strcspn(from, "\""), from);
    }
    cero_text_cleanup(&text);
    assert_string_equal(found, expected);
}

#endif
