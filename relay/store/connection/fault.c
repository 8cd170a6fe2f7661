/* fault.c: hints for the store's error replies, and a rate limit for their log messages. */
#include "store/connection/fault.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/timeouts.h"

#define CLUSTER_HINT                                                                               \
    "this server is a node of a cluster: set [store] url = redis+cluster://host:port,host:port"

#define REPLICA_HINT "this server is a replica: [store] url must name the primary"
#define WRONG_PASSWORD_HINT "wrong user or password in [store] url"
#define NO_PASSWORD_HINT "the store has no password: remove it from [store] url"

static const struct fault faults[] = {
    {"OOM command not allowed",
     "the store is full: raise maxmemory, or shorten [store] retention; PostgreSQL retains WAL "
     "meanwhile",
     false},
    {"MISCONF",
     "the store cannot write to its disk: check its log; PostgreSQL retains WAL meanwhile", false},
    {"NOREPLICAS",
     "the store has fewer replicas than its min-replicas-to-write: start them; PostgreSQL retains "
     "WAL meanwhile",
     false},
    {"READONLY", REPLICA_HINT, true},
    {"MASTERDOWN", REPLICA_HINT, true},
    {"CLUSTERDOWN", CLUSTER_HINT, true},
    {"MOVED ", CLUSTER_HINT, true},
    {"CROSSSLOT", CLUSTER_HINT, true},
    {"cluster support disabled",
     "this server is not a node of a cluster: set [store] url = redis://host:port", true},
    {"No such master", "[store] url must end in the primary's name, as in sentinel monitor", true},
    {"unknown command 'SENTINEL'", "this server is not a sentinel: check [store] url", true},
    {"LOADING", "the store is loading its dataset: wait", true},
    {"NOAUTH", "add user and password to [store] url: redis://user:password@host:port", true},
    {"WRONGPASS", WRONG_PASSWORD_HINT, true},
    {"invalid password", WRONG_PASSWORD_HINT, true},
    {"without any password", NO_PASSWORD_HINT, true},
    {"no password is set", NO_PASSWORD_HINT, true},
    {"NOPERM",
     "the relay's ACL user needs ~<prefix>:* and +@all -@dangerous +info +keys +config|get; in a "
     "cluster also +cluster|slots +cluster|info +cluster|nodes +cluster|countkeysinslot",
     false},
    {"BUSY ", "a script on the store does not end: SCRIPT KILL; its SLOWLOG names the script",
     false},
    {"certificate verify failed",
     "[store] tls_ca must name the CA of the store's certificate; the certificate must match the "
     "host of [store] url and must not have expired",
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
fault_hint(const char *error)
{
    const struct fault *fault = fault_find(error);

    return fault != NULL ? fault->hint : NULL;
}

bool
fault_is_redirection(const char *error)
{
    static const char *const starts[] = {"MOVED ", "ASK ", "TRYAGAIN ", "UNBLOCKED "};
    static const char *const words[] = {"CLUSTERDOWN ", "READONLY ", "MASTERDOWN ", "LOADING "};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strncmp(error, starts[i], strlen(starts[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(error, words[i]) != NULL)
            return true;
    return false;
}

bool
fault_is_busy(const char *error)
{
    return strncmp(error, "BUSY ", 5) == 0 ||
           (strncmp(error, "EXECABORT ", 10) == 0 && strstr(error, ": BUSY ") != NULL);
}

static struct fault_seen *
find_or_replace(struct fault_log *log, const char *failure, const struct fault *fault)
{
    struct fault_seen *seen;

    for (size_t i = 0; i < FAULT_KINDS; i++) {
        seen = &log->seen[i];
        if (seen->failure != NULL && strcmp(seen->failure, failure) == 0 && seen->fault == fault)
            return seen;
    }
    seen = &log->seen[log->next];
    log->next = (log->next + 1) % FAULT_KINDS;
    *seen = (struct fault_seen){failure, fault, 0, 0};
    return seen;
}

const struct fault *
fault_report(struct fault_log *log, const char *failure, const char *error)
{
    const struct fault *fault = fault_find(error);
    struct fault_seen *seen = find_or_replace(log, failure, fault);
    int64_t now_us = clock_monotonic_us();

    if (seen->at_us != 0 && now_us - seen->at_us < STORE_LOG_EVERY_US) {
        seen->suppressed++;
        return fault;
    }
    log_error("store", failure, LOG_TEXT("error", error), LOG_TEXT("hint", fault_hint(error)),
              LOG_UINT("suppressed", seen->suppressed));
    seen->at_us = now_us;
    seen->suppressed = 0;
    return fault;
}
