/*
 * console_page.c: serves the console's page, which contains no secret and loads nothing from other
 * hosts.
 */
#include <string.h>

#include "gate/api/console_page.h"
#include "gate/http/request.h"

static void
respond_text(struct response *ret_response, const char *type, const char *text)
{
    response_init(ret_response, 200, type);
    response_header(ret_response, "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                                  "style-src 'self'; connect-src 'self'; img-src data:; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    response_header(ret_response, "X-Frame-Options: DENY");
    response_header(ret_response, "Referrer-Policy: no-referrer");
    response_header(ret_response, "Cross-Origin-Opener-Policy: same-origin");
    response_header(ret_response, "Cross-Origin-Resource-Policy: same-origin");
    if (buffer_add(&ret_response->body, text, strlen(text)) != RC_OK)
        ret_response->status = 500;
}

void
gate_console_page(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    respond_text(ret_response, "text/html; charset=utf-8", gate_console_index_html);
}

void
gate_console_style(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    respond_text(ret_response, "text/css; charset=utf-8", gate_console_console_css);
}

void
gate_console_script(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    respond_text(ret_response, "text/javascript; charset=utf-8", gate_console_console_js);
}

/* The page's relative links work only at /console. */
void
gate_console_folder(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    response_problem_with(ret_response, 308, 0, "Location: ../console",
                          "the console is at /console");
}
