// Package weights answers: how do versions of weights get from the actors, which train them, to the workers that
// read them? Workers on an actor's node read its parameters in place or copy them; other nodes receive them, whole
// or as changes, by package collectives. If members have parts of a model, a reader whose part no actor has puts its
// part together from the parts of several actors.
package weights
