/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every fuzz target starts with. A target feeds bytes to a parser of files that come from outside and states
 * what must hold whatever the bytes are; a statement that is false ends the process, as a crash does.
 *
 * The same target is linked with libFuzzer (preset "fuzz") and with replay.c (everywhere else). docs/fuzzing.md
 * tells how to run them and how to add one.
 */
#ifndef CERO_TESTS_FUZZ_H
#define CERO_TESTS_FUZZ_H

#include "base/status.h"

/* Runs one input. Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with the message unless the condition holds. */
#define fuzz_expect(cond, ...)                                 \
    do {                                                       \
        if (!(cond)) {                                         \
            fuzz_fail(__FILE__, __LINE__, #cond, __VA_ARGS__); \
        }                                                      \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *cond, const char *fmt, ...)
    CERO_PRINTF(4, 5);

/*
 * A call that was given bytes from outside: true when it succeeded. When not, the status blames the bytes (neither
 * memory nor cero), and the message is one line without control characters that names `path`.
 */
bool fuzz_is_ok(cero_status status, const char *path);

/*
 * Set by a target: whether the input was taken for a good file. The seeds of a corpus are to be what their names say:
 * replay.c sees to it that those called bad_… are refused, and that the others are not.
 */
extern bool fuzz_accepted;

/* A block, which is never NULL, and a copy: of exactly this size, so that a byte past it is seen. For free(). */
void *fuzz_alloc(size_t size);
void *fuzz_copy(const void *bytes, size_t size);

/*
 * A path in a folder of this process, in $TMPDIR or memory, which is removed when the process ends. The text is
 * valid until the same slot (0 to 3) is used again.
 */
const char *fuzz_path(int slot, const char *name);

/* Writes a file; no sync, no rename. */
void fuzz_write(const char *path, const void *bytes, size_t size);

/* A manifest with the last line, the hash of its other lines, made right or added. For free(). */
char *fuzz_repair_manifest(const uint8_t *data, size_t size, size_t *length);

/* Removes all files of the folder. */
void fuzz_clear(void);

#endif
