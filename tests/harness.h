/* SPDX-License-Identifier: Apache-2.0 */
/* What every test starts with: cmocka, and the few words for statuses, errors and shared files. */
#ifndef CERO_TESTS_HARNESS_H
#define CERO_TESTS_HARNESS_H

#include "base/memory.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The call succeeds; otherwise its error is shown. */
#define assert_ok(call)                                            \
    do {                                                           \
        if ((call) != CERO_OK) {                                   \
            fail_msg("%s failed: %s", #call, cero_error_string()); \
        }                                                          \
    } while (0)

/* The call fails with this status, and its message contains this text. */
#define assert_fails(call, status, text)                                                \
    do {                                                                                \
        cero_status fails_st_ = (call);                                                 \
        if (fails_st_ != (status)) {                                                    \
            fail_msg("%s gave %s, expected %s: %s", #call, cero_status_name(fails_st_), \
                     cero_status_name(status), cero_error_message());                   \
        }                                                                               \
        if (strstr(cero_error_message(), (text)) == NULL) {                             \
            fail_msg("the message \"%s\" lacks \"%s\"", cero_error_message(), (text));  \
        }                                                                               \
    } while (0)

/* Path of a file in ../shared; the test skips with a line when the folder is not there. */
static inline const char *shared_path(const char *name, char *path, size_t size)
{
    const char *root = getenv("CERO_SHARED");
    (void)snprintf(path, size, "%s/%s", root != NULL ? root : "../shared", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    (void)fclose(f);
    return path;
}

#endif
