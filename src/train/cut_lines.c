/* SPDX-License-Identifier: Apache-2.0 */
/* The cut of cut_lines.h: from the end of the file backwards, so that long files cost what is taken off. */
#include "train/cut_lines.h"

#include "base/file.h"
#include "base/io.h"
#include "base/memory.h"

#include <string.h>

/* One line of a file, its newline not in it. */
typedef struct line {
    const char *text;
    size_t length;
    bool is_whole; /* its newline is there */
} line;

/* The last line of `length` bytes, which are not empty. */
static line find_last_line(const char *bytes, size_t length)
{
    bool is_whole = bytes[length - 1] == '\n';
    size_t end = length - (is_whole ? 1 : 0);
    size_t begin = end;

    while (begin > 0 && bytes[begin - 1] != '\n') {
        begin--;
    }
    return (line){.text = bytes + begin, .length = end - begin, .is_whole = is_whole};
}

/* The number that a line begins with; -1: it is no line of the kind. */
static int64_t parse_number(const cero_cut_params *params, const line *l)
{
    size_t at = strlen(params->prefix);
    int64_t number = 0;
    int digits = 0;

    if (l->length < at || memcmp(l->text, params->prefix, at) != 0) {
        return -1;
    }
    for (; at < l->length && l->text[at] >= '0' && l->text[at] <= '9' && digits < 18; at++) {
        number = number * 10 + (l->text[at] - '0');
        digits++;
    }
    bool is_good = digits > 0 && at < l->length && l->text[at] == ',' &&
                   (params->last == '\0' || l->text[l->length - 1] == params->last);
    return is_good ? number : -1;
}

static int64_t count_lines(const char *bytes, size_t length)
{
    int64_t count = 1;

    for (size_t i = 0; i < length; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

/* Bytes that stay. */
static cero_status find_end(const cero_cut_params *params, const char *bytes, size_t length,
                            size_t *end, int64_t *last)
{
    int64_t next = INT64_MAX; // number of the line behind, which went

    *last = 0;
    while (length > 0) {
        line l = find_last_line(bytes, length);
        int64_t number = parse_number(params, &l);
        size_t before = (size_t)(l.text - bytes);
        if (l.is_whole && before == 0 && params->has_heading) {
            break;
        }
        if (l.is_whole && number >= 0 && (number <= params->limit || number >= next)) {
            *last = number <= params->limit ? number : 0;
            break;
        }
        // A file that was not brought to the disk may have zeros where its last lines were.
        bool is_left_over = !l.is_whole || memchr(l.text, '\0', l.length) != NULL;
        int shown =
            l.length < 40 ? (int)l.length : 40; // the map ends with the file, not with a NUL
        CERO_CHECK(number >= 0 || is_left_over, CERO_ERR_CORRUPT,
                   "%s:%lld: found \"%.*s\", expected a line that begins with %sNUMBER,; move the "
                   "file away to go on without it",
                   params->path, (long long)count_lines(bytes, before), shown, l.text,
                   params->prefix);
        next = l.is_whole && number >= 0 ? number : next;
        length = before;
    }
    *end = length;
    return CERO_OK;
}

/* Removes what a process left beside the file that was killed while it replaced it. */
static cero_status remove_left_over(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path);
    cero_file_list files = {0};

    if (slash == NULL || slash == path) {
        return CERO_OK; // files of runs lie in their folder
    }
    char *dir = cero_strndup(path, (size_t)(slash - path));
    if (dir == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the folder of %s", path);
    }
    cero_status st = cero_file_list_dir(dir, false, &files);
    for (int64_t i = 0; i < files.count; i++) {
        if (strncmp(files.path[i], path, length) == 0 &&
            strncmp(files.path[i] + length, ".tmp-", 5) == 0) {
            (void)cero_io_unlink(files.path[i]); // if it stays it is in nobody's way
        }
    }
    cero_file_list_cleanup(&files);
    cero_delete(dir);
    return st;
}

cero_status cero_cut_lines(const cero_cut_params *params, int64_t *last)
{
    cero_status st = CERO_OK;
    cero_file_map map = {0};
    size_t end = 0;
    int64_t found = 0;

    *last = 0;
    if (cero_file_stat(params->path, NULL) == CERO_FILE_ABSENT) {
        return CERO_OK;
    }
    CERO_TRY(remove_left_over(params->path));
    CERO_TRY(cero_file_map_open(params->path, &map));
    CERO_TRY_GOTO(find_end(params, (const char *)map.data, map.length, &end, &found), out);
    if (end < map.length) {
        CERO_TRY_GOTO(cero_file_write(params->path, map.data, end), out);
    }
    *last = found;
out:
    cero_file_map_close(&map);
    return st;
}
