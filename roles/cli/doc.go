// Package cli answers: which command did the user call? Main is the command line, and each command
// has a file of its own; bench and sweep have packages.
package cli
