/* SPDX-License-Identifier: Apache-2.0 */
/* Hostfiles, line by line; see hostfile.h. Nothing is guessed: a word that is not understood is an error. */
#include "cli/launch/hostfile.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#define EXPECTED "expected 'HOST slots=N', 'HOST slots=N max_slots=M', 'HOST:N' or 'HOST'"

enum {
    MAX_FILE_BYTES = 64 << 20,
    SHOWN_BYTES = 80
};

/* A line on its way through. */
typedef struct line_cursor {
    const char *path;
    int number;
    const char *begin; /* the line without comment, surrounding space and line end */
    const char *end;
    const char *next;
} line_cursor;

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool cero_host_name_is_valid(const char *name, size_t length)
{
    if (length == 0 || length > 255 || !is_alnum(name[0])) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_alnum(name[i]) && name[i] != '.' && name[i] != '-' && name[i] != '_') {
            return false;
        }
    }
    return true;
}

cero_host *cero_host_list_find(const cero_host_list *list, const char *name, size_t length)
{
    // From the end: lines that repeat a host mostly follow each other.
    for (int64_t i = list->count - 1; i >= 0; i--) {
        const char *other = list->host[i].name;
        if (strncmp(other, name, length) == 0 && other[length] == '\0') {
            return &list->host[i];
        }
    }
    return NULL;
}

cero_status cero_host_list_add(cero_host_list *list, const char *name, size_t length, int slots)
{
    void *array = list->host;

    CERO_CHECK(cero_host_name_is_valid(name, length), CERO_ERR_INVALID,
               "'%.*s' is not a host name: letters, digits, '.', '-' and '_' make one",
               (int)(length < SHOWN_BYTES ? length : SHOWN_BYTES), name);
    CERO_TRY(cero_grow(&array, list->count, &list->capacity, sizeof(list->host[0])));
    list->host = array;
    char *copy = cero_strndup(name, length);
    CERO_CHECK(copy != NULL, CERO_ERR_NOMEM, "no memory for the name of a host");
    list->host[list->count++] = (cero_host){.name = copy, .slots = slots, .room = slots};
    return CERO_OK;
}

int64_t cero_host_list_slots(const cero_host_list *list)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < list->count; i++) {
        sum += list->host[i].slots;
    }
    return sum;
}

void cero_host_list_cleanup(cero_host_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        cero_delete(list->host[i].name);
    }
    cero_delete(list->host);
    *list = (cero_host_list){0};
}

/* What the line says, fit for a terminal. */
static const char *shown(const char *begin, const char *end, char *text, size_t size)
{
    size_t length = (size_t)(end - begin);
    bool is_cut = length > SHOWN_BYTES;
    size_t used = is_cut ? SHOWN_BYTES : length;

    for (size_t i = 0; i < used; i++) {
        unsigned char c = (unsigned char)begin[i];
        text[i] = c < 0x20 || c == 0x7f ? '?' : begin[i];
    }
    (void)snprintf(text + used, size - used, "%s", is_cut ? "..." : "");
    return text;
}

/* The error of a line: which word of it is wrong, and why. */
static cero_status fail_line(const line_cursor *c, const char *word, size_t length, const char *why)
{
    char line[SHOWN_BYTES + 8];
    char part[SHOWN_BYTES + 8];

    return CERO_FAIL(CERO_ERR_INVALID, "%s:%d: '%s' is no line of a hostfile: '%s' %s; " EXPECTED,
                     c->path, c->number, shown(c->begin, c->end, line, sizeof(line)),
                     shown(word, word + length, part, sizeof(part)), why);
}

/* The next word of the line; false at its end. */
static bool next_word(line_cursor *c, const char **word, size_t *length)
{
    while (c->next < c->end && is_space(*c->next)) {
        c->next++;
    }
    *word = c->next;
    while (c->next < c->end && !is_space(*c->next)) {
        c->next++;
    }
    *length = (size_t)(c->next - *word);
    return *length > 0;
}

/* A count of 1 to CERO_HOST_MAX_SLOTS, written with digits alone. */
static bool read_count(const char *text, size_t length, int *out)
{
    int value = 0;

    if (length == 0 || length > 7) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (text[i] - '0');
    }
    *out = value;
    return value >= 1 && value <= CERO_HOST_MAX_SLOTS;
}

/* True if the word starts with `key`; the value follows. */
static bool has_key(const char *word, size_t length, const char *key, const char **value,
                    size_t *value_length)
{
    size_t n = strlen(key);

    if (length < n || memcmp(word, key, n) != 0) {
        return false;
    }
    *value = word + n;
    *value_length = length - n;
    return true;
}

/* One "key=value" behind the host. */
static cero_status parse_attribute(const line_cursor *c, const char *word, size_t length,
                                   int *slots, int *max_slots)
{
    const char *value;
    size_t n;
    int *field;

    if (has_key(word, length, "slots=", &value, &n)) {
        field = slots;
    } else if (has_key(word, length, "max_slots=", &value, &n) ||
               has_key(word, length, "max-slots=", &value, &n)) {
        field = max_slots;
    } else {
        return fail_line(c, word, length, "is not known");
    }
    if (*field != 0) {
        return fail_line(c, word, length, "is a second count");
    }
    if (!read_count(value, n, field)) {
        return fail_line(c, word, length, "is not a count from 1 to 1000000");
    }
    return CERO_OK;
}

/* A host that is there already: bare lines add up, anything else is a mistake. */
static cero_status parse_repeated(const line_cursor *c, cero_host *host, bool is_bare)
{
    char why[96];

    if (!is_bare || !host->is_bare) {
        (void)snprintf(why, sizeof(why), "came in line %d already", host->line);
        return fail_line(c, host->name, strlen(host->name), why);
    }
    if (host->slots >= CERO_HOST_MAX_SLOTS) {
        return fail_line(c, host->name, strlen(host->name), "has more than 1000000 slots");
    }
    host->slots++;
    host->room = host->slots;
    return CERO_OK;
}

static cero_status parse_line(line_cursor *c, cero_host_list *list)
{
    const char *host;
    const char *word;
    size_t length;
    size_t host_length;
    int slots = 0;
    int max_slots = 0;

    if (!next_word(c, &host, &host_length)) {
        return CERO_OK;
    }
    const char *colon = memchr(host, ':', host_length);
    if (colon != NULL) {
        size_t n = (size_t)(host + host_length - colon - 1);
        if (!read_count(colon + 1, n, &slots)) {
            return fail_line(c, host, host_length, "has no count from 1 to 1000000 behind ':'");
        }
        host_length = (size_t)(colon - host);
    }
    if (!cero_host_name_is_valid(host, host_length)) {
        return fail_line(c, host, host_length, "is not a host name");
    }
    while (next_word(c, &word, &length)) {
        CERO_TRY(parse_attribute(c, word, length, &slots, &max_slots));
    }
    if (max_slots != 0 && slots > max_slots) {
        return fail_line(c, host, host_length, "has more slots than max_slots");
    }
    cero_host *known = cero_host_list_find(list, host, host_length);
    bool is_bare = slots == 0 && max_slots == 0;
    if (known != NULL) {
        return parse_repeated(c, known, is_bare);
    }
    CERO_TRY(cero_host_list_add(list, host, host_length, slots == 0 ? 1 : slots));
    cero_host *added = &list->host[list->count - 1];
    added->max_slots = max_slots;
    added->line = c->number;
    added->is_bare = is_bare;
    return CERO_OK;
}

/* Cuts off comment, line end and the space around. */
static line_cursor cut_line(const char *path, int number, const char *begin, const char *end)
{
    const char *comment = memchr(begin, '#', (size_t)(end - begin));

    end = comment != NULL ? comment : end;
    while (begin < end && is_space(*begin)) {
        begin++;
    }
    while (begin < end && is_space(end[-1])) {
        end--;
    }
    return (line_cursor){.path = path, .number = number, .begin = begin, .end = end, .next = begin};
}

static cero_status parse_lines(const char *path, const char *text, const char *end,
                               cero_host_list *out)
{
    int number = 0;

    // Windows editors put a byte-order mark first.
    if (end - text >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
    }
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;
        line_cursor c = cut_line(path, ++number, text, stop);
        CERO_TRY(parse_line(&c, out));
        text = newline != NULL ? newline + 1 : end;
    }
    CERO_CHECK(out->count > 0, CERO_ERR_INVALID, "%s: no host in %d line(s); " EXPECTED, path,
               number);
    return CERO_OK;
}

cero_status cero_hostfile_parse(const char *path, const char *text, size_t length,
                                cero_host_list *out)
{
    cero_status st = parse_lines(path, text, text + length, out);

    if (st != CERO_OK) {
        cero_host_list_cleanup(out);
    }
    return st;
}

cero_status cero_hostfile_read(const char *path, cero_host_list *out)
{
    char *text = NULL;
    size_t length = 0;

    CERO_TRY(cero_file_read(path, MAX_FILE_BYTES, &text, &length));
    cero_status st = cero_hostfile_parse(path, text, length, out);
    cero_delete(text);
    return st;
}
