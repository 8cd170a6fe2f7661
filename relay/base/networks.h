/* networks.h: lists of addresses and networks, as "10.0.0.0/8, 192.0.2.7, unix". Pure. */
#ifndef CLAIRON_BASE_NETWORKS_H
#define CLAIRON_BASE_NETWORKS_H

#include <stdbool.h>

#define NETWORKS_UNIX "unix" /* stands for peers of a unix socket */

/* True when every item of the list is an address, a network or "unix". */
bool networks_are_good(const char *list);

/* True when an item of the list holds this address ("unix" too). NULL holds nothing. */
bool networks_hold(const char *list, const char *address);

/* True for an IPv4 or IPv6 address in figures. */
bool networks_is_address(const char *text);

#define NETWORKS_ADDRESS_MAX 46 /* bytes of one in figures, with its end */

/*
 * An IPv6 address becomes its /64: who has one of those has all of it. The others stay, an IPv4
 * address that is mapped into IPv6 as itself.
 */
void networks_widen(char address[NETWORKS_ADDRESS_MAX]);

#endif
