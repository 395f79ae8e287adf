// Package nn has the parts of policies: parameters in one flat buffer, layers with hand-written
// backward passes, and their initialisation. Layers are generic: training computes in float32, and
// gradient checks in float64.
//
// A network is declared, then given memory, then used:
//
//	p := new(nn.Params[float32])
//	p.Group("actor")                                         // the group of the following parameters
//	net := nn.NewMLP(p, "actor", 4, []int{64, 64}, nn.Tanh)  // hidden layers
//	net.AddHead(p, "actor", 2, 0.01)                         // an output layer with small weights
//	err := p.Alloc(tensor.Heap)                              // all zeros
//	net.Init(seed, math.Sqrt2)
//
//	w := net.NewWork(128)                                    // activations of one user; layers hold no activations
//	logits := net.Forward(w, x, n)                           // n ≤ 128 rows
//
// Layers look up their parameters in Params at each call. To compute with another version of the weights, set
// Params.Data to a buffer of the same layout. All matrices are row-major: a batch is [n, width], and weights are [in,
// out]. A row of input gives the same output, bit for bit, in every batch. Backward adds to Params.Grad, and no layer
// clears it. The gradient of x is the derivative of the loss with respect to x.
//
// A ConvNet turns images of bytes into features, and an Embedding turns words into features. Both are used like an MLP,
// with a Work for each user. A Recurrent layer (a GRU or an LSTM) reads sequences. Its state is an argument, and the
// next state is a result.
//
// Layers add their parameters in the order of the forward pass, and the backward pass finishes them in the opposite
// order. So Backward reports ranges of the flat gradient as ready from the end to the beginning, without a gap.
package nn
