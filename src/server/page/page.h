/* page.h -- the page at /: files that are in the program, compressed by gzip. */
#ifndef SP_SERVER_PAGE_PAGE_H
#define SP_SERVER_PAGE_PAGE_H

#include "server/http/call.h"

/* srv_page -- GET / and GET /page/NAME. 404 for another name, and for all of them with --no-page. */
srv_sent srv_page(srv_call *call);

#endif
