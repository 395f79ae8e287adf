// Package member answers: what do workers of every task share? A worker is one member of a component. Replicas sum
// gradients over the members. A Share is a member's part of the State in a checkpoint. If a tensor of the state is
// divided among members, each of them holds a Part: Collect writes whole tensors, and Distribute reads them. Send and
// Receive move state to another rank.
//
// If a model is divided among several members, the component is a mesh: see package mesh.
// Replicas then connect the members with the same part of the model. A Line sums activations along one of the other
// axes. A Stage is a Line that also sends activations to the next layers.
package member
