/* libxml.h -- libxml2 while memory is short. */
#ifndef SP_RETRIEVE_DOCUMENTS_LIBXML_H
#define SP_RETRIEVE_DOCUMENTS_LIBXML_H

#include <libxml/xmlreader.h>
#include <stdint.h>

#include "base/err.h"

/* sp_libxml_enter -- call it before a thread uses libxml2, which keeps a state for each thread and crashes if there is
 * no memory for it. Errors: SP_E_NOMEM. */
sp_err sp_libxml_enter(void) SP_MUST_CHECK;
/* sp_libxml_run -- after sp_libxml_enter: what fn returns, or SP_E_NOMEM if libxml2 wanted memory and there was none.
 * Its parser of HTML (2.9) then crashes, or makes a page empty, so fn is left at once. What libxml2 allocates in fn is
 * freed when it ends; fn keeps nothing else that has to be freed while it calls libxml2, and has it convert no
 * encoding: what it opens for that would stay open. */
sp_err sp_libxml_run(sp_err (*fn)(void *user), void *user) SP_MUST_CHECK;
/* sp_libxml_line -- where the element that the reader is at begins; of a text, the element around it. The line of the
 * parser is some lines later, because it reads ahead; it serves after line 65534, which nodes do not count. */
int64_t sp_libxml_line(xmlTextReader *x);

#endif
