/* push_message.c: parses the text of a Web Push, and writes the body for the push service. */
#include "wire/push_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/sha.h>

#include "base/text.h"
#include "wire/base64url.h"
#include "wire/json_doc.h"
#include "wire/push_encryption.h"

#define APP_BADGE_MAX 1000000000
#define PUSH_TICKET_ROOM 128

/* The parts that may be cut. */
enum part { TITLE, BODY, PARTS };

/* ---- the text */

/* Returns the field of a member, NULL for an unknown one. */
static char **
field_of(struct push_text *text, const char *name)
{
    const struct {
        const char *name;
        char **field;
    } fields[] = {
        {"title", &text->title}, {"body", &text->body},         {"url", &text->url},
        {"icon", &text->icon},   {"badge", &text->badge},       {"lang", &text->lang},
        {"dir", &text->dir},     {"collapse", &text->collapse},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(name, fields[i].name) == 0)
            return fields[i].field;
    }
    return NULL;
}

static bool
is_direction(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "ltr") == 0 || strcmp(text, "rtl") == 0;
}

/* A null member is absent. */
static enum rc
read_member(struct json_doc *doc, const struct json_value *member, struct push_text *text,
            char *error)
{
    const char *name = json_doc_text(doc, member);
    const struct json_value *value = json_value_of(member);
    char **field = field_of(text, name);

    if (strcmp(name, "app_badge") == 0) {
        if (json_is(value, JSON_KIND_NULL))
            return RC_OK;
        text->app_badge = json_doc_integer(doc, value);
        return json_is(value, JSON_KIND_INTEGER) && text->app_badge >= 0 &&
                       text->app_badge <= APP_BADGE_MAX
                   ? RC_OK
                   : wire_reject(error, "web_push.app_badge must be an integer from 0 to %d",
                                 APP_BADGE_MAX);
    }
    if (field == NULL)
        return wire_reject(
            error,
            "web_push has an unknown member: %.40s; valid are title, body, url, icon, "
            "badge, lang, dir, app_badge, collapse",
            name);
    if (json_is(value, JSON_KIND_NULL))
        return RC_OK;
    if (json_text_len(value) == 0)
        return wire_reject(error, "web_push.%s must be a string that is not empty", name);
    if (field == &text->dir && !is_direction(json_doc_text(doc, value)))
        return wire_reject(error, "web_push.dir must be auto, ltr or rtl");
    *field = memory_text(json_doc_text(doc, value), json_text_len(value));
    return RC_OK;
}

static enum rc
read_text(struct json_doc *doc, struct push_text *text, char *error)
{
    const struct json_value *root = json_doc_root(doc), *name = json_doc_first(doc, root);

    if (!json_is(root, JSON_KIND_OBJECT))
        return wire_reject(error, "web_push must be an object");
    for (; name != NULL; name = json_doc_next(doc, root, name)) {
        if (read_member(doc, name, text, error) != RC_OK)
            return RC_BAD;
    }
    return text->title != NULL ? RC_OK : wire_reject(error, "web_push.title is required");
}

enum rc
push_text_parse(const char *json, size_t len, struct push_text *ret_text,
                char error[WIRE_ERROR_MAX])
{
    struct push_text text = {.app_badge = -1};
    struct json_doc doc;
    struct json_doc_error load;
    enum rc rc;

    if (len > PUSH_TEXT_MAX)
        return wire_reject(error, "web_push has %zu bytes; the maximum is %d", len, PUSH_TEXT_MAX);
    rc = json_doc_parse(&doc, json, len, false, &load) == RC_OK
             ? read_text(&doc, &text, error)
             : wire_reject(error, "web_push is not a JSON object: %.80s", load.text);
    json_doc_free(&doc);
    if (rc == RC_OK)
        *ret_text = text;
    else
        push_text_free(&text);
    return rc;
}

void
push_text_free(struct push_text *text)
{
    free(text->title);
    free(text->body);
    free(text->url);
    free(text->icon);
    free(text->badge);
    free(text->lang);
    free(text->dir);
    free(text->collapse);
    *text = (struct push_text){.app_badge = -1};
}

/* ---- the URL */

/* Browsers read a backslash as a slash, and ignore line ends and tabs. */
static bool
is_plain(const char *url)
{
    for (; *url != '\0'; url++) {
        if ((unsigned char)*url <= ' ' || *url == 0x7f || *url == '\\')
            return false;
    }
    return true;
}

/* Length of the scheme and its colon; 0: none. */
static size_t
scheme_len(const char *url)
{
    size_t len = strcspn(url, ":/?#");

    return url[len] == ':' ? len + 1 : 0;
}

/* Length of scheme, host and port. */
static size_t
origin_len(const char *url)
{
    size_t len = scheme_len(url);

    if (strncmp(url + len, "//", 2) == 0)
        len += 2 + strcspn(url + len + 2, "/?#");
    return len;
}

/* Length of the part of the application's URL that precedes a relative one. */
static size_t
base_len(const char *app_url, const char *url)
{
    size_t len = origin_len(app_url), path_len = strcspn(app_url + len, "?#");

    if (url[0] == '/')
        return len;
    if (url[0] == '?')
        return len + path_len;
    if (url[0] == '#')
        return len + strcspn(app_url + len, "#");
    while (path_len > 0 && app_url[len + path_len - 1] != '/')
        path_len--;
    return len + path_len;
}

enum rc
push_url_resolve(const char *app_url, const char *url, struct buffer *out)
{
    size_t len = origin_len(app_url), start;
    bool is_absolute;

    if (url == NULL || url[0] == '\0')
        return buffer_add(out, app_url, strlen(app_url));
    is_absolute = scheme_len(url) > 0;
    if (!is_plain(url) || strncmp(url, "//", 2) == 0 ||
        (is_absolute && (origin_len(url) != len || strncasecmp(url, app_url, len) != 0)))
        return RC_BAD;
    start = is_absolute ? 0 : base_len(app_url, url);
    if (start + strlen(url) + 1 > PUSH_URL_MAX)
        return RC_LIMIT;
    if (!is_absolute && start == len && url[0] != '/')
        return buffer_addf(out, "%.*s/%s", (int)start, app_url, url);
    return buffer_addf(out, "%.*s%s", (int)start, app_url, url);
}

/* ---- the body */

/* Adds ,"name":"value" unless the value is absent. */
static enum rc
add_member(struct buffer *out, const char *name, const char *value, size_t len)
{
    enum rc rc = value != NULL ? buffer_addf(out, ",\"%s\":", name) : RC_OK;

    return rc == RC_OK && value != NULL ? buffer_add_json(out, value, len) : rc;
}

/* Writes the body with the first bytes of title and text. */
static enum rc
write_body(const struct push_message *message, const char *url, const char *tag, size_t title_len,
           size_t body_len, struct buffer *out)
{
    const struct push_text *text = message->text;
    const char *members[][2] = {{"navigate", url},    {"icon", text->icon}, {"badge", text->badge},
                                {"lang", text->lang}, {"dir", text->dir},   {"tag", tag}};
    enum rc rc = buffer_addf(out, "{\"web_push\":8030,\"notification\":{\"title\":");

    if (rc == RC_OK)
        rc = buffer_add_json(out, text->title, title_len);
    if (rc == RC_OK && body_len > 0)
        rc = add_member(out, "body", text->body, body_len);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && rc == RC_OK; i++) {
        const char *value = members[i][1];

        rc = add_member(out, members[i][0], value, value != NULL ? strlen(value) : 0);
    }
    if (rc == RC_OK && message->id[0] != '\0')
        rc = buffer_addf(out, ",\"data\":{\"id\":\"%s\"", message->id);
    if (rc == RC_OK && message->id[0] != '\0' && message->ticket != NULL)
        rc = buffer_addf(out, ",\"ticket\":\"%s\"", message->ticket);
    if (rc == RC_OK && message->id[0] != '\0')
        rc = buffer_addf(out, "}");
    if (rc == RC_OK)
        rc = buffer_addf(out, "}");
    if (rc == RC_OK && text->app_badge >= 0)
        rc = buffer_addf(out, ",\"app_badge\":%" PRId64, text->app_badge);
    return rc == RC_OK ? buffer_addf(out, ",\"mutable\":true}") : rc;
}

/* The largest length up to `len` that ends with a whole character. */
static size_t
whole_len(const char *text, size_t text_len, size_t len)
{
    size_t at = 0;

    for (;;) {
        size_t step = utf8_char_len(text + at, text_len - at);

        if (step == 0 || at + step > len)
            return at;
        at += step;
    }
}

static bool
fits(const struct push_message *message, const char *url, const char *tag, const size_t lens[PARTS])
{
    struct buffer body;
    enum rc rc;

    buffer_init(&body, WEB_PUSH_PLAIN_MAX);
    rc = write_body(message, url, tag, lens[TITLE], lens[BODY], &body);
    buffer_free(&body);
    return rc == RC_OK;
}

/* Shortens one part until the body fits, or nothing is left. */
static void
cut(const struct push_message *message, const char *url, const char *tag, size_t lens[PARTS],
    enum part part)
{
    const char *text = part == TITLE ? message->text->title : message->text->body;
    size_t len = lens[part], low = 0, high = len;

    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;

        lens[part] = whole_len(text, len, middle);
        if (fits(message, url, tag, lens))
            low = middle;
        else
            high = middle - 1;
    }
    lens[part] = text != NULL ? whole_len(text, len, low) : 0;
}

/* The notification's id without dashes, or a hash of the user and `collapse`. */
static void
make_topic(const struct push_message *message, char ret_topic[PUSH_TOPIC_TEXT + 1])
{
    const char *collapse = message->text->collapse;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char text[BASE64URL_LEN(SHA256_DIGEST_LENGTH) + 1];
    struct buffer hashed;
    size_t len = 0;

    if (collapse == NULL) {
        for (const char *at = message->id; *at != '\0' && len < PUSH_TOPIC_TEXT; at++) {
            if (*at != '-')
                ret_topic[len++] = *at;
        }
        ret_topic[len] = '\0';
        return;
    }
    buffer_init(&hashed, 2 * PUSH_TEXT_MAX);
    if (buffer_add(&hashed, message->user, strlen(message->user) + 1) == RC_OK &&
        buffer_add(&hashed, collapse, strlen(collapse)) == RC_OK)
        (void)SHA256((const unsigned char *)hashed.bytes, hashed.len, digest);
    else
        memset(digest, 0, sizeof(digest)); /* both are shorter */
    buffer_free(&hashed);
    base64url_encode(digest, sizeof(digest), text);
    memcpy(ret_topic, text, PUSH_TOPIC_TEXT);
    ret_topic[PUSH_TOPIC_TEXT] = '\0';
}

static enum rc
write_fitting(const struct push_message *message, const char *url, const char *tag,
              struct buffer *out)
{
    const struct push_text *text = message->text;
    size_t lens[PARTS] = {strlen(text->title), text->body != NULL ? strlen(text->body) : 0};

    if (!fits(message, url, tag, lens))
        cut(message, url, tag, lens, BODY);
    if (!fits(message, url, tag, lens))
        cut(message, url, tag, lens, TITLE);
    return lens[TITLE] > 0 ? write_body(message, url, tag, lens[TITLE], lens[BODY], out) : RC_LIMIT;
}

enum rc
push_message_write(const struct push_message *message, struct buffer *out,
                   char ret_topic[PUSH_TOPIC_TEXT + 1])
{
    struct buffer url;
    enum rc rc;

    buffer_init(&url, PUSH_URL_MAX + PUSH_TICKET_ROOM);
    rc = push_url_resolve(message->app_url, message->text->url, &url);
    if (rc == RC_OK && message->ticket != NULL && strchr(url.bytes, '#') == NULL)
        rc = buffer_addf(&url, PUSH_TICKET_FRAGMENT "%s", message->ticket);
    if (rc == RC_OK) {
        make_topic(message, ret_topic);
        rc = write_fitting(message, url.bytes,
                           message->text->collapse != NULL ? ret_topic : message->id, out);
    }
    buffer_free(&url);
    return rc;
}
