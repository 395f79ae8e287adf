// Package nn has the parts of policies: parameters in one flat buffer, layers with hand-written
// backward passes, and their initialisation. Layers are generic: training computes in float32, and
// gradient checks in float64.
//
// A network is declared, then given memory, then used:
//
//	p := new(nn.Params[float32])
//	p.Group("actor")                                         // parameters added from here on belong to it
//	net := nn.NewMLP(p, "actor", 4, []int{64, 64}, nn.Tanh)  // hidden layers
//	net.AddHead(p, "actor", 2, 0.01)                         // an output layer of small weights
//	err := p.Alloc(tensor.Heap)                              // all zeros
//	net.Init(seed, math.Sqrt2)
//
//	w := net.NewWork(128)                                    // activations of one user; the layers hold none
//	logits := net.Forward(w, x, n)                           // n ≤ 128 rows
//
// Layers find their parameters in Params each time they are called, so a Params whose Data is set
// to another buffer of the same layout serves that version of the weights. All matrices are
// row-major; a batch is [n, width], and weights are [in, out]. A row of the output then has the
// same bits in every batch. Backward adds to Params.Grad; only Alloc clears it.
//
// A ConvNet turns images of bytes into features, and an Embedding turns words into features. Both are
// used like an MLP, with a Work for each user. A Recurrent layer, a GRU or an LSTM, reads sequences. It
// takes its state as an argument, and returns the next state.
//
// Layers add their parameters in the order of the forward pass, and the backward pass finishes them
// in the opposite order. So the ranges that Backward reports as ready go down through the flat
// gradient without a gap.
package nn
