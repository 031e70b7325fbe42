-- documents.lua -- the key by which haproxy.cfg chooses a server: what the request reads.

-- first_document -- the id or the text of the first element of "documents"; nil: there is none in this part of the body.
local function first_document(body)
    local from = body:match('"documents"%s*:%s*%[()')
    if not from then return nil end
    local part = body:sub(from, from + 4096)
    return part:match('^%s*{.-"id"%s*:%s*"(.-[^\\])"') or part:match('"text"%s*:%s*"(.-[^\\])"') or part:match('^%s*"(.-[^\\])"') or part
end

core.register_action("documents_key", {"http-req"}, function(txn)
    local headers = txn.http:req_get_headers()
    local function header(name) return headers[name] and headers[name][0] end
    local body = txn.f:req_body() or ""
    txn:set_var("txn.documents_key", header("x-documents")
        or body:match('"prompt_cache_key"%s*:%s*"(.-[^\\])"')
        or first_document(body)
        or header("authorization")
        or txn.f:src())
end)
