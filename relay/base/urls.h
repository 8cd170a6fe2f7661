/* urls.h: a comma-separated list of URLs. */
#ifndef CLAIRON_BASE_URLS_H
#define CLAIRON_BASE_URLS_H

/* Number of URLs. A comma without a store's scheme after it is part of the URL. */
unsigned urls_count(const char *urls);

/* The URL at `index`, from 0; the caller frees it. */
char *urls_at(const char *urls, unsigned number);

#endif
