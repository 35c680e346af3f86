/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the command line become parameters of a trainer; see resume_options.h. */
#include "cli/resume_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cero_resume choose_resume(const cero_train_options *o)
{
    static const char *const words[] = {"never", "auto", "if-present"};

    for (int i = 0; o->resume != NULL && i < (int)CERO_COUNT_OF(words); i++) {
        if (strcmp(o->resume, words[i]) == 0) {
            return (cero_resume)i;
        }
    }
    return o->resume != NULL ? CERO_RESUME_TAG : CERO_RESUME_NEVER;
}

/* A number is a step, whose checkpoint is called after it. */
static cero_status name_checkpoint(const char *word, char tag[CERO_FOLDER_MAX_TAG])
{
    size_t digits = strspn(word, "0123456789");

    if (word[digits] == '\0' && digits > 0 && digits < 16) {
        (void)cero_folder_step_tag(strtoll(word, NULL, 10), tag);
        return CERO_OK;
    }
    cero_status st = cero_folder_check_tag(word);
    (void)snprintf(tag, CERO_FOLDER_MAX_TAG, "%s", word);
    return st == CERO_OK
               ? CERO_OK
               : cero_error_prefix(st, "--resume takes never, auto, if-present, a step or a tag: ");
}

/* One of --resume-without's words, which may hold several. */
static cero_status parse_without(const char *word, cero_trainer_params *params)
{
    for (const char *p = word; *p != '\0';) {
        size_t length = strcspn(p, ",");
        if (length == 4 && memcmp(p, "data", length) == 0) {
            params->resume_without_data = true;
        } else if (length == 9 && memcmp(p, "optimizer", length) == 0) {
            params->resume_without_optimizer = true;
        } else {
            return CERO_FAIL(CERO_ERR_INVALID,
                             "--resume-without: '%.*s' is not one of data and optimizer",
                             (int)length, p);
        }
        p += length + (p[length] == ',' ? 1 : 0);
    }
    return CERO_OK;
}

cero_status cero_resume_options_apply(const cero_train_options *o, char tag[CERO_FOLDER_MAX_TAG],
                                      cero_trainer_params *params)
{
    params->save_every = o->save_every;
    params->keep = o->keep_checkpoints;
    params->stops_on_save_error = o->on_save_error == CERO_CLI_ON_SAVE_ERROR_STOP;
    params->init_from = o->init_from;
    params->resume = choose_resume(o);
    if (params->resume == CERO_RESUME_TAG) {
        CERO_TRY(name_checkpoint(o->resume, tag));
        params->resume_tag = tag;
    }
    for (int i = 0; i < o->resume_without.count; i++) {
        CERO_TRY(parse_without(o->resume_without.word[i], params));
    }
    CERO_CHECK(o->resume_without.count == 0 || params->resume != CERO_RESUME_NEVER,
               CERO_ERR_INVALID, "--resume-without is about a run that goes on: add --resume");
    CERO_CHECK(!o->partial || o->init_from != NULL, CERO_ERR_INVALID,
               "--partial is about --init-from, which is not given");
    CERO_CHECK(o->init_from == NULL || params->resume == CERO_RESUME_NEVER ||
                   params->resume == CERO_RESUME_IF_PRESENT,
               CERO_ERR_INVALID,
               "--init-from starts a run, and --resume %s goes on with one; give one of them, or "
               "--resume if-present",
               o->resume);
    return CERO_OK;
}
