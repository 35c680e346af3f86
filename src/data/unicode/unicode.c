/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 validation and canonical composition.
 *
 * NFC works on runs: a starter with all that may combine with it, up to the next character that
 * cannot change (UAX #15). A run is decomposed, sorted by combining class and composed again; text
 * outside runs is copied.
 */
#include "data/unicode/unicode.h"

#include "base/memory.h"

#include <string.h>

int cero_utf8_put(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (cp & 63));
    return 4;
}

static bool is_tail(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Bytes of the valid character at p, 0 if there is none (Unicode standard, table 3-7). */
static int valid_length(const uint8_t *p, size_t left)
{
    uint8_t a = p[0];
    if (a < 0x80) {
        return 1;
    }
    if (a < 0xC2 || a > 0xF4 || left < 2 || !is_tail(p[1])) {
        return 0;
    }
    if (a < 0xE0) {
        return 2;
    }
    if (left < 3 || !is_tail(p[2])) {
        return 0;
    }
    if (a < 0xF0) {
        bool is_bad = (a == 0xE0 && p[1] < 0xA0) || (a == 0xED && p[1] > 0x9F);
        return is_bad ? 0 : 3;
    }
    bool is_bad = (a == 0xF0 && p[1] < 0x90) || (a == 0xF4 && p[1] > 0x8F);
    return is_bad || left < 4 || !is_tail(p[3]) ? 0 : 4;
}

size_t cero_utf8_valid_prefix(const uint8_t *bytes, size_t length)
{
    size_t i = 0;
    while (i < length) {
        while (i + 8 <= length) {
            uint64_t word;
            memcpy(&word, bytes + i, 8);
            if ((word & UINT64_C(0x8080808080808080)) != 0) {
                break;
            }
            i += 8;
        }
        if (i == length) {
            break;
        }
        int n = valid_length(bytes + i, length - i);
        if (n == 0) {
            return i;
        }
        i += (size_t)n;
    }
    return i;
}

size_t cero_utf8_invalid_prefix(const uint8_t *bytes, size_t length)
{
    size_t i = 0;
    while (i < length && valid_length(bytes + i, length - i) == 0) {
        i++;
    }
    return i;
}

bool cero_nfc_is_plain(const uint8_t *bytes, size_t length)
{
    size_t i = 0;
    while (i < length) {
        if (bytes[i] < 0xCC) { // below U+0300 nothing combines and everything is composed
            i += bytes[i] < 0x80 ? 1 : 2;
            continue;
        }
        int n;
        if ((cero_unicode_get(cero_utf8_get(bytes + i, &n)) & CERO_UNICODE_NFC) != 0) {
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_L_COUNT = 19,
    HANGUL_V_COUNT = 21,
    HANGUL_T_COUNT = 28,
    HANGUL_S_COUNT = HANGUL_L_COUNT * HANGUL_V_COUNT * HANGUL_T_COUNT
};

/* A run in decomposed form. */
typedef struct run {
    uint32_t *cp; /* [capacity], owned */
    int64_t count;
    int64_t capacity;
} run;

static uint32_t combining_class(uint32_t cp)
{
    int low = 0;
    int high = cero_unicode_combining_count;
    while (low < high) {
        int mid = (low + high) / 2;
        const cero_unicode_triple *t = &cero_unicode_combining[mid];
        if (cp < t->a) {
            high = mid;
        } else if (cp > t->b) {
            low = mid + 1;
        } else {
            return t->c;
        }
    }
    return 0;
}

static cero_status run_add(run *r, uint32_t cp)
{
    CERO_TRY(cero_grow((void **)&r->cp, r->count, &r->capacity, sizeof(r->cp[0])));
    r->cp[r->count++] = cp;
    return CERO_OK;
}

static const cero_unicode_triple *find_decomposition(uint32_t cp)
{
    int low = 0;
    int high = cero_unicode_decompose_count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (cero_unicode_decompose[mid].a < cp) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    bool is_hit = low < cero_unicode_decompose_count && cero_unicode_decompose[low].a == cp;
    return is_hit ? &cero_unicode_decompose[low] : NULL;
}

/* Appends the full decomposition of cp. Only first parts decompose further. */
static cero_status run_add_decomposed(run *r, uint32_t cp)
{
    if (cp >= HANGUL_S && cp < HANGUL_S + HANGUL_S_COUNT) {
        uint32_t s = cp - HANGUL_S;
        uint32_t tail = s % HANGUL_T_COUNT;
        CERO_TRY(run_add(r, HANGUL_L + s / (HANGUL_V_COUNT * HANGUL_T_COUNT)));
        CERO_TRY(run_add(r, HANGUL_V + s / HANGUL_T_COUNT % HANGUL_V_COUNT));
        return tail == 0 ? CERO_OK : run_add(r, HANGUL_T + tail);
    }
    uint32_t rest[8]; // the longest chain has 3 second parts
    int depth = 0;
    for (const cero_unicode_triple *t; (t = find_decomposition(cp)) != NULL; cp = t->b) {
        if (t->c != 0) {
            CERO_ASSERT(depth < 8);
            rest[depth++] = t->c;
        }
    }
    CERO_TRY(run_add(r, cp));
    while (depth > 0) {
        // A second part is a combining mark or, in one case, decomposes itself (U+0344).
        CERO_TRY(run_add_decomposed(r, rest[--depth]));
    }
    return CERO_OK;
}

/* The character that a and b compose to, or 0. */
static uint32_t compose_pair(uint32_t a, uint32_t b)
{
    if (a - HANGUL_L < HANGUL_L_COUNT && b - HANGUL_V < HANGUL_V_COUNT) {
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_V_COUNT + (b - HANGUL_V)) * HANGUL_T_COUNT;
    }
    if (a - HANGUL_S < HANGUL_S_COUNT && (a - HANGUL_S) % HANGUL_T_COUNT == 0 &&
        b - HANGUL_T - 1 < HANGUL_T_COUNT - 1) {
        return a + (b - HANGUL_T);
    }
    int low = 0;
    int high = cero_unicode_compose_count;
    while (low < high) {
        int mid = (low + high) / 2;
        const cero_unicode_triple *t = &cero_unicode_compose[mid];
        if (t->a < a || (t->a == a && t->b < b)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == cero_unicode_compose_count) {
        return 0;
    }
    const cero_unicode_triple *t = &cero_unicode_compose[low];
    return t->a == a && t->b == b ? t->c : 0;
}

/* Stable merge sort of one sequence of marks by combining class: hostile text has long ones. */
static void sort_marks(uint32_t *cp, uint32_t *scratch, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t mid = begin + width < n ? begin + width : n;
            int64_t end = begin + 2 * width < n ? begin + 2 * width : n;
            int64_t i = begin;
            int64_t j = mid;
            for (int64_t k = begin; k < end; k++) {
                bool is_left =
                    i < mid && (j == end || combining_class(cp[i]) <= combining_class(cp[j]));
                scratch[k] = is_left ? cp[i++] : cp[j++];
            }
        }
        memcpy(cp, scratch, (size_t)n * sizeof(cp[0]));
    }
}

static cero_status run_sort(run *r)
{
    uint32_t *scratch = NULL;
    for (int64_t i = 0; i < r->count;) {
        int64_t begin = i;
        while (i < r->count && combining_class(r->cp[i]) != 0) {
            i++;
        }
        if (i - begin > 1) {
            if (scratch == NULL) {
                scratch = cero_new((size_t)r->count, sizeof(scratch[0]));
            }
            if (scratch == NULL) {
                return CERO_FAIL(CERO_ERR_NOMEM, "no memory to sort %lld combining marks",
                                 (long long)(i - begin));
            }
            sort_marks(r->cp + begin, scratch, i - begin);
        }
        i += i == begin;
    }
    cero_delete(scratch);
    return CERO_OK;
}

/* Composes in place (UAX #15, D117): a mark joins the last starter unless blocked. */
static void run_compose(run *r)
{
    int64_t starter = -1;
    int64_t n = 0;
    uint32_t last_class = 0;
    for (int64_t i = 0; i < r->count; i++) {
        uint32_t cp = r->cp[i];
        uint32_t ccc = combining_class(cp);
        bool is_adjacent = starter >= 0 && n == starter + 1;
        if (starter >= 0 && (is_adjacent || last_class < ccc)) {
            uint32_t composed = compose_pair(r->cp[starter], cp);
            if (composed != 0) {
                r->cp[starter] = composed;
                continue;
            }
        }
        if (ccc == 0) {
            starter = n;
        }
        last_class = ccc;
        r->cp[n++] = cp;
    }
    r->count = n;
}

static cero_status run_flush(run *r, cero_text *out)
{
    CERO_TRY(run_sort(r));
    run_compose(r);
    for (int64_t i = 0; i < r->count; i++) {
        uint8_t utf8[4];
        int n = cero_utf8_put(r->cp[i], utf8);
        cero_text_append(out, (const char *)utf8, (size_t)n);
    }
    r->count = 0;
    return CERO_OK;
}

/* End of the text from i on that stays as it is: up to the last character before one that may not. */
static size_t plain_end(const uint8_t *bytes, size_t i, size_t length)
{
    size_t last = i;
    while (i < length) {
        int n;
        if ((cero_unicode_get(cero_utf8_get(bytes + i, &n)) & CERO_UNICODE_NFC) != 0) {
            return last;
        }
        last = i;
        i += (size_t)n;
    }
    return length;
}

cero_status cero_nfc_append(const uint8_t *bytes, size_t length, cero_text *out)
{
    cero_status st = CERO_OK;
    run r = {0};
    size_t i = 0;
    while (i < length) {
        size_t end = plain_end(bytes, i, length);
        cero_text_append(out, (const char *)bytes + i, end - i);
        i = end;
        if (i == length) {
            break;
        }
        // A character that cannot change starts a run; the run holds all that follow and may.
        do {
            int n;
            uint32_t cp = cero_utf8_get(bytes + i, &n);
            CERO_TRY_GOTO(run_add_decomposed(&r, cp), out);
            i += (size_t)n;
            if (i < length) {
                uint32_t next = cero_utf8_get(bytes + i, &n);
                if ((cero_unicode_get(next) & CERO_UNICODE_NFC) == 0) {
                    break;
                }
            }
        } while (i < length);
        CERO_TRY_GOTO(run_flush(&r, out), out);
    }
    CERO_TRY_GOTO(cero_text_finish(out), out);

out:
    cero_delete(r.cp);
    return st;
}
