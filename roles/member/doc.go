// Package member answers: what do workers of every task share? A worker is one member of a component. Its Replicas sum
// gradients with the other members, and a Share is its part of the State in a checkpoint. Where tensors of the state
// are divided among members, each has a Part of them: Collect writes the whole tensors, and Distribute reads them. Send
// and Receive bring state to another rank.
//
// Where a model is divided among several members, the component is a mesh with the axes Data, Pipeline and Tensor. The
// Replicas are then those of one part of the model. A Line sums along the other axes inside a pass, and a Stage also
// sends what one part of the layers computes to the next.
package member
