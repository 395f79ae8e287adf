// Package nn has the parts of policies: parameters in one flat buffer, layers with hand-written
// backward passes, and their initialisation. Layers are generic: training computes in float32, and
// gradient checks in float64.
//
// A network is described by layers, then declared, given memory, and used:
//
//	layers := append(nn.Hidden([]int{64, 64}, nn.Tanh, nn.NoNorms), nn.Dense(2).Named("head").Gain(0.01))
//	p := new(nn.Params[float32])
//	p.Group("actor")                                  // the group of the following parameters
//	net := nn.NewStack(p, "actor", 4, layers...)      // reads rows of 4 numbers; NewNet reads named sources
//	err := p.Alloc(tensor.Heap)                       // all zeros
//	net.Init(seed)
//
//	w := net.NewWork(128)                             // activations of one user; layers hold no activations
//	logits := net.Forward(w, nn.Batch[float32]{Rows: n, Numbers: x})    // n ≤ 128
//
// Layers look up their parameters in Params at each call. To use another version of the weights, set Params.Data to a
// buffer of the same layout. All matrices are row-major: a batch is [n, width], and weights are [in, out]. A row of
// input gives the same output, bit for bit, in every batch. Backward adds to Params.Grad, and no layer clears it. The
// gradient of x is the derivative of the loss with respect to x.
//
// Layers ask Params.Ops for their arithmetic, so that a device can compute it. They compute norms, max pools,
// coordinates and sentences by themselves, because package kernel has no function for these.
//
// A Net with GRU or LSTM layers reads sequences. Its state is a part of the Batch, and so is the next state.
//
// Layers add their parameters in the order of the forward pass, and the backward pass finishes them in the opposite
// order. So Backward reports ranges of the flat gradient as ready from the end to the beginning, without a gap.
package nn
