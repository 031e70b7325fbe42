/* shapes.h -- the letters that name sizes throughout the code.
 *
 *   M  tokens computed together in one step (rows of an activation matrix)
 *   E  width of the residual stream (hidden size, embedding length)
 *   F  width of the feed-forward layer
 *   H  query heads        G  key/value heads (H is a multiple of G)
 *   D  size of one head   L  layers        V  vocabulary
 *   B  tokens in a KV block (16)
 *
 * Activations are row-major f32. Weights are row-major [outputs, inputs] in their file's type.
 */
#ifndef SP_COMPUTE_SHAPES_H
#define SP_COMPUTE_SHAPES_H

#define SP_BLOCK_TOKENS 16

#endif
