/*
 * fault.c: the store's error replies: what they mean, what mends them, and how often they are
 * logged.
 */
#include "store/connection/fault.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define LOG_EVERY_US 10000000
#define TAIL_MAX 256

#define CLUSTER_HINT                                                                               \
    "[store] url must name servers that are no cluster's (cluster-enabled no), with [store] "      \
    "shards "                                                                                      \
    "where one is not enough"

static const struct fault faults[] = {
    {"OOM command not allowed",
     "the store is full: raise its maxmemory, or shorten [store] retention; until then PostgreSQL "
     "keeps its WAL",
     false},
    {"MISCONF",
     "the store cannot write its disk: its log says why; until it can, PostgreSQL keeps its WAL",
     false},
    {"NOREPLICAS",
     "the store has fewer replicas than its min-replicas-to-write; until it has them, PostgreSQL "
     "keeps its WAL",
     false},
    {"READONLY", "this server is a replica: [store] url must lead to the primary", true},
    {"MASTERDOWN", "this server is a replica: [store] url must lead to the primary", true},
    {"CLUSTERDOWN", CLUSTER_HINT, true},
    {"MOVED ", CLUSTER_HINT, true},
    {"CROSSSLOT", CLUSTER_HINT, true},
    {"LOADING", "it is still reading its data", true},
    {"NOAUTH", "name user and password in [store] url: redis://user:password@host:port", true},
    {"WRONGPASS", "user or password in [store] url are not those of the store", true},
    {"invalid password", "user or password in [store] url are not those of the store", true},
    {"without any password", "the store has no password: take it out of [store] url", true},
    {"no password is set", "the store has no password: take it out of [store] url", true},
    {"NOPERM",
     "the relay's ACL user needs ~<prefix>:* and +@all -@dangerous +info +keys +config|get", false},
    {"certificate verify failed",
     "[store] tls_ca must name the authority that signed the store's certificate, which must bear "
     "the host's name of [store] url and not have expired",
     true},
    {"max number of clients", "raise maxclients of the store", true},
};

const struct fault *
fault_find(const char *error)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (strstr(error, faults[i].word) != NULL)
            return &faults[i];
    return NULL;
}

const char *
fault_tail(const char *error)
{
    static char tail[TAIL_MAX];
    const struct fault *fault = fault_find(error);

    if (fault == NULL)
        return "";
    snprintf(tail, sizeof(tail), "; %s", fault->hint);
    return tail;
}

static struct fault_seen *
seen_of(struct fault_log *log, const char *what, const struct fault *fault)
{
    struct fault_seen *seen;

    for (size_t i = 0; i < FAULT_KINDS; i++) {
        seen = &log->seen[i];
        if (seen->what != NULL && strcmp(seen->what, what) == 0 && seen->fault == fault)
            return seen;
    }
    seen = &log->seen[log->next];
    log->next = (log->next + 1) % FAULT_KINDS;
    *seen = (struct fault_seen){what, fault, 0, 0};
    return seen;
}

const struct fault *
fault_report(struct fault_log *log, const char *what, const char *error)
{
    const struct fault *fault = fault_find(error);
    struct fault_seen *seen = seen_of(log, what, fault);
    int64_t now_us = clock_monotonic_us();
    char more[48] = "";

    if (seen->at_us != 0 && now_us - seen->at_us < LOG_EVERY_US) {
        seen->held_back++;
        return fault;
    }
    if (seen->held_back > 0)
        snprintf(more, sizeof(more), " (and %u times since the last line)", seen->held_back);
    log_errorf("store", "could not %s: %s%s%s", what, error, fault_tail(error), more);
    seen->at_us = now_us;
    seen->held_back = 0;
    return fault;
}
