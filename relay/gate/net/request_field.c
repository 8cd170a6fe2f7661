/* request_field.c: copies fields of a request head out of libwebsockets. */
#include "gate/net/request_field.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "gate/net/lws_workarounds.h"

static enum lws_token_indexes
token_of(enum request_field field)
{
    static const enum lws_token_indexes TOKENS[] = {
        [FIELD_VERSION] = WSI_TOKEN_HTTP,
        [FIELD_HOST] = WSI_TOKEN_HOST,
        [FIELD_ORIGIN] = WSI_TOKEN_ORIGIN,
        [FIELD_AUTHORIZATION] = WSI_TOKEN_HTTP_AUTHORIZATION,
        [FIELD_CONTENT_LENGTH] = WSI_TOKEN_HTTP_CONTENT_LENGTH,
        [FIELD_TRANSFER_ENCODING] = WSI_TOKEN_HTTP_TRANSFER_ENCODING,
        [FIELD_EXPECT] = WSI_TOKEN_HTTP_EXPECT,
        [FIELD_FORWARDED_FOR] = WSI_TOKEN_X_FORWARDED_FOR,
        [FIELD_UPGRADE] = WSI_TOKEN_UPGRADE,
        [FIELD_WEBSOCKET_PROTOCOL] = WSI_TOKEN_PROTOCOL,
        [FIELD_WEBSOCKET_KEY] = WSI_TOKEN_KEY,
        [FIELD_WEBSOCKET_VERSION] = WSI_TOKEN_VERSION,
    };

    return TOKENS[field];
}

static enum request_method
method_of(int lws_method)
{
    switch (lws_method) {
    case LWSHUMETH_GET:
        return REQUEST_GET;
    case LWSHUMETH_HEAD:
        return REQUEST_HEAD;
    case LWSHUMETH_POST:
        return REQUEST_POST;
    case LWSHUMETH_OPTIONS:
        return REQUEST_OPTIONS;
    default:
        return REQUEST_OTHER;
    }
}

bool
request_path(struct lws *wsi, enum request_method *ret_method, char path[REQUEST_PATH_MAX])
{
    char *uri = NULL;
    int len = 0;
    int method = lws_http_get_uri_and_method(wsi, &uri, &len);

    if (method < 0 || uri == NULL || len < 0 || len >= REQUEST_PATH_MAX)
        return false;
    memcpy(path, uri, (size_t)len);
    path[len] = '\0';
    *ret_method = method_of(method);
    return true;
}

int
request_field_len(struct lws *wsi, enum request_field field)
{
    return lws_hdr_total_length(wsi, token_of(field));
}

int
request_field_copy(struct lws *wsi, enum request_field field, char *text, size_t size)
{
    return lws_hdr_copy(wsi, text, (int)size, token_of(field));
}

bool
request_field_is(struct lws *wsi, enum request_field field, const char *value)
{
    char text[32];

    return request_field_copy(wsi, field, text, sizeof(text)) > 0 && strcasecmp(text, value) == 0;
}

char *
request_field_text(struct lws *wsi, enum request_field field)
{
    int len = request_field_len(wsi, field);
    char *text;

    if (len <= 0)
        return NULL;
    text = memory_new((size_t)len + 1);
    if (request_field_copy(wsi, field, text, (size_t)len + 1) > 0)
        return text;
    free(text);
    return NULL;
}

static char *
bounded(char *text, size_t max)
{
    if (strlen(text) <= max)
        return text;
    free(text);
    return memory_text(REQUEST_TOO_LONG, strlen(REQUEST_TOO_LONG));
}

char *
request_header(struct lws *wsi, const char *name, size_t max)
{
    int name_len = (int)strlen(name);
    int len = lws_hdr_custom_length(wsi, name, name_len);
    char *text;

    if (len <= 0)
        return NULL;
    text = memory_new((size_t)len + 1);
    if (lws_hdr_custom_copy(wsi, text, len + 1, name, name_len) > 0)
        return bounded(text, max);
    free(text);
    return NULL;
}

bool
request_header_is_empty(struct lws *wsi, const char *name)
{
    return lws_hdr_custom_length(wsi, name, (int)strlen(name)) == 0;
}

char *
request_argument(struct lws *wsi, const char *name, size_t max)
{
    size_t name_len = strlen(name);
    char *text = NULL;

    for (int nth = 0; workaround_copy_argument(wsi, nth, &text); nth++) {
        if (strncmp(text, name, name_len) == 0) {
            memmove(text, text + name_len, strlen(text) - name_len + 1);
            return bounded(text, max);
        }
        free(text);
    }
    return NULL;
}
