/*
 * fuzz_push_message.c: checks that each accepted text becomes a body of strict JSON that fits, and
 * that its URL stays at the application's origin.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "strict_json.h"
#include "tests/fuzz/fuzz.h"
#include "wire/push_message.h"
#include "wire/push_encryption.h"

#define ORIGIN "https://app.example"

static void
check_url(const char *url)
{
    struct buffer out;

    buffer_init(&out, 4096);
    if (push_url_resolve(ORIGIN "/a/b?c#d", url, &out) == RC_OK) {
        expect(out.len <= PUSH_URL_MAX && strlen(out.bytes) == out.len);
        expect(strncasecmp(out.bytes, ORIGIN, strlen(ORIGIN)) == 0);
        expect(out.bytes[strlen(ORIGIN)] == '\0' ||
               strchr("/?#", out.bytes[strlen(ORIGIN)]) != NULL);
    }
    buffer_free(&out);
}

static void
check_message(const struct push_text *text)
{
    struct push_message message = {
        .text = text, .id = "i", .user = "u", .app_url = ORIGIN "/a/b?c#d"};
    char topic[PUSH_TOPIC_TEXT + 1];
    struct buffer out;
    size_t at = 0;

    buffer_init(&out, 8192);
    if (push_message_write(&message, &out, topic) == RC_OK) {
        expect(out.len <= WEB_PUSH_PLAIN_MAX && strlen(topic) <= PUSH_TOPIC_TEXT);
        expect(strict_json_check(out.bytes, out.len, 0, &at) == NULL);
    }
    buffer_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[WIRE_ERROR_MAX] = "";
    struct push_text text = {.title = NULL};
    char *url = memory_text((const char *)data, size);

    check_url(url);
    free(url);
    if (push_text_parse((const char *)data, size, &text, error) == RC_OK)
        check_message(&text);
    else
        expect(strncmp(error, "web_push", 8) == 0 && text.title == NULL);
    push_text_free(&text);
    return 0;
}
