/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one allocator.
 *
 * Two kinds of memory: *accounted* (cero_mem_alloc: tensors, arenas, buffers; 64-byte aligned, kept
 * by category with current and peak bytes, huge pages asked for) and *descriptors* (cero_new and
 * friends: names, nodes, tables). Both count calls, so that tests can prove that a training step
 * allocates nothing, and both can be made to fail at the n-th call. malloc is not used elsewhere.
 */
#ifndef CERO_BASE_MEMORY_H
#define CERO_BASE_MEMORY_H

#include "base/status.h"

enum {
    CERO_MEM_ALIGNMENT = 64
};

typedef struct cero_mem cero_mem;

/* Bytes held now and at most, for one category. */
typedef struct cero_mem_usage {
    size_t current;
    size_t peak;
} cero_mem_usage;

/* Creates an account. `budget` in bytes bounds the sum of all categories; 0 means no bound. */
CERO_NODISCARD cero_status cero_mem_create(size_t budget, cero_mem **out);

/* Changes the bound; 0 means none. What is in use stays. */
void cero_mem_set_budget(cero_mem *mem, size_t budget);

/* Destroys the account. Every allocation must have been freed (asserted in debug builds). */
void cero_mem_destroy(cero_mem **mem);

/*
 * Allocates nbytes, aligned to 64 bytes, not cleared (NaNs under CERO_POISON=1).
 *
 * Zero bytes give a valid pointer. `what` names the buffer in the error message.
 * Errors: NOMEM, with category, asked, used and budget.
 */
CERO_NODISCARD cero_status cero_mem_alloc(cero_mem *mem, size_t nbytes, cero_mem_category category,
                                          const char *what, void **out);

/* Frees what cero_mem_alloc gave; NULL is fine. */
void cero_mem_free(cero_mem *mem, void *ptr);

/*
 * Counts memory that somebody else allocates (a shared-memory window), with the same bound; discharge takes
 * it back.
 * Errors: NOMEM, as cero_mem_alloc.
 */
CERO_NODISCARD cero_status cero_mem_charge(cero_mem *mem, size_t nbytes, cero_mem_category category,
                                           const char *what);
void cero_mem_discharge(cero_mem *mem, size_t nbytes, cero_mem_category category);

cero_mem_usage cero_mem_get(const cero_mem *mem, cero_mem_category category);

/* Current bytes and peak of the sum over categories (not the sum of peaks). */
cero_mem_usage cero_mem_total(const cero_mem *mem);

/* Descriptors: count * size bytes, cleared. NULL only when there is no memory. Free with cero_delete. */
void *cero_new(size_t count, size_t size);

/* Grows or shrinks; new bytes are not cleared. On failure the old block stays valid. */
void *cero_renew(void *ptr, size_t count, size_t size);

void cero_delete(void *ptr);

/* Copies of text; NULL only when there is no memory. */
char *cero_strdup(const char *text);
char *cero_strndup(const char *text, size_t length);

/*
 * Makes room for one more element in a growing array: doubles *capacity when count == *capacity.
 * Errors: NOMEM; the array is as before.
 */
CERO_NODISCARD cero_status cero_grow(void **array, int64_t count, int64_t *capacity, size_t size);

/* Calls to any allocator of this header since the process started. */
uint64_t cero_mem_calls(void);

/* Test seam: the n-th call from now on fails (n = 1: the next one); 0 switches it off. */
void cero_mem_fail_at(uint64_t n);

/* True when CERO_POISON=1: new accounted memory is filled with NaNs of payload 0x7FC0CE20. */
bool cero_mem_poison(void);

#endif
