// Package member answers: what do workers of every task share? A worker is one member of a component. Its Replicas sum
// gradients with the other members, and a Share is its part of the State in a checkpoint. If members divide a tensor of
// the state, each has a Part of the tensor: Collect writes the whole tensors, and Distribute reads them. Send and
// Receive bring state to another rank.
// If several members divide a model, the component is a mesh with the axes Data, Pipeline and Tensor. Replicas then
// connect the copies of one part of the model. During a pass through the model, a Line sums along one of the other
// axes. A Stage also sends activations from one part of the layers to the next.
package member
