/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that ranks were given the same thing. The rank that differs says so, in words about what it holds, in
 * an agreement that all ranks come to.
 */
#include "comm/comm.h"

#include <string.h>

enum {
    MAX_LINE = 160 /* bytes of a line that are shown */
};

/* FNV-1a; for comparing what ranks hold, not for files. */
static uint64_t hash_bytes(const void *data, size_t nbytes)
{
    const unsigned char *p = data;
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < nbytes; i++) {
        hash = (hash ^ p[i]) * 0x100000001b3u;
    }
    return hash;
}

static cero_status fail_different(const char *what, int rank)
{
    return CERO_FAIL(CERO_ERR_INVALID,
                     "%s of rank %d differs from that of rank 0; start all ranks with the same "
                     "program and the same input",
                     what, rank);
}

cero_status cero_comm_check_same(cero_comm *comm, const char *what, const void *data, size_t nbytes)
{
    int64_t hash = (int64_t)(hash_bytes(data, nbytes) >> 1);
    int64_t first = hash;
    cero_status st = CERO_OK;

    if (cero_comm_size(comm) == 1) {
        return CERO_OK;
    }
    CERO_TRY(cero_comm_broadcast(comm, &first, sizeof(first), 0));
    if (first != hash) {
        st = fail_different(what, cero_comm_rank(comm));
    }
    st = cero_comm_agree(comm, st);
    int odd = cero_comm_agreed_failure(comm);
    // For the ranks that hold what rank 0 does it is no failure of another: they are all in one boat.
    return st == CERO_ERR_REMOTE && odd >= 0 ? fail_different(what, odd) : st;
}

/* Where the lines of two texts differ first; both stand at the end when they are equal. */
static void find_difference(const char **a, const char **b)
{
    for (;;) {
        size_t length = strcspn(*a, "\n");
        if (length != strcspn(*b, "\n") || memcmp(*a, *b, length) != 0 || (*a)[length] == '\0') {
            return;
        }
        *a += length + 1;
        *b += length + 1;
        if (**a == '\0' || **b == '\0') {
            return;
        }
    }
}

/* Of a line that begins at *line, without the indentation. */
static int line_length(const char **line)
{
    *line += strspn(*line, " ");
    size_t length = strcspn(*line, "\n");

    return (int)(length < MAX_LINE ? length : MAX_LINE);
}

static cero_status compare(const cero_comm *comm, const char *what, const char *mine,
                           const char *first)
{
    if (strcmp(mine, first) == 0) {
        return CERO_OK;
    }
    find_difference(&mine, &first);
    int mine_length = line_length(&mine);
    int first_length = line_length(&first);
    return CERO_FAIL(CERO_ERR_INVALID,
                     "%s of rank %d differs from that of rank 0: '%.*s' instead of '%.*s'; start "
                     "all ranks with the same program and the same input",
                     what, cero_comm_rank(comm), mine_length, mine, first_length, first);
}

cero_status cero_comm_check_same_text(cero_comm *comm, const char *what, const cero_text *text)
{
    int64_t length = (int64_t)text->length;
    cero_status st = CERO_OK;
    char *first = NULL;

    // Of a rank of a world that does not exist there is nobody to compare with.
    if (cero_comm_size(comm) == 1 || cero_comm_is_virtual(comm)) {
        return CERO_OK;
    }
    CERO_TRY(cero_comm_broadcast(comm, &length, sizeof(length), 0));
    first = cero_new((size_t)length + 1, 1);
    st = first != NULL ? CERO_OK : CERO_FAIL(CERO_ERR_NOMEM, "no memory to compare %s", what);
    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    if (cero_comm_rank(comm) == 0) {
        memcpy(first, text->data, (size_t)length);
    }
    CERO_TRY_GOTO(cero_comm_broadcast(comm, first, (size_t)length, 0), out);
    CERO_TRY_GOTO(cero_comm_agree(comm, compare(comm, what, text->data, first)), out);

out:
    cero_delete(first);
    return st;
}
