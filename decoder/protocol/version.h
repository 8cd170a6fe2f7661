/* version.h: the version of the relay, the plugin and the extension. */
#ifndef CLAIRON_VERSION_H
#define CLAIRON_VERSION_H

#define CLAIRON_VERSION "0.1.0"

#endif
