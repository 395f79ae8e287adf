// Package lm computes decoder-only transformers in float32: Qwen2, Qwen3, Llama, Mistral and their
// mixtures of experts. Weights come from a checkpoint folder (package hf) or are new.
//
//	c, err := hf.ReadConfig(dir)                       // or a lm.Config of your own
//	m, err := lm.New(new(nn.Params[float32]), c, lm.Options{})
//	err = m.Alloc(tensor.Heap)
//	err = hf.Load(m, dir)                              // or m.Init(seed)
//
// In training, a batch has several sequences, one after the other, without padding:
//
//	w := m.NewTraining(4096)                           // activations of up to 4096 tokens
//	err = m.Forward(w, batch)
//	targets = batch.NextTokens(targets[:0])
//	m.LogProbs(w, logp, nil, targets, 1)               // then a loss, and its gradient dlogp
//	m.Backward(w, dlogp, nil, targets, 1, 0)
//	m.FinishGradients(w)                               // once per optimiser step; then read m.Params.Grad
//
// Several goroutines can use a Model at once, each with a Work of its own. Work.SetThreads lets one Work compute on
// several cores.
//
// In generation, a cache holds keys and values of each sequence:
//
//	w, cache := m.NewDecoding(512), m.NewCache(1000)
//	s := cache.NewText(2048)
//	err = m.Extend(w, lm.Piece{s, prompt})             // tokens of one sequence or of many
//	m.Logits(w, logits, []int32{int32(len(prompt) - 1)})
//
// # The same bits
//
// A token's log-probability has the same bits in Forward and in Extend, in any batch and in pieces of any size. Each
// row is computed separately, so the order of a sum never depends on the number of rows. Attention reads the keys of a
// sequence in blocks, in the order of their positions. Sums over heads, over a feed-forward width and over the
// vocabulary are split into Config.Blocks blocks, which are added as a tree (kernel.Multiplier). So each rank can
// compute some of the blocks (Shard, Mesh). The gradient of a weight is summed over the tokens in order, for any size
// of a batch. Bits are equal only on processors of the same kind.
package lm
