/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on hosts, and the cores of each host over its ranks; see launch.h. */
#include "base/memory.h"
#include "cli/launch/launch.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* How many ranks a host takes without or with --oversubscribe. */
static int bound_of(const cero_host *host, bool oversubscribe)
{
    if (!oversubscribe) {
        return host->room;
    }
    return host->max_slots > 0 ? host->max_slots : INT_MAX;
}

static int64_t sum_bounds(const cero_host_list *hosts, bool oversubscribe)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < hosts->count; i++) {
        sum += bound_of(&hosts->host[i], oversubscribe);
    }
    return sum;
}

/* Fills the slots of hosts in order; gives what is left. */
static int64_t fill_slots(cero_host_list *hosts, int64_t left)
{
    for (int64_t i = 0; i < hosts->count && left > 0; i++) {
        cero_host *host = &hosts->host[i];
        host->ranks = left < host->slots ? (int)left : host->slots;
        left -= host->ranks;
    }
    return left;
}

/* One more rank for each host in turn while there is a place; gives what is left. */
static int64_t fill_in_turn(cero_host_list *hosts, int64_t left, bool oversubscribe)
{
    bool is_full = false;

    while (left > 0 && !is_full) {
        is_full = true;
        for (int64_t i = 0; i < hosts->count && left > 0; i++) {
            cero_host *host = &hosts->host[i];
            if (host->ranks < bound_of(host, oversubscribe)) {
                host->ranks++;
                left--;
                is_full = false;
            }
        }
    }
    return left;
}

static void drop_idle_hosts(cero_host_list *hosts)
{
    int64_t count = 0;

    for (int64_t i = 0; i < hosts->count; i++) {
        if (hosts->host[i].ranks == 0) {
            cero_delete(hosts->host[i].name);
        } else {
            hosts->host[count++] = hosts->host[i];
        }
    }
    hosts->count = count;
}

cero_status cero_launch_place(int64_t wanted, bool oversubscribe, cero_launch_job *job)
{
    cero_host_list *hosts = &job->hosts;
    int64_t total = wanted > 0 ? wanted : cero_host_list_slots(hosts);
    int64_t room = sum_bounds(hosts, false);
    int64_t bound = sum_bounds(hosts, true);

    CERO_CHECK(oversubscribe || total <= room, CERO_ERR_INVALID,
               "%lld ranks for %lld slot(s) of %lld host(s); --oversubscribe permits more ranks "
               "than slots",
               (long long)total, (long long)room, (long long)hosts->count);
    CERO_CHECK(total <= bound, CERO_ERR_INVALID,
               "%lld ranks, and max_slots of the hostfile permits %lld also with --oversubscribe",
               (long long)total, (long long)bound);
    CERO_CHECK(total <= INT_MAX, CERO_ERR_INVALID, "%lld ranks are more than MPI can count",
               (long long)total);
    int64_t left = fill_slots(hosts, total);
    left = fill_in_turn(hosts, left, false);
    left = fill_in_turn(hosts, left, oversubscribe);
    CERO_ASSERT(left == 0);
    drop_idle_hosts(hosts);
    job->ranks = (int)total;
    return CERO_OK;
}

static int cores_of(const cero_host *host, const cero_launch_threads_params *params)
{
    return host->cores > 0 ? host->cores : params->cores;
}

void cero_launch_divide_cores(const cero_launch_threads_params *params, cero_launch_job *job)
{
    bool is_outside = false;
    int threads = INT_MAX;

    for (int64_t i = 0; i < job->hosts.count; i++) {
        const cero_host *host = &job->hosts.host[i];
        int share = cores_of(host, params) / host->ranks;
        threads = share < threads ? share : threads;
        is_outside =
            is_outside || (params->is_restricted_local && cero_launch_is_local(host->name));
    }
    job->is_overloaded = threads < 1 || params->asked > threads;
    job->sets_threads = params->asked == 0;
    job->threads = params->asked > 0 ? params->asked : threads;
    job->threads = job->threads > 0 ? job->threads : 1;
    job->is_bound = params->may_bind && !job->is_overloaded && !is_outside;
}

int cero_launch_parse_threads(const char *text)
{
    int value = 0;

    if (text == NULL) {
        return 0;
    }
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 6 || (text[digits] != '\0' && text[digits] != ',')) {
        return 0;
    }
    for (size_t i = 0; i < digits; i++) {
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

bool cero_launch_is_local(const char *host)
{
    char own[256] = "";

    if (strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0) {
        return true;
    }
    if (gethostname(own, sizeof(own) - 1) != 0) {
        return false;
    }
    // "node1" and "node1.cluster" are the same machine when one of them is the other's first label.
    size_t n = strcspn(own, ".");
    size_t m = strcspn(host, ".");
    if (n != m || strncmp(own, host, n) != 0) {
        return false;
    }
    return own[n] == '\0' || host[m] == '\0' || strcmp(own + n, host + m) == 0;
}
