/* console_page.h: the console's files, embedded at build time. */
#ifndef CLAIRON_GATE_API_CONSOLE_PAGE_H
#define CLAIRON_GATE_API_CONSOLE_PAGE_H

struct conn;
struct response;

extern const char gate_console_index_html[];
extern const char gate_console_console_css[];
extern const char gate_console_console_js[];

void gate_console_page(struct conn *conn, struct response *ret_response);
/* Redirects /console/. */
void gate_console_folder(struct conn *conn, struct response *ret_response);
void gate_console_style(struct conn *conn, struct response *ret_response);
void gate_console_script(struct conn *conn, struct response *ret_response);

#endif
