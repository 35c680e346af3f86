/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json of a model: any bytes are refused with one line that names the file, or they are a description that
 * passes its own check and has parameters. The config.json that is written of it reads back as the same description,
 * and is written the same again.
 */
#include "fuzz.h"

#include "base/text.h"
#include "spec/model.h"

#include <string.h>

#define NAME "model/config.json"

static void check_written(const cero_model_spec *spec)
{
    cero_text first = {0};
    cero_text second = {0};
    cero_model_spec again;

    fuzz_expect(cero_model_spec_write_json(spec, spec->stored_dtype, &first) == CERO_OK, "%s",
                cero_error_message());
    fuzz_expect(cero_model_spec_parse(NAME, first.data, first.length, &again) == CERO_OK,
                "%s in %s", cero_error_message(), first.data);
    fuzz_expect(cero_model_spec_write_json(&again, again.stored_dtype, &second) == CERO_OK, "%s",
                cero_error_message());
    fuzz_expect(strcmp(first.data, second.data) == 0, "%s became %s", first.data, second.data);
    fuzz_expect(cero_model_spec_param_count(spec) == cero_model_spec_param_count(&again),
                "%lld parameters", (long long)cero_model_spec_param_count(&again));
    cero_text_cleanup(&first);
    cero_text_cleanup(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cero_model_spec spec;

    fuzz_accepted = fuzz_is_ok(cero_model_spec_parse(NAME, (const char *)data, size, &spec), NAME);
    if (fuzz_accepted) {
        fuzz_expect(cero_model_spec_check(&spec) == CERO_OK, "%s", cero_error_message());
        fuzz_expect(strcmp(spec.name, "model") == 0, "name \"%s\"", spec.name);
        fuzz_expect(cero_model_spec_param_count(&spec) > 0, "%lld parameters",
                    (long long)cero_model_spec_param_count(&spec));
        check_written(&spec);
    }
    return 0;
}
