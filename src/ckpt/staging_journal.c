/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of an exchange: a text file with a line for each name, and what it tells readers. */
#include "ckpt/staging_impl.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

/* Lines of the journal: the first, one for each name that is exchanged, the last. */
#define FIRST_LINE "cero export 1"
#define WAS_LINE   "was "  /* an old file stood there */
#define NONE_LINE  "none " /* nothing did */
#define LAST_LINE  "end"

enum {
    MAX_JOURNAL = 16 * 1024 * 1024 /* bytes */
};

cero_status cero_staging_journal_write(const cero_staging *s)
{
    cero_status st = CERO_OK;
    cero_text text = {0};

    cero_text_printf(&text, FIRST_LINE "\n");
    for (int64_t i = 0; i < s->count; i++) {
        const cero_staging_change *c = &s->changes[i];
        cero_text_printf(&text, "%s%s\n", c->had_old ? WAS_LINE : NONE_LINE, c->name);
    }
    cero_text_printf(&text, LAST_LINE "\n");
    CERO_TRY_GOTO(cero_text_finish(&text), out);
    CERO_TRY_GOTO(cero_file_write(s->journal, text.data, text.length), out);

out:
    cero_text_cleanup(&text);
    return st;
}

static cero_status parse_journal(cero_staging *s, char *text)
{
    char *line = text;
    bool is_ended = false;

    for (int number = 0; *line != '\0' && !is_ended; number++) {
        char *next = line + strcspn(line, "\n");
        bool was = strncmp(line, WAS_LINE, sizeof(WAS_LINE) - 1) == 0;
        bool none = strncmp(line, NONE_LINE, sizeof(NONE_LINE) - 1) == 0;
        if (*next == '\n') {
            *next++ = '\0';
        }
        is_ended = number > 0 && strcmp(line, LAST_LINE) == 0;
        if (number == 0 ? strcmp(line, FIRST_LINE) != 0 : !was && !none && !is_ended) {
            break;
        }
        if (was || none) {
            CERO_TRY(cero_staging_add_change(
                s, line + (was ? sizeof(WAS_LINE) - 1 : sizeof(NONE_LINE) - 1), false));
            s->changes[s->count - 1].had_old = was;
        }
        line = next;
    }
    if (!is_ended || *line != '\0') {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s is no journal of an export; what stood in %s may be in %s: put it "
                         "right by hand and remove %s",
                         s->journal, s->dir, s->old, s->folder);
    }
    return CERO_OK;
}

cero_status cero_staging_journal_read(cero_staging *s)
{
    char *text = NULL;
    size_t length = 0;

    CERO_TRY(cero_file_read(s->journal, MAX_JOURNAL, &text, &length));
    cero_status st = parse_journal(s, text);
    cero_delete(text);
    return st;
}

cero_status cero_staging_check(const char *dir)
{
    char *journal = cero_file_join(dir, CERO_STAGING_JOURNAL);

    if (journal == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open %s", dir);
    }
    struct stat info;
    bool is_torn = lstat(journal, &info) == 0;
    cero_delete(journal);
    if (is_torn) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s may hold files of two models: an export into it is exchanging them, "
                         "or was cut off there; once it is over, export into it again, which first "
                         "puts the older files back (they are in %s/" CERO_STAGING_OLD ")",
                         dir, dir);
    }
    return CERO_OK;
}
