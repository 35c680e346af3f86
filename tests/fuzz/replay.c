/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files, without libFuzzer: each as it is, and those of a corpus also cut off behind each of
 * their bytes and with each byte changed, in up to MAX_PLACES places spread over the file.
 *
 * So that every build and every compiler meets the corpora and all inputs that once broke something. The name of a
 * file is printed before it is run: the last one is the one that failed.
 *
 * usage: PROGRAM (FILE|DIRECTORY)…
 */
#include "fuzz.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PLACES = 64
};

static int64_t inputs;
static int64_t files;

static void run(const void *bytes, size_t size)
{
    void *copy = fuzz_copy(bytes, size);

    fuzz_accepted = false;
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    inputs++;
}

static void run_changed(char *bytes, size_t size, size_t at)
{
    static const char masks[] = {0x01, 0x20, (char)0x80, (char)0xFF};
    char whole = bytes[at];

    run(bytes, at);
    for (size_t i = 0; i < sizeof(masks); i++) {
        bytes[at] = (char)(whole ^ masks[i]);
        run(bytes, size);
    }
    bytes[at] = whole;
}

/* A seed is what its name says. What a fuzzer found has no such name. */
static void check_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    bool is_bad = strncmp(name, "bad_", 4) == 0;

    if (is_bad == fuzz_accepted) {
        (void)fprintf(stderr, "%s was %s: %s\n", path, is_bad ? "accepted" : "refused",
                      is_bad ? "its name says that it is bad" : cero_error_message());
        exit(1);
    }
}

static void replay_file(const char *path)
{
    char *bytes;
    size_t size;

    (void)printf("%s\n", path);
    (void)fflush(stdout);
    if (cero_file_read(path, 0, &bytes, &size) != CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_message());
        exit(1);
    }
    run(bytes, size);
    if (strstr(path, "/corpus/") != NULL) {
        check_name(path);
        for (size_t at = 0; at < size; at += size / MAX_PLACES + 1) {
            run_changed(bytes, size, at);
        }
    }
    cero_delete(bytes);
    files++;
}

static void replay_dir(const char *path)
{
    cero_file_list list = {0};

    if (cero_file_list_dir(path, false, &list) != CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_message());
        exit(1);
    }
    for (int64_t i = 0; i < list.count; i++) {
        replay_file(list.path[i]);
    }
    cero_file_list_cleanup(&list);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (cero_file_stat(argv[i], NULL) == CERO_FILE_DIRECTORY) {
            replay_dir(argv[i]);
        } else {
            replay_file(argv[i]);
        }
    }
    if (files == 0) {
        (void)fprintf(stderr, "no file to run: %s (FILE|DIRECTORY)...\n", argv[0]);
        return 1;
    }
    (void)printf("%lld files, %lld inputs\n", (long long)files, (long long)inputs);
    return 0;
}
