/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostfiles: any bytes give a list of hosts or one line that names the file, in bounded memory and without a byte
 * read past the end; names are fit for a command line and differ; slots lie within their bounds; a list that is
 * written in the first dialect reads back as itself; nothing is left in the list after an error.
 */
#include "fuzz.h"

#include "base/text.h"
#include "cli/launch/hostfile.h"

#include <stdlib.h>
#include <string.h>

#define NAME "hosts.txt"

static void check_list(const cero_host_list *list)
{
    int64_t sum = 0;

    fuzz_expect(list->count > 0, "%lld hosts", (long long)list->count);
    for (int64_t i = 0; i < list->count; i++) {
        const cero_host *h = &list->host[i];
        fuzz_expect(cero_host_name_is_valid(h->name, strlen(h->name)), "host '%s'", h->name);
        fuzz_expect(h->slots >= 1 && h->slots <= CERO_HOST_MAX_SLOTS, "%d slots", h->slots);
        fuzz_expect(h->room >= h->slots && (h->max_slots == 0 || h->max_slots >= h->slots),
                    "%d slots, room %d, max_slots %d", h->slots, h->room, h->max_slots);
        fuzz_expect(cero_host_list_find(list, h->name, strlen(h->name)) == h, "'%s' comes twice",
                    h->name);
        sum += h->slots;
    }
    fuzz_expect(cero_host_list_slots(list) == sum, "%lld slots in all", (long long)sum);
}

static void check_written(const cero_host_list *list)
{
    cero_text text = {0};
    cero_host_list again = {0};

    for (int64_t i = 0; i < list->count; i++) {
        const cero_host *h = &list->host[i];
        cero_text_printf(&text, "%s slots=%d", h->name, h->slots);
        if (h->max_slots != 0) {
            cero_text_printf(&text, " max_slots=%d", h->max_slots);
        }
        cero_text_append(&text, "\n", 1);
    }
    fuzz_expect(cero_hostfile_parse(NAME, text.data, text.length, &again) == CERO_OK, "%s\n%s",
                cero_error_message(), text.data);
    fuzz_expect(again.count == list->count, "%lld hosts", (long long)again.count);
    for (int64_t i = 0; i < again.count; i++) {
        const cero_host *a = &again.host[i];
        const cero_host *b = &list->host[i];
        fuzz_expect(strcmp(a->name, b->name) == 0 && a->slots == b->slots &&
                        a->max_slots == b->max_slots,
                    "host %lld: '%s' '%s'", (long long)i, a->name, b->name);
    }
    cero_host_list_cleanup(&again);
    cero_text_cleanup(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cero_host_list list = {0};

    fuzz_accepted = fuzz_is_ok(cero_hostfile_parse(NAME, (const char *)data, size, &list), NAME);
    if (fuzz_accepted) {
        check_list(&list);
        check_written(&list);
    } else {
        fuzz_expect(list.count == 0 && list.host == NULL, "%lld hosts left", (long long)list.count);
    }
    cero_host_list_cleanup(&list);
    return 0;
}
