/* SPDX-License-Identifier: Apache-2.0 */
/* The count of launch/progress.h, and the diagnosis when it is over. */
#include "cli/launch/progress.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "ckpt/checkpoint/folder.h"

#include <string.h>

/* Step of the newest complete checkpoint; -1: none. A folder that cannot be read is told once each time. */
static int64_t find_newest(const char *dir)
{
    cero_folder_list list = {0};
    int64_t newest = -1;

    if (cero_folder_list_read(dir, &list) != CERO_OK) {
        cero_log(CERO_LOG_WARN, "cli", "how far the job has got is not known: %s",
                 cero_error_message());
        return -1;
    }
    for (int64_t i = 0; i < list.count; i++) {
        const cero_folder_entry *e = &list.entries[i];
        if (e->kind == CERO_FOLDER_COMPLETE && e->step > newest) {
            newest = e->step;
        }
    }
    cero_folder_list_cleanup(&list);
    return newest;
}

void cero_launch_progress_begin(cero_launch_progress *progress)
{
    progress->newest = progress->dir != NULL ? find_newest(progress->dir) : -1;
}

bool cero_launch_progress_update(cero_launch_progress *progress, int code, double seconds)
{
    if (progress->dir == NULL) {
        return false;
    }
    int64_t newest = find_newest(progress->dir);
    bool has_moved = newest > progress->newest;
    progress->newest = newest;
    if (has_moved) {
        progress->idle = 0;
        return true;
    }
    memmove(progress->code + 1, progress->code, sizeof(progress->code) - sizeof(progress->code[0]));
    memmove(progress->seconds + 1, progress->seconds,
            sizeof(progress->seconds) - sizeof(progress->seconds[0]));
    progress->code[0] = code;
    progress->seconds[0] = seconds;
    progress->idle++;
    return false;
}

static void say_why(const cero_launch_progress *progress)
{
    cero_text ends = {0};
    cero_text where = {0};
    int shown = progress->idle < CERO_LAUNCH_SHOWN ? progress->idle : CERO_LAUNCH_SHOWN;

    for (int i = shown - 1; i >= 0; i--) {
        cero_text_printf(&ends, "%d after %.1f s%s", progress->code[i], progress->seconds[i],
                         i > 0 ? ", " : "");
    }
    if (progress->newest >= 0) {
        cero_text_printf(&where, "the newest in %s is still of step %lld", progress->dir,
                         (long long)progress->newest);
    } else {
        cero_text_printf(&where, "there is none in %s", progress->dir);
    }
    if (!ends.has_failed && !where.has_failed) {
        cero_log(
            CERO_LOG_ERROR, "cli",
            "the job ended %d times in a row without a newer checkpoint (exit codes %s); %s: it "
            "is not started again",
            progress->idle, ends.data, where.data);
        cero_log(
            CERO_LOG_ERROR, "cli",
            "what its ranks said last is above; look for a step that always fails, for memory "
            "(137 may be the kernel's), for a disk that is full, and whether --save-every is "
            "less than the steps it gets to; --no-progress-limit changes how often it is tried");
    }
    cero_text_cleanup(&ends);
    cero_text_cleanup(&where);
}

bool cero_launch_progress_is_hopeless(const cero_launch_progress *progress)
{
    bool is_over =
        progress->dir != NULL && progress->limit > 0 && progress->idle >= progress->limit;

    if (is_over) {
        say_why(progress);
    }
    return is_over;
}

/* The value of an option in words: "--out X", "--out=X", "-o X", "-oX"; the last one counts. */
static const char *find_value(const cero_words *words, const char *name, char letter)
{
    const char *found = NULL;
    size_t length = strlen(name);

    for (int i = 1; i < words->count; i++) {
        const char *word = words->word[i];
        const char *next = i + 1 < words->count ? words->word[i + 1] : NULL;
        bool is_long = strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, length) == 0;
        bool is_short = letter != '\0' && word[0] == '-' && word[1] == letter;
        if (is_long && word[2 + length] == '=') {
            found = word + 3 + length;
        } else if (is_short && word[2] != '\0') {
            found = word + 2;
        } else if ((is_long && word[2 + length] == '\0') || is_short) {
            found = next;
        }
    }
    return found;
}

cero_status cero_launch_train_read(const cero_words *program, cero_launch_train *out)
{
    static const char *const chosen[] = {"never", "auto", "if-present"};
    const char *dir = find_value(program, "out", 'o');
    const char *resume = find_value(program, "resume", '\0');

    *out = (cero_launch_train){0};
    for (size_t i = 0; resume != NULL && i < CERO_COUNT_OF(chosen); i++) {
        out->chooses_restart = out->chooses_restart || strcmp(resume, chosen[i]) == 0;
    }
    if (dir != NULL) {
        out->checkpoints = cero_file_join(dir, "checkpoints");
        CERO_CHECK(out->checkpoints != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    }
    return CERO_OK;
}
