/*
 * cppcheck.h: macros of uthash and PostgreSQL for cppcheck, which does not read system headers.
 */
#define PG_VERSION_NUM 170000
#define UINT64_FORMAT "%lu"
#define DL_FOREACH(head, el) for (el = head; el; el = (el)->next)
#define DL_FOREACH2(head, el, next) for (el = head; el; el = (el)->next)
#define DL_FOREACH_SAFE(head, el, tmp)                                                             \
    for ((el) = (head); (el) && (tmp = (el)->next, 1); (el) = tmp)
#define DL_FOREACH_SAFE2(head, el, tmp, next)                                                      \
    for ((el) = (head); (el) && (tmp = (el)->next, 1); (el) = tmp)
#define HASH_ITER(hh, head, el, tmp)                                                               \
    for ((el) = (head), (tmp) = (el) ? (el)->hh.next : 0; (el);                                    \
         (el) = (tmp), (tmp) = (tmp) ? (tmp)->hh.next : 0)
#define foreach(cell, list) for (cell = list_head(list); cell; cell = lnext(list, cell))
