/* publish.h: offers new notifications to the sessions of their audiences. */
#ifndef CLAIRON_HUB_PUBLISH_H
#define CLAIRON_HUB_PUBLISH_H

struct hub;

/*
 * Offers the notifications that were read in this iteration, in order. Only hub_publish calls it.
 */
void publish_unpublished(struct hub *hub);

#endif
