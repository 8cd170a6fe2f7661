/* version.h: which clairon this is: the relay, the plugin and the extension are of one version. */
#ifndef CLAIRON_VERSION_H
#define CLAIRON_VERSION_H

#define CLAIRON_VERSION "0.1.0"

#endif
