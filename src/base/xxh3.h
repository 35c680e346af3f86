/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3 for many bytes: the library's, in the widest instructions of this processor where it was built to choose
 * among them. The hashes are the same. Headers of the library itself serve where bytes are few.
 */
#ifndef CERO_BASE_XXH3_H
#define CERO_BASE_XXH3_H

#include <xxhash.h>
#ifdef CERO_HAVE_XXH_DISPATCH
    /* Names functions of its own for those of xxhash.h. */
    #include <xxh_x86dispatch.h>
#endif

#endif
