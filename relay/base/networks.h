/* networks.h: lists of addresses and networks, as "10.0.0.0/8, 192.0.2.7, unix". Pure. */
#ifndef CLAIRON_BASE_NETWORKS_H
#define CLAIRON_BASE_NETWORKS_H

#include <stdbool.h>

#define NETWORKS_UNIX "unix" /* also matches peers on a Unix socket */

/* True if every item of the list is an address, a network or "unix". */
bool networks_are_valid(const char *list);

/*
 * True if an item of the list contains the address, or if both are "unix". NULL is an empty list.
 */
bool networks_contain(const char *list, const char *address);

/* True for an IPv4 or IPv6 address in numeric form. */
bool networks_is_address(const char *text);

#define NETWORKS_ADDRESS_MAX 46 /* numeric address with terminating zero */

/*
 * Replaces an IPv6 address by its /64, because one user often controls the whole network. An IPv4
 * address is unchanged; an IPv4-mapped one becomes IPv4.
 */
void networks_aggregate(char address[NETWORKS_ADDRESS_MAX]);

#endif
