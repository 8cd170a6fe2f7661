/* topic_list.c: the topics of a request's query. */
#include "gate/api/topic_list.h"

#include <string.h>

#include "gate/net/request_field.h"
#include "wire/client_message.h"

bool
topic_list_split(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = list, *name; rest != NULL;) {
        size_t len;

        name = strsep(&rest, ",");
        len = strlen(name);
        if (len == 0 || len > CLIENT_MESSAGE_TOPIC_MAX || strcspn(name, "*") + 1 < len ||
            strcmp(name, REQUEST_TOO_LONG) == 0 || count == SESSION_TOPICS_MAX)
            return false;
        names[count++] = name;
    }
    *ret_count = count;
    return true;
}
