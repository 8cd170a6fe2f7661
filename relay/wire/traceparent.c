/* traceparent.c: finds the trace in a notification's metadata without parsing JSON. */
#include "wire/traceparent.h"

/* No text in the metadata can imitate either: its quotes are escaped. */
bool
traceparent_of_notification(struct bytes line, char ret_text[TRACEPARENT_LEN + 1])
{
    static const char KEY[] = "\"traceparent\":\"", END[] = "},\"payload\":";
    const unsigned char *end = memmem(line.at, line.len, END, sizeof(END) - 1);
    const unsigned char *at =
        end != NULL ? memmem(line.at, (size_t)(end - line.at), KEY, sizeof(KEY) - 1) : NULL;

    if (at == NULL)
        return false;
    at += sizeof(KEY) - 1;
    return end - at > TRACEPARENT_LEN &&
           traceparent_read((const char *)at, TRACEPARENT_LEN, ret_text);
}
