/* fuzz_http_body.c: checks that no request body breaks the parser. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "wire/client_message.h"

typedef enum rc parse_ids(const char *text, size_t len, struct client_message *ret_message,
                          char error[CLIENT_MESSAGE_ERROR_MAX]);

static void
check_ids(const char *text, size_t len, parse_ids *parse, enum client_message_kind kind)
{
    char error[CLIENT_MESSAGE_ERROR_MAX] = "";
    struct client_message message = {0};

    if (parse(text, len, &message, error) != RC_OK) {
        if (error[0] == '\0' || message.ids != NULL)
            __builtin_trap();
        return;
    }
    if (message.kind != kind || message.id_count == 0 ||
        message.id_count > CLIENT_MESSAGE_ACKS_MAX || message.delay_ms < 0 ||
        message.delay_ms > CLIENT_MESSAGE_DELAY_MAX)
        __builtin_trap();
    for (size_t i = 0; i < message.id_count; i++) {
        if (strlen(message.ids[i]) != 36 ||
            strspn(message.ids[i], "0123456789abcdef-") != strlen(message.ids[i]))
            __builtin_trap();
    }
    client_message_free(&message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char entry[CLIENT_MESSAGE_ENTRY_MAX] = "";
    char error[CLIENT_MESSAGE_ERROR_MAX] = "";
    const char *text = (const char *)data;
    bool on = false;

    check_ids(text, size, client_message_parse_ack, CLIENT_MESSAGE_ACK);
    check_ids(text, size, client_message_parse_nack, CLIENT_MESSAGE_NACK);
    if (client_message_parse_switch(text, size, &on, error) != RC_OK && (on || error[0] == '\0'))
        __builtin_trap();
    error[0] = '\0';
    if (client_message_parse_entry(text, size, entry, error) != RC_OK &&
        (entry[0] != '\0' || error[0] == '\0'))
        __builtin_trap();
    return 0;
}
