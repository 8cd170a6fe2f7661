/*
 * fuzz_subscription.c: checks that the endpoint of each accepted subscription has a listed origin,
 * and that its keys can encrypt.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "wire/subscription.h"

static bool
starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* The origin is a listed one, or https with a host of labels that ends in the listed domain. */
static void
check_origin(const char *endpoint, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    static const char suffix[] = ".push.example.org";
    bool is_exact = len == 24 && starts_with(endpoint, "https://push.example.net");

    expect(is_exact ||
           (starts_with(endpoint, "https://") && strspn(endpoint + 8, letters) == len - 8 &&
            endpoint[8] != '.' && len > 8 + strlen(suffix) &&
            memcmp(endpoint + len - strlen(suffix), suffix, strlen(suffix)) == 0));
    expect(endpoint[len] == '\0' || strchr("/?#", endpoint[len]) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char origins[] = "https://push.example.net,https://*.push.example.org";
    char error[WIRE_ERROR_MAX] = "", *endpoint = NULL;
    struct subscription subscription = {.endpoint = NULL}, copy = {.endpoint = NULL};
    struct buffer body;
    char *text = memory_text((const char *)data, size);
    size_t len = subscription_match_origin(origins, text);

    if (len > 0)
        check_origin(text, len);
    free(text);
    if (subscription_parse((const char *)data, size, origins, &subscription, error) == RC_OK) {
        check_origin(subscription.endpoint, subscription.origin_len);
        buffer_init(&body, 4 * WEB_PUSH_BODY_MAX);
        expect(subscription_write(&subscription, &body) == RC_OK);
        expect(subscription_read(body.bytes, body.len, &copy) == RC_OK);
        expect(strcmp(copy.endpoint, subscription.endpoint) == 0 &&
               strcmp(copy.key, subscription.key) == 0);
        subscription_free(&copy);
        expect(web_push_encrypt(&subscription.keys, "", 0, &body) == RC_OK);
        buffer_free(&body);
        subscription_free(&subscription);
    } else {
        expect(error[0] != '\0' && subscription.endpoint == NULL);
    }
    if (subscription_parse_endpoint((const char *)data, size, &endpoint, error) == RC_OK)
        expect(strlen(endpoint) <= SUBSCRIPTION_ENDPOINT_MAX);
    free(endpoint);
    if (subscription_read((const char *)data, size, &copy) == RC_OK)
        expect(copy.origin_len <= strlen(copy.endpoint));
    subscription_free(&copy);
    return 0;
}
