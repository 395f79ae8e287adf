// Package weights answers: how do versions of weights get from the actors, which train them, to the workers that
// read them?
package weights
