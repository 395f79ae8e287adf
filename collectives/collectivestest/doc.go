// Package collectivestest is the conformance suite of package collectives. It runs every operation
// with every algorithm and type, compares the results with a plain reference, and checks guard
// words around the buffers. It runs on the ranks of any world, so one suite tests all transports.
package collectivestest
