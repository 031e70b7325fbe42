#!/bin/sh
# The server's main paths with curl.
#
#     spolia serve -m demo/model.gguf --reuse full &
#     sh examples/curl.sh http://127.0.0.1:8080
set -eu
url=${1:-http://127.0.0.1:8080}
post() { curl -fsS "$url$1" -H 'Content-Type: application/json' -d "$2"; echo; }

documents='[{"id": "a", "title": "Larbar", "text": "Larbar has a purple flag. Larbar holds its market in March."}]'

# computed ahead, without an answer
post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"documents\": $documents, \"n_predict\": 0}"
# an answer; its "spolia" says what was reused
post /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": \"When is the market of Larbar?\"}],
    \"documents\": $documents, \"max_tokens\": 16}"
# a stream
curl -fsSN "$url/v1/chat/completions" -H 'Content-Type: application/json' \
    -d '{"messages": [{"role": "user", "content": "Who?"}], "stream": true, "max_tokens": 16}'
# JSON that follows a schema
post /v1/chat/completions '{"messages": [{"role": "user", "content": "Which day?"}], "max_tokens": 60,
    "json_schema": {"type": "object", "properties": {"day": {"enum": ["monday", "friday"]}}, "required": ["day"]}}'
# facts side by side, which do not see each other, and a table whose rows see the header: cached for any order
post /v1/chat/completions '{"messages": [{"role": "user", "content": "What is the price of Gamnik?"}], "max_tokens": 16,
    "documents": [{"type": "list", "items": ["The price of Tirhel is 12 euros.", "The price of Matkem is 79 euros."]},
                  {"type": "table", "header": "product | price", "rows": ["Gamnik | 31 euros", "Bornon | 64 euros"]}]}'
# the same as a response
post /v1/responses '{"input": "Who?", "max_output_tokens": 16}'
curl -fsS "$url/v1/models"; echo
curl -fsS "$url/health"; echo
