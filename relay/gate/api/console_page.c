/*
 * console_page.c: serves the console's page, which holds nothing secret and loads nothing
 * else.
 */
#include <string.h>

#include "gate/api/console_page.h"
#include "gate/http/response.h"

static void
answer_text(struct gate_answer *ret_answer, const char *type, const char *text)
{
    gate_answer_init(ret_answer, 200, type);
    gate_answer_header(ret_answer,
                       "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                       "style-src 'self'; connect-src 'self'; img-src data:; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    gate_answer_header(ret_answer, "X-Frame-Options: DENY");
    gate_answer_header(ret_answer, "Referrer-Policy: no-referrer");
    gate_answer_header(ret_answer, "Cross-Origin-Opener-Policy: same-origin");
    gate_answer_header(ret_answer, "Cross-Origin-Resource-Policy: same-origin");
    if (buffer_add(&ret_answer->body, text, strlen(text)) != RC_OK)
        ret_answer->status = 500;
}

void
gate_console_page(struct gate *gate, struct gate_answer *ret_answer)
{
    (void)gate;
    answer_text(ret_answer, "text/html; charset=utf-8", gate_console_index_html);
}

void
gate_console_style(struct gate *gate, struct gate_answer *ret_answer)
{
    (void)gate;
    answer_text(ret_answer, "text/css; charset=utf-8", gate_console_console_css);
}

void
gate_console_script(struct gate *gate, struct gate_answer *ret_answer)
{
    (void)gate;
    answer_text(ret_answer, "text/javascript; charset=utf-8", gate_console_console_js);
}

/* Only from /console do the page's links lead where they should. */
void
gate_console_folder(struct gate *gate, struct gate_answer *ret_answer)
{
    (void)gate;
    gate_answer_problem_with(ret_answer, 308, "Location: ../console", "the console is at /console");
}
