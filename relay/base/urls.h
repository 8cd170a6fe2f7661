/* urls.h: the kinds of store.url, and the servers it names. */
#ifndef CLAIRON_BASE_URLS_H
#define CLAIRON_BASE_URLS_H

#define URLS_SENTINEL_FORM "redis+sentinel://[user:pass@]host:port,host:port/<primary name>"
#define URLS_CLUSTER_FORM "redis+cluster://[user:pass@]host:port,host:port"

enum urls_kind {
    URLS_SINGLE,   /* redis://, rediss://, unix://: one server */
    URLS_SENTINEL, /* redis+sentinel://: sentinels, which know one primary and its replicas */
    URLS_CLUSTER   /* redis+cluster://: some nodes of a cluster */
};

enum urls_kind urls_kind(const char *url);

/* The number of servers that the URL names: 1, or its sentinels or nodes. */
unsigned urls_count(const char *url);

/*
 * Server `number`, from 0, as a URL of one server: redis(s)://[user:pass@]host:port. The caller
 * frees it, and wipes it if it has a password.
 */
char *urls_at(const char *url, unsigned number);

/* What follows the servers of a sentinel or cluster URL, after the slash; "" for nothing. */
const char *urls_rest(const char *url);

#endif
