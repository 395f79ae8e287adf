// Package vla has vla_policy: a policy that sees images, reads an instruction and acts, a
// vision-language-action model. To algorithms it is a policy.Policy like any other.
//
//	image  → convolutions ─┐
//	numbers → MLP ─────────┤
//	text   → embeddings ───┴→ prefix ┐
//	action slots ────────────────────┴→ transformer (package lm) → action head, value head
//
// A sequence is the text's tokens, then the image tokens, then one token of all numbers, then the
// slots: one for each dimension of each action of a chunk, with flow one for each action. Tokens of the
// prefix see each other in both directions. Slots see the prefix and, where all are computed at once,
// each other. The value head reads the last token of the prefix, which sees no slot.
//
// With vision_words each word of the text says where in an image its thing is. With vision_film the
// text chooses the features of keypoints (FiLM, Perez et al. 2018, arXiv:1709.07871); without
// vision_words those of the first convolution, too. Places of both join the numbers. While it
// imitates, a policy with foresight guesses from these where a demonstration goes.
//
// The key action_head says what actions are:
//
//   - tokens: bins of each dimension, drawn at once (OpenVLA-OFT, Kim et al. 2025, arXiv:2502.19645)
//   - tokens_autoregressive: bins, one after the other (OpenVLA, Kim et al. 2024, arXiv:2406.09246)
//   - l1: numbers, for learning from demonstrations alone
//   - flow: numbers that are denoised (π0, Black et al. 2024, arXiv:2410.24164)
//
// A row's results have the same bits in whatever batch it stands.
package vla
