/* urls.h: a list of URLs between commas. */
#ifndef CLAIRON_BASE_URLS_H
#define CLAIRON_BASE_URLS_H

/* How many there are; a comma that no scheme of a store follows belongs to the URL before it. */
unsigned urls_count(const char *urls);

/* One of them, from 0 on, for the caller to free. */
char *urls_at(const char *urls, unsigned number);

#endif
