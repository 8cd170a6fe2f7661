/* console_page.h: the texts of console/, embedded at build time. */
#ifndef CLAIRON_GATE_API_CONSOLE_PAGE_H
#define CLAIRON_GATE_API_CONSOLE_PAGE_H

extern const char gate_console_index_html[];
extern const char gate_console_console_css[];
extern const char gate_console_console_js[];

#endif
