// Package collectivestest is the conformance suite of package collectives. It runs every operation with
// every algorithm and type, compares the results with a simple reference, and checks guard bytes around the
// buffers. It runs in any world, so one suite tests all transports.
package collectivestest
