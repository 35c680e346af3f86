/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of hosts; see host_filter.h. The whole text is checked first, so that nothing is dropped from
 * the list before everything it names is known to exist.
 */
#include "cli/launch/host_filter.h"

#include "base/memory.h"
#include "base/text.h"

#include <string.h>

#define EXPECTED "expected HOST[:SLOT,SLOT...]@HOST..."

enum {
    SHOWN_HOSTS = 8
};

/* A filter and the option it came by. */
typedef struct filter {
    const char *option;
    const char *text;
    bool is_include;
} filter;

/* One "HOST[:SLOT,…]": views into the text. */
typedef struct node {
    const char *host;
    size_t host_length;
    const char *slots; /* NULL: all */
    size_t slots_length;
} node;

/* The node that starts at *at, which moves behind its '@'; false behind the last. */
static bool next_node(const char **at, node *out)
{
    const char *begin = *at;

    if (begin == NULL) {
        return false;
    }
    size_t length = strcspn(begin, "@");
    const char *colon = memchr(begin, ':', length);
    out->host = begin;
    out->host_length = colon != NULL ? (size_t)(colon - begin) : length;
    out->slots = colon != NULL ? colon + 1 : NULL;
    out->slots_length = colon != NULL ? (size_t)(begin + length - colon - 1) : 0;
    *at = begin[length] == '@' ? begin + length + 1 : NULL;
    return true;
}

/* The slot that starts at *at, within the node; false behind the last. -1: not a number. */
static bool next_slot(const node *n, const char **at, int *slot, size_t *length)
{
    const char *end = n->slots + n->slots_length;
    const char *begin = *at;
    int value = 0;

    if (begin == NULL) {
        return false;
    }
    const char *comma = memchr(begin, ',', (size_t)(end - begin));
    const char *stop = comma != NULL ? comma : end;
    for (const char *p = begin; p < stop && value >= 0; p++) {
        bool is_digit = *p >= '0' && *p <= '9' && value <= CERO_HOST_MAX_SLOTS;
        value = is_digit ? value * 10 + (*p - '0') : -1;
    }
    *slot = stop > begin ? value : -1;
    *length = (size_t)(stop - begin);
    *at = comma != NULL ? comma + 1 : NULL;
    return true;
}

static cero_status fail_unknown_host(const cero_host_list *list, const filter *f, const node *n)
{
    cero_text names = {0};

    for (int64_t i = 0; i < list->count && i < SHOWN_HOSTS; i++) {
        cero_text_printf(&names, "%s%s", i > 0 ? ", " : "", list->host[i].name);
    }
    if (list->count > SHOWN_HOSTS) {
        cero_text_printf(&names, " and %lld more", (long long)(list->count - SHOWN_HOSTS));
    }
    cero_status st =
        CERO_FAIL(CERO_ERR_INVALID, "%s: there is no host '%.*s'; there %s %s", f->option,
                  (int)n->host_length, n->host, list->count == 1 ? "is" : "are", names.data);
    cero_text_cleanup(&names);
    return st;
}

static cero_status check_node(const cero_host_list *list, const filter *f, const node *n)
{
    const char *at = n->slots;
    size_t length = 0;
    int slot = 0;

    CERO_CHECK(n->host_length > 0, CERO_ERR_INVALID, "%s: a host is missing in '%s'; " EXPECTED,
               f->option, f->text);
    const cero_host *host = cero_host_list_find(list, n->host, n->host_length);
    if (host == NULL) {
        return fail_unknown_host(list, f, n);
    }
    for (const char *begin = at; next_slot(n, &at, &slot, &length); begin = at) {
        CERO_CHECK(slot >= 0, CERO_ERR_INVALID, "%s: '%.*s' is not the number of a slot; " EXPECTED,
                   f->option, (int)length, begin);
        CERO_CHECK(slot < host->slots, CERO_ERR_INVALID,
                   "%s: host %s has no slot %d; its %d slot(s) are 0 to %d", f->option, host->name,
                   slot, host->slots, host->slots - 1);
    }
    return CERO_OK;
}

/* How many slots of a host the filter names. */
static cero_status count_named(const cero_host *host, const filter *f, int *out)
{
    bool *is_named = cero_new((size_t)host->slots, sizeof(*is_named));
    const char *at = f->text;
    node n;

    CERO_CHECK(is_named != NULL, CERO_ERR_NOMEM, "no memory for the slots of %s", host->name);
    while (next_node(&at, &n)) {
        const char *slot_at = n.slots;
        size_t length = 0;
        int slot = 0;
        if (strncmp(host->name, n.host, n.host_length) != 0 || host->name[n.host_length] != '\0') {
            continue;
        }
        for (int i = 0; n.slots == NULL && i < host->slots; i++) {
            is_named[i] = true;
        }
        while (next_slot(&n, &slot_at, &slot, &length)) {
            is_named[slot] = true;
        }
    }
    *out = 0;
    for (int i = 0; i < host->slots; i++) {
        *out += is_named[i] ? 1 : 0;
    }
    cero_delete(is_named);
    return CERO_OK;
}

/* Leaves `kept` slots of a host; one that keeps all of them keeps its room as well. */
static void keep_slots(cero_host *host, int kept)
{
    int dropped = host->slots - kept;

    if (dropped > 0) {
        host->slots = kept;
        host->room = kept;
        host->max_slots -= host->max_slots > 0 ? dropped : 0;
    }
}

static cero_status apply(cero_host_list *list, const filter *f)
{
    int *kept = cero_new((size_t)list->count, sizeof(*kept));
    cero_status st = CERO_OK;
    int64_t total = 0;
    int64_t count = 0;

    CERO_CHECK(kept != NULL, CERO_ERR_NOMEM, "no memory for a filter of hosts");
    for (int64_t i = 0; i < list->count; i++) {
        int named = 0;
        CERO_TRY_GOTO(count_named(&list->host[i], f, &named), out);
        kept[i] = f->is_include ? named : list->host[i].slots - named;
        total += kept[i];
    }
    if (total == 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_INVALID, "%s '%s' leaves no slot of %lld host(s)", f->option,
                       f->text, (long long)list->count);
    }
    for (int64_t i = 0; i < list->count; i++) {
        if (kept[i] == 0) {
            cero_delete(list->host[i].name);
            continue;
        }
        keep_slots(&list->host[i], kept[i]);
        list->host[count++] = list->host[i];
    }
    list->count = count;

out:
    cero_delete(kept);
    return st;
}

cero_status cero_host_filter_apply(cero_host_list *list, const char *include, const char *exclude)
{
    filter f = {.option = include != NULL ? "--include" : "--exclude",
                .text = include != NULL ? include : exclude,
                .is_include = include != NULL};
    const char *at = f.text;
    node n;

    CERO_CHECK(include == NULL || exclude == NULL, CERO_ERR_INVALID,
               "--include and --exclude exclude each other; give one of them");
    if (f.text == NULL) {
        return CERO_OK;
    }
    while (next_node(&at, &n)) {
        CERO_TRY(check_node(list, &f, &n));
    }
    return apply(list, &f);
}
