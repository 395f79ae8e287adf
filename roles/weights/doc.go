// Package weights answers: how do versions of weights get from the actors, which train them, to the workers that read
// them? Workers on an actor's node read the actor's parameters in place, or copy them. Other nodes receive the
// parameters through package collectives, whole or as changes. If a model is divided, each member has a part of it. If
// no actor has a reader's part, the reader assembles it from the parts of several actors.
package weights
