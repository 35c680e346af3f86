/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of memory.h: accounted blocks carry a header of one cache line in front, which holds
 * size and category, so that freeing needs no table.
 */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE = 2 * 1024 * 1024
};

/* Sits in the 64 bytes before each accounted block. */
typedef struct block_header {
    size_t nbytes;
    cero_mem_category category;
    void *base; /* what free() wants */
} block_header;

_Static_assert(sizeof(block_header) <= CERO_MEM_ALIGNMENT, "the header fits in front of a block");

struct cero_mem {
    size_t budget; /* 0: none */
    cero_mem_usage total;
    cero_mem_usage usage[CERO_MEM_COUNT];
};

/* The process-wide counters: how tests prove that steps allocate nothing and that errors are met. */
static atomic_uint_fast64_t call_count;
static atomic_uint_fast64_t fail_countdown;

static bool call_fails(void)
{
    uint_fast64_t left = atomic_load(&fail_countdown);

    atomic_fetch_add(&call_count, 1);
    if (left == 0) {
        return false;
    }
    atomic_store(&fail_countdown, left - 1);
    return left == 1;
}

uint64_t cero_mem_calls(void)
{
    return atomic_load(&call_count);
}

void cero_mem_fail_at(uint64_t n)
{
    atomic_store(&fail_countdown, n);
}

bool cero_mem_poison(void)
{
    const char *value = getenv("CERO_POISON");
    return value != NULL && strcmp(value, "1") == 0;
}

static void poison(void *ptr, size_t nbytes)
{
    static const unsigned char pattern[4] = {0x20, 0xCE, 0xC0, 0x7F};
    unsigned char *bytes = ptr;

    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] = pattern[i % sizeof(pattern)];
    }
}

cero_status cero_mem_create(size_t budget, cero_mem **out)
{
    cero_mem *mem = cero_new(1, sizeof(*mem));

    if (mem == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for an account of memory");
    }
    mem->budget = budget;
    *out = mem;
    return CERO_OK;
}

void cero_mem_set_budget(cero_mem *mem, size_t budget)
{
    mem->budget = budget;
}

void cero_mem_destroy(cero_mem **mem)
{
    if (mem == NULL || *mem == NULL) {
        return;
    }
    CERO_ASSERT((*mem)->total.current == 0);
    cero_delete(*mem);
    *mem = NULL;
}

static void usage_add(cero_mem_usage *usage, size_t nbytes)
{
    usage->current += nbytes;
    if (usage->current > usage->peak) {
        usage->peak = usage->current;
    }
}

static cero_status check_budget(const cero_mem *mem, size_t nbytes, cero_mem_category category,
                                const char *what)
{
    if (mem->budget != 0 &&
        (mem->total.current > mem->budget || nbytes > mem->budget - mem->total.current)) {
        return CERO_FAIL(CERO_ERR_NOMEM,
                         "%s: %zu bytes of category %s asked for, %zu of the budget of %zu bytes "
                         "are in use",
                         what, nbytes, cero_mem_category_name(category), mem->total.current,
                         mem->budget);
    }
    return CERO_OK;
}

cero_status cero_mem_charge(cero_mem *mem, size_t nbytes, cero_mem_category category,
                            const char *what)
{
    CERO_TRY(check_budget(mem, nbytes, category, what));
    usage_add(&mem->usage[category], nbytes);
    usage_add(&mem->total, nbytes);
    return CERO_OK;
}

void cero_mem_discharge(cero_mem *mem, size_t nbytes, cero_mem_category category)
{
    mem->usage[category].current -= nbytes;
    mem->total.current -= nbytes;
}

cero_status cero_mem_alloc(cero_mem *mem, size_t nbytes, cero_mem_category category,
                           const char *what, void **out)
{
    // Large blocks start on a huge page, header in the page before: half the misses of a walk.
    size_t lead = nbytes >= HUGE_PAGE ? (size_t)HUGE_PAGE : (size_t)CERO_MEM_ALIGNMENT;
    void *base = NULL;

    CERO_TRY(check_budget(mem, nbytes, category, what));
    if (nbytes > SIZE_MAX - 2 * lead || call_fails() ||
        posix_memalign(&base, lead, nbytes + lead) != 0) {
        return CERO_FAIL(CERO_ERR_NOMEM,
                         "%s: the system has no room for %zu bytes of category %s (%zu in use)",
                         what, nbytes, cero_mem_category_name(category), mem->total.current);
    }
    unsigned char *ptr = (unsigned char *)base + lead;
    if (nbytes >= HUGE_PAGE) {
        (void)madvise(ptr, nbytes - nbytes % HUGE_PAGE, MADV_HUGEPAGE);
    }
    block_header *header = (block_header *)(void *)(ptr - CERO_MEM_ALIGNMENT);
    *header = (block_header){.nbytes = nbytes, .category = category, .base = base};
    usage_add(&mem->usage[category], nbytes);
    usage_add(&mem->total, nbytes);
    if (cero_mem_poison()) {
        poison(ptr, nbytes);
    }
    *out = ptr;
    return CERO_OK;
}

void cero_mem_free(cero_mem *mem, void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    const block_header *header =
        (const block_header *)(void *)((unsigned char *)ptr - CERO_MEM_ALIGNMENT);
    cero_mem_discharge(mem, header->nbytes, header->category);
    free(header->base);
}

cero_mem_usage cero_mem_get(const cero_mem *mem, cero_mem_category category)
{
    return mem->usage[category];
}

cero_mem_usage cero_mem_total(const cero_mem *mem)
{
    return mem->total;
}

void *cero_new(size_t count, size_t size)
{
    return call_fails() ? NULL : calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
}

void *cero_renew(void *ptr, size_t count, size_t size)
{
    size_t nbytes;

    if (__builtin_mul_overflow(count, size, &nbytes) || call_fails()) {
        return NULL;
    }
    return realloc(ptr, nbytes == 0 ? 1 : nbytes);
}

void cero_delete(void *ptr)
{
    free(ptr);
}

char *cero_strndup(const char *text, size_t length)
{
    char *copy = cero_new(length + 1, 1);

    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *cero_strdup(const char *text)
{
    return cero_strndup(text, strlen(text));
}

cero_status cero_grow(void **array, int64_t count, int64_t *capacity, size_t size)
{
    if (count < *capacity) {
        return CERO_OK;
    }
    int64_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    void *grown = cero_renew(*array, (size_t)wanted, size);
    if (grown == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a list of %lld entries of %zu bytes",
                         (long long)wanted, size);
    }
    *array = grown;
    *capacity = wanted;
    return CERO_OK;
}
