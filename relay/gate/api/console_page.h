/* console_page.h: the console's files, embedded at build time. */
#ifndef CLAIRON_GATE_API_CONSOLE_PAGE_H
#define CLAIRON_GATE_API_CONSOLE_PAGE_H

struct gate;
struct lws;
struct response;

extern const char gate_console_index_html[];
extern const char gate_console_console_css[];
extern const char gate_console_console_js[];

void gate_console_page(struct gate *gate, struct lws *wsi, struct response *ret_response);
/* Redirects /console/. */
void gate_console_folder(struct gate *gate, struct lws *wsi, struct response *ret_response);
void gate_console_style(struct gate *gate, struct lws *wsi, struct response *ret_response);
void gate_console_script(struct gate *gate, struct lws *wsi, struct response *ret_response);

#endif
