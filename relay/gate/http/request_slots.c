/*
 * request_slots.c: requests under way, but for polls and streams, and their bodies: they have a
 * ceiling together.
 *
 * Who sends slowly must not take their places from everybody else. The one that came first has had
 * the most time.
 */
#include <string.h>
#include <strings.h>

#include <utlist.h>

#include "gate/gate_request.h"

#define POSTS_MAX 512
#define LINGERING_MAX 256
#define BODIES_MAX (64 * 1024 * 1024) /* bytes of all of them */

static void
drop_body(struct gate_request *request)
{
    request->gate->body_bytes -= request->body.len;
    buffer_free(&request->body);
}

static void
take_place(struct gate_request *request, struct gate_places *places)
{
    request->places = places;
    DL_APPEND2(places->first, request, place_prev, place_next);
    places->count++;
}

void
gate_body_end(struct gate_request *request)
{
    struct gate_places *places = request->places;

    if (places == NULL)
        return;
    request->places = NULL;
    DL_DELETE2(places->first, request, place_prev, place_next);
    places->count--;
    if (places == &request->gate->posts)
        drop_body(request);
}

static void
refuse(struct gate_request *request)
{
    stats_add(request->gate->stats, STAT_GATE_REFUSED, 1);
    gate_request_problem(request, 503, 0, "too many requests are under way");
    gate_body_end(request);
}

/* False: all that are under way wait for the store. */
static bool
make_room(struct gate *gate)
{
    struct gate_request *request;

    DL_FOREACH2(gate->posts.first, request, place_next)
    {
        if (request->state == GATE_REQUEST_READING) {
            refuse(request);
            return true;
        }
    }
    return false;
}

bool
gate_body_begin(struct gate_request *request)
{
    struct gate *gate = request->gate;

    if (gate->posts.count >= POSTS_MAX && !make_room(gate)) {
        refuse(request);
        return false;
    }
    take_place(request, &gate->posts);
    return true;
}

/* Of places of their own: who had to go must not make another go by that. */
void
gate_body_linger(struct gate_request *request)
{
    struct gate_places *lingering = &request->gate->lingering;
    struct gate_request *oldest = lingering->first;

    gate_body_end(request);
    if (lingering->count >= LINGERING_MAX) {
        gate_body_end(oldest);
        gate_request_kill(oldest);
    }
    take_place(request, lingering);
}

void
gate_body_add(struct gate_request *request, const char *bytes, size_t len)
{
    struct gate *gate = request->gate;

    while (gate->body_bytes + len > BODIES_MAX && make_room(gate))
        ;
    if (request->state != GATE_REQUEST_READING) /* it was the oldest itself */
        return;
    if (gate->body_bytes + len > BODIES_MAX)
        refuse(request);
    else if (buffer_add(&request->body, bytes, len) != RC_OK)
        gate_request_problem(request, 413, 0, "a body may have 1 MB");
    else
        gate->body_bytes += len;
}

/* Digits: http_head.c saw to it. Within the limit; else the status to answer with, negative. */
static int64_t
content_length(struct lws *wsi)
{
    char text[16];
    int64_t len = 0;
    int got = lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_HTTP_CONTENT_LENGTH);

    if (got == 0 || lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0)
        return -411;
    if (got < 0)
        return -413;
    for (const char *at = text; *at >= '0' && *at <= '9'; at++)
        len = len * 10 + (*at - '0');
    return len <= GATE_BODY_MAX ? len : -413;
}

/* RFC 9110, 10.1.1: who asks first waits for a word before the body; not in HTTP/1.0. */
static void
say_continue(struct lws *wsi)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    unsigned char bytes[LWS_PRE + sizeof(CONTINUE)];
    char version[16], expected[16];

    if (lws_hdr_copy(wsi, version, sizeof(version), WSI_TOKEN_HTTP) <= 0 ||
        strcmp(version, "HTTP/1.1") != 0 ||
        lws_hdr_copy(wsi, expected, sizeof(expected), WSI_TOKEN_HTTP_EXPECT) <= 0 ||
        strcasecmp(expected, "100-continue") != 0)
        return;
    memcpy(bytes + LWS_PRE, CONTINUE, sizeof(CONTINUE));
    (void)lws_write(wsi, bytes + LWS_PRE, sizeof(CONTINUE) - 1, LWS_WRITE_HTTP_HEADERS);
}

/* RFC 9112, 6.3: without a word about a body there is none. */
static bool
has_no_body(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0 &&
           lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) <= 0;
}

void
gate_body_check(struct gate_request *request)
{
    int64_t len = content_length(request->wsi);

    if (request->route->needs_no_body && has_no_body(request->wsi))
        return;
    if (len == -411)
        gate_request_problem(request, 411, 0, "a body needs Content-Length, and is not chunked");
    else if (len == -413)
        gate_request_problem(request, 413, 0, "a body may have 1 MB");
    else if (len > 0)
        say_continue(request->wsi);
}

int64_t
gate_body_len(struct lws *wsi)
{
    int64_t len = has_no_body(wsi) ? 0 : content_length(wsi);

    if (len == -413)
        return GATE_BODY_MAX + 1;
    return len >= 0 ? len : INT64_MAX;
}
