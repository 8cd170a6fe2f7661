/*
 * gate_console_page.c: serves the console's page, which holds nothing secret and loads nothing
 * else.
 */
#include <string.h>

#include "gate/gate_console_page.h"
#include "gate/gate_request.h"

static int
answer_text(struct lws *wsi, bool head, const char *type, const char *text)
{
    struct gate_answer answer;

    gate_answer_init(&answer, 200, type);
    answer.head = head;
    gate_answer_header(&answer, "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                                "style-src 'self'; connect-src 'self'; img-src data:; "
                                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    gate_answer_header(&answer, "X-Frame-Options: DENY");
    gate_answer_header(&answer, "Referrer-Policy: no-referrer");
    gate_answer_header(&answer, "Cross-Origin-Opener-Policy: same-origin");
    gate_answer_header(&answer, "Cross-Origin-Resource-Policy: same-origin");
    if (buffer_add(&answer.body, text, strlen(text)) != RC_OK)
        answer.status = 500;
    return gate_answer_send(wsi, &answer);
}

int
gate_console_page(struct gate *gate, struct lws *wsi, bool head)
{
    (void)gate;
    return answer_text(wsi, head, "text/html; charset=utf-8", gate_console_index_html);
}

int
gate_console_style(struct gate *gate, struct lws *wsi, bool head)
{
    (void)gate;
    return answer_text(wsi, head, "text/css; charset=utf-8", gate_console_console_css);
}

int
gate_console_script(struct gate *gate, struct lws *wsi, bool head)
{
    (void)gate;
    return answer_text(wsi, head, "text/javascript; charset=utf-8", gate_console_console_js);
}
