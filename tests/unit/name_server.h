/* name_server.h: builds the results of a test's getaddrinfo(). */
#ifndef CLAIRON_TESTS_UNIT_NAME_SERVER_H
#define CLAIRON_TESTS_UNIT_NAME_SERVER_H

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>

#include "base/memory.h"

static inline struct addrinfo *
address_of(const char *text, struct addrinfo *next)
{
    struct addrinfo *one = memory_new(sizeof(*one) + sizeof(struct sockaddr_in));
    struct sockaddr_in *address = (struct sockaddr_in *)(one + 1);

    address->sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, text, &address->sin_addr), 1);
    one->ai_addr = (struct sockaddr *)address;
    one->ai_addrlen = sizeof(*address);
    one->ai_next = next;
    return one;
}

/* Overrides the C library's freeaddrinfo, because address_of allocates the list. */
void
freeaddrinfo(struct addrinfo *all)
{
    while (all != NULL) {
        struct addrinfo *next = all->ai_next;

        free(all);
        all = next;
    }
}

#endif
