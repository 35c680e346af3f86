/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training config (ds_config.json): any bytes are refused with one line that names the file, or they are a
 * config whose batch sizes fit together. The effective config that is printed of it is JSON; its values, set one by
 * one over the defaults, give the same effective values again.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/text.h"
#include "spec/train.h"

#include <stdlib.h>
#include <string.h>

#define NAME "ds_config.json"

enum {
    MAX_KEYS = 160
};

/* The lines `"key": {"value": VALUE, "origin": "…"}` of an effective config as key=VALUE, cut in place. */
static int list_values(char *text, char *out[MAX_KEYS])
{
    static const char middle[] = "\": {\"value\": ";
    int count = 0;

    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *value = strstr(line, middle);
        char *end = NULL;
        if (value == NULL) {
            continue;
        }
        for (char *p = value; (p = strstr(p, ", \"origin\": \"")) != NULL; p++) {
            end = p;
        }
        fuzz_expect(end != NULL && count < MAX_KEYS, "line %s", line);
        *end = '\0';
        *value = '=';
        memmove(value + 1, value + sizeof(middle) - 1, strlen(value + sizeof(middle) - 1) + 1);
        out[count++] = strchr(line, '"') + 1;
    }
    return count;
}

static void check_values(const cero_train_config *config, int dp_size)
{
    char *first[MAX_KEYS];
    char *second[MAX_KEYS];
    cero_text a = {0};
    cero_text b = {0};
    cero_json_document *document = NULL;
    cero_train_config *again = NULL;

    fuzz_expect(cero_train_config_write_json(config, &a) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(cero_json_parse(NAME, a.data, a.length, NULL, &document) == CERO_OK, "%s",
                cero_error_message());
    cero_json_destroy(&document);
    int count = list_values(a.data, first);
    cero_train_config_params params = {
        .overrides = (const char *const *)first, .override_count = count, .dp_size = dp_size};
    fuzz_expect(cero_train_config_create(&params, &again) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(cero_train_config_write_json(again, &b) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(list_values(b.data, second) == count, "%d values", count);
    for (int i = 0; i < count; i++) {
        fuzz_expect(strcmp(first[i], second[i]) == 0, "%s became %s", first[i], second[i]);
    }
    const cero_train_spec *x = cero_train_config_spec(config);
    const cero_train_spec *y = cero_train_config_spec(again);
    fuzz_expect(x->optimizer.lr == y->optimizer.lr && x->optimizer.eps == y->optimizer.eps &&
                    x->optimizer.weight_decay == y->optimizer.weight_decay &&
                    x->gradient_clipping == y->gradient_clipping && x->seed == y->seed,
                "lr %a became %a", x->optimizer.lr, y->optimizer.lr);
    cero_train_config_destroy(&again);
    cero_text_cleanup(&a);
    cero_text_cleanup(&b);
}

static void check_spec(const cero_train_spec *spec, int dp_size)
{
    fuzz_expect(spec->zero_stage >= 0 && spec->zero_stage <= 3, "stage %d", spec->zero_stage);
    fuzz_expect(spec->train_batch_size == spec->train_micro_batch_size_per_gpu *
                                              spec->gradient_accumulation_steps * dp_size,
                "%lld sequences of %lld x %lld x %d", (long long)spec->train_batch_size,
                (long long)spec->train_micro_batch_size_per_gpu,
                (long long)spec->gradient_accumulation_steps, dp_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cero_train_config *config = NULL;
    cero_train_config_params params = {.path = NAME, .dp_size = size % 2 == 0 ? 1 : 4};
    char *text = fuzz_copy(data, size);

    params.text = text;
    params.text_length = size;
    fuzz_accepted = fuzz_is_ok(cero_train_config_create(&params, &config), NAME);
    if (fuzz_accepted) {
        for (int i = 0; i < cero_train_config_note_count(config); i++) {
            fuzz_expect(cero_train_config_note(config, i) != NULL, "note %d", i);
        }
        check_spec(cero_train_config_spec(config), params.dp_size);
        check_values(config, params.dp_size);
    } else {
        fuzz_expect(config == NULL, "%zu bytes", size);
    }
    cero_train_config_destroy(&config);
    free(text);
    return 0;
}
