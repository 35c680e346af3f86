/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers of fuzz.h: statements, what an error must be like, files in a folder of the process, hashes. */
#include "fuzz.h"

#include "base/log.h"
#include "ckpt/checkpoint/manifest_impl.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[256];
bool fuzz_accepted;

void fuzz_fail(const char *file, int line, const char *cond, const char *fmt, ...)
{
    va_list args;

    (void)fprintf(stderr, "%s:%d: %s does not hold: ", file, line, cond);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "\n");
    abort();
}

bool fuzz_is_ok(cero_status status, const char *path)
{
    const char *message = cero_error_message();

    if (status == CERO_OK) {
        return true;
    }
    fuzz_expect(status == CERO_ERR_INVALID || status == CERO_ERR_CORRUPT ||
                    status == CERO_ERR_UNSUPPORTED || status == CERO_ERR_IO,
                "status %s: %s", cero_status_name(status), message);
    fuzz_expect(strstr(message, path) != NULL, "the message lacks \"%s\": %s", path, message);
    for (const char *p = message; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        fuzz_expect(c >= 0x20 && c != 0x7F, "byte 0x%02x at %d of the message \"%s\"", c,
                    (int)(p - message), message);
    }
    return false;
}

void *fuzz_alloc(size_t size)
{
    void *block = malloc(size == 0 ? 1 : size);

    fuzz_expect(block != NULL, "%zu bytes", size);
    return block;
}

void *fuzz_copy(const void *bytes, size_t size)
{
    void *copy = fuzz_alloc(size);

    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

void fuzz_clear(void)
{
    DIR *dir = folder[0] == '\0' ? NULL : opendir(folder);

    for (struct dirent *e = NULL; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            (void)unlinkat(dirfd(dir), e->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static void remove_folder(void)
{
    fuzz_clear();
    (void)rmdir(folder);
}

/* What the parsers have to say about files is not what is looked at here. */
static void ignore_line(void *context, cero_log_level level, const char *line)
{
    CERO_UNUSED(context);
    CERO_UNUSED(level);
    CERO_UNUSED(line);
}

static void make_folder(void)
{
    const char *root = getenv("TMPDIR");

    if (root == NULL || root[0] == '\0') {
        root = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    }
    (void)snprintf(folder, sizeof(folder), "%s/cero-fuzz-XXXXXX", root);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        exit(1);
    }
    (void)atexit(remove_folder);
    cero_log_set_sink(ignore_line, NULL);
}

const char *fuzz_path(int slot, const char *name)
{
    static char paths[4][sizeof(folder) + 512];

    if (folder[0] == '\0') {
        make_folder();
    }
    (void)snprintf(paths[slot], sizeof(paths[slot]), "%s%s%s", folder, name[0] == '\0' ? "" : "/",
                   name);
    return paths[slot];
}

void fuzz_write(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    bool is_good = f != NULL && (size == 0 || fwrite(bytes, 1, size, f) == size);

    if (f != NULL && fclose(f) != 0) {
        is_good = false;
    }
    if (!is_good) {
        perror(path);
        exit(1);
    }
}

char *fuzz_repair_manifest(const uint8_t *data, size_t size, size_t *length)
{
    static const char start[] = "\n\"xxh3\":\"";
    const char *text = (const char *)data;
    size_t body = size;
    char tail[CERO_MANIFEST_TAIL + 1];

    if (size > CERO_MANIFEST_TAIL &&
        memcmp(text + size - CERO_MANIFEST_TAIL - 1, start, sizeof(start) - 1) == 0) {
        body = size - CERO_MANIFEST_TAIL;
    }
    char *repaired = fuzz_alloc(body + CERO_MANIFEST_TAIL);
    if (body > 0) {
        memcpy(repaired, text, body);
    }
    memcpy(repaired + body, cero_manifest_tail(repaired, body, tail), CERO_MANIFEST_TAIL);
    *length = body + CERO_MANIFEST_TAIL;
    return repaired;
}
