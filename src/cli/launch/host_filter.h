/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --include and --exclude, in DeepSpeed's grammar: HOST[:SLOT,SLOT…]@HOST…
 *
 * A host without slots means all of them. Slots count from 0. As MPI places the ranks of a host, which
 * slots are left does not matter, only how many.
 */
#ifndef CERO_CLI_HOST_FILTER_H
#define CERO_CLI_HOST_FILTER_H

#include "cli/launch/hostfile.h"

/*
 * Keeps what `include` names, or drops what `exclude` names; NULL: not given. The order of hosts stays.
 *
 * Errors: INVALID, naming the hosts or slots that exist; NOMEM. The list is as before.
 */
CERO_NODISCARD cero_status cero_host_filter_apply(cero_host_list *list, const char *include,
                                                  const char *exclude);

#endif
