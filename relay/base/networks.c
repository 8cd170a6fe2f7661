/* networks.c: matches addresses against a list of networks. */
#include "base/networks.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#define ITEM_MAX 64

struct network {
    bool is_unix;
    unsigned bits; /* prefix length in 128 bits */
    unsigned char address[16];
};

_Static_assert(NETWORKS_ADDRESS_MAX >= INET6_ADDRSTRLEN, "an address fits");

static const unsigned char MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* IPv4 is mapped into IPv6, so that both compare equal, even on dual-stack sockets. */
static bool
read_ip_address(const char *text, unsigned char address[16], bool *ret_is_ipv4)
{
    memcpy(address, MAPPED, sizeof(MAPPED));
    *ret_is_ipv4 = inet_pton(AF_INET, text, address + sizeof(MAPPED)) == 1;
    return *ret_is_ipv4 || inet_pton(AF_INET6, text, address) == 1;
}

/* Reads a decimal of 1 to 3 digits, at most `max`. */
static bool
read_bits(const char *text, unsigned max, unsigned *ret_bits)
{
    unsigned bits = 0;
    size_t len = strlen(text);

    if (len == 0 || len > 3 || strspn(text, "0123456789") != len)
        return false;
    for (; *text != '\0'; text++)
        bits = bits * 10 + (unsigned)(*text - '0');
    *ret_bits = bits;
    return bits <= max;
}

static bool
read_network(const char *at, size_t len, struct network *ret_network)
{
    struct network network = {.bits = 128};
    char text[ITEM_MAX];
    char *slash;
    bool is_ipv4;

    if (len == 0 || len >= sizeof(text))
        return false;
    memcpy(text, at, len);
    text[len] = '\0';
    slash = strchr(text, '/');
    if (slash != NULL)
        *slash++ = '\0';
    network.is_unix = strcmp(text, NETWORKS_UNIX) == 0 && slash == NULL;
    if (!network.is_unix && !read_ip_address(text, network.address, &is_ipv4))
        return false;
    if (slash != NULL) {
        if (!read_bits(slash, is_ipv4 ? 32 : 128, &network.bits))
            return false;
        network.bits += is_ipv4 ? 96 : 0;
    }
    *ret_network = network;
    return true;
}

static bool
network_contains(const struct network *network, const unsigned char address[16])
{
    unsigned bytes = network->bits / 8;
    unsigned rest = network->bits % 8;

    if (memcmp(network->address, address, bytes) != 0)
        return false;
    return rest == 0 || ((network->address[bytes] ^ address[bytes]) >> (8 - rest)) == 0;
}

/* Returns the next item of the list, NULL at the end. */
static const char *
next_item(const char **list, size_t *ret_len)
{
    const char *at = *list;

    at += strspn(at, ", \t");
    *ret_len = strcspn(at, ", \t");
    *list = at + *ret_len;
    return *ret_len > 0 ? at : NULL;
}

bool
networks_are_valid(const char *list)
{
    struct network network;
    const char *item;
    size_t len;

    while ((item = next_item(&list, &len)) != NULL) {
        if (!read_network(item, len, &network))
            return false;
    }
    return true;
}

bool
networks_contain(const char *list, const char *address)
{
    unsigned char bytes[16];
    bool is_unix = strcmp(address, NETWORKS_UNIX) == 0;
    bool is_ipv4;
    const char *item;
    size_t len;

    if (list == NULL || (!is_unix && !read_ip_address(address, bytes, &is_ipv4)))
        return false;
    while ((item = next_item(&list, &len)) != NULL) {
        struct network network;

        if (!read_network(item, len, &network))
            continue;
        if (is_unix ? network.is_unix : !network.is_unix && network_contains(&network, bytes))
            return true;
    }
    return false;
}

bool
networks_is_address(const char *text)
{
    unsigned char bytes[16];
    bool is_ipv4;

    return read_ip_address(text, bytes, &is_ipv4);
}

void
networks_aggregate(char address[NETWORKS_ADDRESS_MAX])
{
    unsigned char bytes[16];
    bool is_ipv4;

    if (!read_ip_address(address, bytes, &is_ipv4))
        return;
    if (memcmp(bytes, MAPPED, sizeof(MAPPED)) == 0) {
        (void)inet_ntop(AF_INET, bytes + sizeof(MAPPED), address, NETWORKS_ADDRESS_MAX);
        return;
    }
    memset(bytes + 8, 0, 8);
    (void)inet_ntop(AF_INET6, bytes, address, NETWORKS_ADDRESS_MAX);
}
