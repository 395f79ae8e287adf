// Package collectivestest is the conformance suite of package collectives: every operation by every
// algorithm in every type, against a plain reference, between guard words. It runs on the ranks of
// any world, so that one suite judges all transports.
package collectivestest
