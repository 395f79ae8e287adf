// Package member answers: what do workers of every task share? A worker is one member of a component. Its Replicas sum
// gradients with the other members, and a Share is its part of the State in a checkpoint.
package member
