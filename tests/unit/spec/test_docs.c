/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/config.md is what the key table generates. When this fails after a change of the table, run
 * `cero info --config-docs > docs/config.md`.
 */
#include "harness.h"

#include "base/file.h"
#include "spec/train.h"

static void test_docs_are_current(void **state)
{
    const char *root = getenv("CERO_SOURCE");
    cero_text text = {0};
    char path[512];
    char *bytes = NULL;
    size_t length = 0;

    CERO_UNUSED(state);
    assert_ok(cero_train_config_write_docs(&text));
    if (root == NULL) {
        print_message("skipped: CERO_SOURCE is not set\n");
        cero_text_cleanup(&text);
        skip();
    }
    (void)snprintf(path, sizeof(path), "%s/docs/config.md", root);
    assert_ok(cero_file_read(path, 0, &bytes, &length));
    if (length != text.length || memcmp(bytes, text.data, length) != 0) {
        fail_msg("%s is not what the key table generates; run `cero info --config-docs > "
                 "docs/config.md`",
                 path);
    }
    cero_delete(bytes);
    cero_text_cleanup(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_docs_are_current)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
