// Package member answers: what do workers of every task share? A worker is one member of a component. A ReplicaGroup
// sums gradients over the members.
//
// If a model is divided among several members, the component is a mesh: see package mesh. A ReplicaGroup then connects
// the members with the same part of the model. An AxisGroup sums activations along one of the other axes. A
// StageGroup is an AxisGroup that also sends activations to the next layers.
package member
