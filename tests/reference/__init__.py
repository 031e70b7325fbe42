"""An independent reference for the engine's numbers, in NumPy: readers and writers of the model
formats, the block types, and a forward pass in float64. Nothing here calls or mirrors the C code.

    blocks.py        element types: decoding, quantising, random blocks
    gguf.py          GGUF files: reader            gguf_writer.py   writer
    safetensors.py   safetensors files and shards: reader and writer
    vocab.py         a small byte-level BPE vocabulary, trained on the spot
    model.py         hyper-parameters and weights of a model, whichever format it is in
    forward.py       tokens -> logits, with any sight mask; probability mass of spans
"""
