// Package vla answers: how does one network see images, read an instruction and act? It has vla_policy, a
// vision-language-action model. To algorithms it is a policy.Policy like any other.
//
//	image  → convolutions ─┐
//	numbers → MLP ─────────┤
//	text   → embeddings ───┴→ prefix ┐
//	action slots ────────────────────┴→ transformer (package lm) → action head, value head
//
// A sequence holds the tokens of the text, the image tokens, one token for all numbers, and the slots. There is one
// slot for each dimension of each action of a chunk. With flow, there is one slot for each action. Tokens of the prefix
// attend to each other in both directions. Slots attend to the prefix. With tokens_autoregressive, a slot also attends
// to the earlier slots; with other heads, slots attend to each other. The value head reads the last token of the
// prefix, which attends to no slot.
//
// A pass (pass.go) has three steps: encode makes the sequences, the trunk computes their hidden states, and scatter
// passes the states to the action head and the value head. Action heads are parallel or iterative (head.go). The key
// action_head selects the head:
//
//   - tokens, parallel: bins of each dimension (OpenVLA-OFT, Kim et al. 2025, arXiv:2502.19645)
//   - l1, parallel: numbers; it can learn only from demonstrations
//   - tokens_autoregressive, iterative: bins, one after the other (OpenVLA, Kim et al. 2024,
//     arXiv:2406.09246)
//   - flow, iterative: numbers that are denoised (π0, Black et al. 2024, arXiv:2410.24164)
//
// Keypoints are the positions of image features, and join the numbers. With vision_words each word of the text has a
// keypoint of its own (word-conditioned attention). With vision_film the text modulates the features of the other
// keypoints (FiLM, Perez et al. 2018, arXiv:1709.07871). Without vision_words the text also modulates the features of
// the first convolution. With foresight, imitation also trains a prediction of later numbers of the demonstration. The
// inputs of the prediction are the numbers, the keypoints and the text.
//
// The results of a row do not depend on the other rows of the batch, bit for bit.
package vla
