/* addresses.h: resolves host names without blocking the loop; lists of addresses and networks. */
#ifndef CLAIRON_BASE_ADDRESSES_H
#define CLAIRON_BASE_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

struct ev_loop;
struct resolve;

#define RESOLVE_ADDRESS_MAX 64
#define RESOLVE_HOSTS_MAX 8     /* per lookup */
#define RESOLVE_ADDRESSES_MAX 4 /* maximum addresses per host; further ones are dropped */

struct resolved {
    unsigned host; /* index of the host, from 0 */
    char address[RESOLVE_ADDRESS_MAX];
};

/* True if the host is not a numeric address and needs a lookup. */
bool resolve_is_needed(const char *host);

/*
 * `found` lists the addresses by host, in the system's order. If `count` is 0, `error` is the
 * reason.
 */
typedef void resolve_done(void *ctx, const struct resolved *found, size_t count, const char *error);

/*
 * Resolves up to RESOLVE_HOSTS_MAX hosts in a child process: getaddrinfo() blocks for half a minute
 * or longer if a name server does not respond, and getaddrinfo_a() starts threads. Calls back once,
 * from the loop, unless resolve_stop is called first; both free the lookup. NULL: no child process
 * could be started.
 */
struct resolve *resolve_start(struct ev_loop *loop, const char *const *hosts, size_t count,
                              resolve_done *done, void *ctx);
void resolve_stop(struct resolve *resolve); /* accepts NULL */

/* ---- lists of addresses and networks, as "10.0.0.0/8, 192.0.2.7, unix" */

#define NETWORKS_UNIX "unix" /* also matches peers on a Unix socket */

/* True if every item of the list is an address, a network or "unix". */
bool networks_are_valid(const char *list);

/*
 * True if an item of the list contains the address, or if both are "unix". NULL is an empty list.
 */
bool networks_contain(const char *list, const char *address);

/* True for an IPv4 or IPv6 address in numeric form. */
bool networks_is_address(const char *text);

/*
 * True for an address of a host on the internet. False for private, loopback, link-local, shared,
 * multicast, documentation and other special addresses, also if an IPv6 address contains one
 * (IPv4-mapped, NAT64, 6to4), and for text that is no address.
 */
bool networks_is_public(const char *address);

#define NETWORKS_ADDRESS_MAX 46 /* numeric address with terminating zero */

/*
 * Replaces an IPv6 address by its /64, because one user often controls the whole network. An IPv4
 * address is unchanged; an IPv4-mapped one becomes IPv4.
 */
void networks_aggregate(char address[NETWORKS_ADDRESS_MAX]);

#endif
