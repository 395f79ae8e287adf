// Package weights answers: how do versions of weights get from the actors, which train them, to the workers that read
// them? Workers on an actor's node read its parameters in place or copy them. Other nodes receive the parameters
// through package collectives, whole or as changes. Members may have parts of a model. If no actor has a reader's part,
// the reader assembles this part from the parts of several actors.
package weights
