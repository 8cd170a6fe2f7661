/* fuzz_client_strings.c: checks that a cursor, an address or a list of networks may be any text. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addresses.h"
#include "hub/notification.h"
#include "tests/fuzz/fuzz.h"

/* The prefix of an address is an address, and its own prefix. */
static void
check_address(const char *text)
{
    char once[NETWORKS_ADDRESS_MAX], twice[NETWORKS_ADDRESS_MAX];

    if (!networks_is_address(text) || strlen(text) >= sizeof(once))
        return;
    snprintf(once, sizeof(once), "%s", text);
    networks_aggregate(once);
    memcpy(twice, once, sizeof(twice));
    networks_aggregate(twice);
    expect(strcmp(once, twice) == 0);
}

static void
check_networks(const char *list)
{
    static const char *const ADDRESSES[] = {"192.0.2.1", "2001:db8::1", "unix", "none"};

    if (networks_are_valid(list))
        for (size_t i = 0; i < sizeof(ADDRESSES) / sizeof(ADDRESSES[0]); i++)
            (void)networks_contain(list, ADDRESSES[i]);
}

static void
check_pos(const char *text)
{
    for (unsigned shards = 1; shards <= 3; shards++) {
        struct cursor cursor;
        struct deferral deferral;

        (void)!client_pos_read(text, "00ff", shards, shards - 1, &cursor, &deferral);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_pos(text);
    check_address(text);
    check_networks(text);
    free(text);
    return 0;
}
