// documents.js -- the key by which nginx-replicas.conf chooses a server: what the request reads.

// body -- as an object; empty if there is none, or it is too large for the buffer.
function body(r) {
    try {
        const parsed = JSON.parse(r.requestText);
        return parsed && typeof parsed === 'object' ? parsed : {};
    } catch (e) {
        return {};
    }
}

// first_document -- the id or the text of the first element of "documents".
function first_document(documents) {
    const first = Array.isArray(documents) ? documents[0] : undefined;
    return first && typeof first === 'object' ? first.id || first.text : first;
}

function key(r) {
    const header = r.headersIn['X-Documents'];
    const o = header ? {} : body(r);
    return String(header || o.prompt_cache_key || first_document(o.documents) || r.headersIn['Authorization'] ||
                  r.remoteAddress);
}

export default {key};
