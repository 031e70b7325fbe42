// texts.js -- every text that the page shows, in one table; {0}, {1} are filled in.
const english = {
  ask: "Ask", documents: "Documents", watch: "Watch",
  key_needed: "This server needs an API key.", key_label: "API key", key_use: "Use this key",
  key_kept: "It is kept until this tab is closed.", key_wrong: "The server does not know this key.",
  offline: "The server does not answer. Is it running?",

  new_conversation: "New conversation", conversations: "Conversations", delete_conversation: "Delete {0}",
  untitled: "New", question: "Your question", placeholder: "Ask about documents",
  send: "Ask", stop: "Stop", you: "You", model: "Answer",
  thoughts: "Thoughts", regenerate: "Again", edit: "Edit", copy: "Copy", copied: "Copied", export: "Export", cancel: "Cancel",
  compare: "Compare qualities", comparing: "Comparing ...", same_words: "the same words as exact",
  other_words: "other words than exact", read_tokens: "{0} tokens read, {1} reused",
  saved: "{0}: saved reading {1} of {2} tokens ({3} %).", cost: "{0} known ones were recomputed.",
  quality: "Quality", exact: "exact", balanced: "balanced", fast: "fast",
  use_documents: "Documents", none: "none", best: "best {0} passages", all_of: "all of {0}",
  nothing_found: "No passage matches; the answer is without documents.",
  came_from: "Where the prompt came from", account_empty: "After an answer, this shows what of each document was reused.",
  memory: "memory", host: "host", disk: "disk", remote: "another server", recomputed: "recomputed", computed: "computed",
  system: "system prompt", text: "conversation", question_part: "question",
  ttft: "time to the first token", ttft_cold: "if all of it were read", about: "about {0}", queued: "waiting before it",
  rate: "tokens a second", reused: "tokens reused", of: "{0} of {1}", reused_of: "{0} of {1} reused", policy: "policy",
  why: "not reused: {0}", read_passage: "Read {0}", close: "Close", gain: "{0}x", faster: "faster than reading all of it",
  sources: "What each sentence looked at", cited: "Cited passages", cited_note: "Share of the attention that the documents got.",
  passage: "passage {0}", use_graph: "the graph", use_collection: "collection {0}", paths: "Paths of the graph", back: "Back",
  no_paths: "The graph has no path for this.",
  broken_off: "The answer broke off: {0}", stopped: "stopped", cut: "cut at the longest length of an answer",

  welcome: "Ask about your documents",
  welcome_note: "Drop files or a folder anywhere on this page, then ask. When you ask again, the bars on this page show which documents the server did not have to read a second time.",
  add_documents: "Add documents",
  drop_here: "Drop to add to the documents", drop: "Drop files or folders here, or", choose_files: "choose files", choose_folder: "choose a folder",
  search_documents: "Search", id: "Id", title: "Title", passages: "Passages", tokens: "Tokens", size: "Size",
  pin: "Pin", unpin: "Unpin", expire: "Expires", never: "never",
  in_hour: "in an hour", in_day: "in a day", in_week: "in a week",
  remove: "Delete", really: "Delete {0}? Its text and every copy of its KV are erased.", gone:
    "{0} is gone. Copies erased: {1} on the device, {2} in the store. The server knows no document of this name.",
  still_there: "{0} could not be deleted: {1}", pending: "{0}: {1} copies are still read and go when those answers end.",
  precompute: "Compute ahead", computing: "{0} of {1}", computed_ahead: "computed", estimate: "about {0}, {1}",
  uploading: "{0} of {1}: {2}", uploaded: "{0} added, {1} refused", ask_now: "Ask about them", refused: "{0}: {1}", more: "Show more",
  no_match: "Nothing matches.", empty: "No documents yet.", unknown_time: "its time is unknown",

  running: "running", waiting: "waiting", hit_rate: "Prompt tokens reused", ttft_chart: "Time to the first token",
  tokens_chart: "Tokens a second", kv_chart: "KV memory in use", queue_chart: "Requests", by_tier: "Prompt tokens by source",
  guard: "Quality guard", guard_none: "No answer has been compared with full attention yet. --guard says how many are.",
  guard_checked: "answers checked", guard_same: "same first token", guard_kl: "divergence, nats",
  guard_fell: "It differs too much: exact prefixes are used instead.",
  since_start: "since the start", peak: "peak {0}", last_seconds: "last {0} s", last_minutes: "last {0} min",
  requests: "Under way", no_requests: "No request waits or runs.", request_path: "Request", request_state: "State",
  request_prompt: "Prompt", request_answer: "Answer", request_time: "Time", phase_waiting: "waiting",
  phase_loading: "loading copies", phase_prompt: "reading the prompt", phase_prompt_of: "{0} of {1} tokens",
  phase_answer: "answering", phase_done: "done",
  copies: "What is cached", copies_note: "Each copy is below what it was computed after: open a prompt to see what follows it.",
  refresh: "Refresh", no_copies: "Nothing is cached yet.", evictions: "Dropped for room so far: {0}",
  copies_below: "{0} below", copy_tokens: "{0} tokens", copy_uses: "used {0} times", copy_exact: "exact", copy_near: "approximate",
  copy_patch: "{0} of them recomputed", in_no_tier: "on its way", text_below: "(stored; its text is unknown until it is used)",
  text_none: "(no text)", kind_path: "path", kind_plain: "plain", kind_fused: "fused", kind_placed: "placed",
  no_data: "nothing yet", paused: "No answer from the server: trying again.",
};

export function text(name, ...values) {
  const t = english[name];
  if (t === undefined) throw new Error("no text " + name);
  return t.replace(/\{(\d)\}/g, (_, i) => values[Number(i)]);
}
